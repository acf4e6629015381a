"""Noise that is added to energies and forces."""

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc


def test_noise_has_the_stated_spread():
    covariance = jnp.array([[4.0, 1.0], [1.0, 2.0]])
    potential = tacthmc.noisy(
        tacthmc.potential(lambda x: jnp.sum(x)), energy=2.0, covariance=covariance
    )
    keys = jax.random.split(jax.random.key(0), 40_000)
    position = jnp.zeros(2)
    values, gradients = jax.vmap(
        lambda key: potential.value_and_grad(position, potential.batch(key, position))
    )(keys)
    assert np.allclose(np.cov(np.asarray(gradients).T), covariance, atol=0.15)
    assert np.isclose(np.var(np.asarray(values)), 4.0, atol=0.15)
    assert abs(np.corrcoef(np.asarray(values), np.asarray(gradients[:, 0]))[0, 1]) < 0.03
