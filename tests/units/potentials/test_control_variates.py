"""Control variates: less noise, and still unbiased."""

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.potentials import control_variates, measure_noise


def log_likelihood(t, e):
    logit = e["x"] @ t
    return e["y"] * logit - jax.nn.softplus(logit)


def test_they_reduce_noise_and_stay_unbiased():
    rng = np.random.default_rng(0)
    data = {
        "x": jnp.asarray(rng.normal(size=(200, 2)), jnp.float32),
        "y": jnp.asarray(rng.random(200) < 0.5, jnp.float32),
    }
    model = tacthmc.posterior(lambda t: -0.5 * jnp.sum(t**2), log_likelihood, data, 20)
    better = control_variates(model, jnp.zeros(2))
    theta = jnp.array([0.1, -0.1])
    plain = measure_noise(jax.random.key(0), model, theta, 500)
    reduced = measure_noise(jax.random.key(0), better, theta, 500)
    assert reduced.mean_force < plain.mean_force / 20
    assert reduced.energy < plain.energy / 20
    value, gradient = better.value_and_grad(theta, data)
    assert np.isclose(float(value), float(model.energy(theta)), rtol=1e-5)
    assert np.allclose(gradient, jax.grad(model.energy)(theta), rtol=1e-4, atol=1e-4)
