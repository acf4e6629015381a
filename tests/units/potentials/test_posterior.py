"""Posteriors estimated from mini-batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc


def test_minibatch_estimates_are_unbiased():
    data = {"x": jnp.arange(12.0), "y": jnp.arange(12.0) ** 2}
    model = tacthmc.posterior(
        lambda t: -0.5 * t**2, lambda t, e: -0.5 * (e["y"] - t * e["x"]) ** 2, data, 4
    )
    theta = jnp.array(0.7)
    values, gradients = [], []
    for i in range(3):
        batch = jax.tree.map(lambda x, i=i: x[4 * i : 4 * i + 4], data)
        value, gradient = model.value_and_grad(theta, batch)
        values.append(float(value))
        gradients.append(float(gradient))
    assert np.isclose(np.mean(values), float(model.energy(theta)), rtol=1e-6)
    assert np.isclose(np.mean(gradients), float(jax.grad(model.energy)(theta)), rtol=1e-6)


def test_batched_likelihoods_are_the_same():
    data = jax.random.normal(jax.random.key(0), (10, 2))

    def log_prior(t):
        return -jnp.sum(t**2)

    one = tacthmc.posterior(log_prior, lambda t, x: -jnp.sum((x - t) ** 2), data, 4)
    many = tacthmc.posterior(
        log_prior, lambda t, x: -jnp.sum((x - t[None]) ** 2, axis=1), data, 4, batched=True
    )
    theta = jnp.array([0.3, -0.2])
    found = [jax.tree.leaves(p.value_and_grad(theta, data[:4])) for p in (one, many)]
    for a, b in zip(*found, strict=True):
        assert np.allclose(a, b, rtol=1e-6)
    assert np.isclose(float(one.energy(theta)), float(many.energy(theta)), rtol=1e-6)


def test_a_batch_as_large_as_the_data_has_no_noise():
    data = jnp.arange(10.0)
    model = tacthmc.posterior(lambda m: -0.5 * m**2, lambda m, x: -0.5 * (x - m) ** 2, data, 10)
    at = jnp.array(0.5)
    found = [model.estimate(at, model.batch(jax.random.key(i), at)).total for i in range(3)]
    assert [float(value) for value in found] == pytest.approx([float(model.energy(at))] * 3)
    assert not model.traits.independent_batches


def test_a_posterior_is_made_of_traced_data():
    """Calibration makes one for each data set inside of a compiled program."""

    def energy(data):
        model = tacthmc.posterior(
            lambda m: -0.5 * m**2, lambda m, x: -0.5 * (x - m) ** 2, data, batch_size=2
        )
        return model.energy(jnp.zeros(()))

    assert float(jax.jit(energy)(jnp.full(4, 2.0))) == 8.0
