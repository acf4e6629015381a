"""Control variates: less noise, and still unbiased."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


def normal_mean():
    data = jnp.linspace(-1.0, 2.0, 30)
    return tacthmc.posterior(
        lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum((x - m) ** 2), data, 5
    )


@pytest.mark.parametrize("center", [jnp.zeros(()), jnp.zeros((2, 2)), {"m": jnp.zeros(2)}])
def test_a_center_of_another_shape_is_refused(center):
    if isinstance(center, dict):
        with pytest.raises(TypeError):
            control_variates(normal_mean(), center)
        return
    better = control_variates(normal_mean(), center)
    with pytest.raises(ValueError, match="center must have the leaves of the position, of shape"):
        tacthmc.sample(jax.random.key(0), tacthmc.sgnht(1e-3), better, jnp.zeros(2), 100)


def test_a_center_must_be_finite():
    with pytest.raises(ValueError, match=r"center leaf .theta. must be finite; got 1 values"):
        control_variates(normal_mean(), jnp.array([0.0, jnp.nan]))
    steep = tacthmc.posterior(jnp.log, lambda m, x: -0.5 * (x - m) ** 2, jnp.ones(4), 2)
    with pytest.raises(ValueError, match="the energy at center must be finite; got inf"):
        control_variates(steep, jnp.zeros(()))
