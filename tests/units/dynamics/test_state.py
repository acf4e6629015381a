"""The state that a chain carries."""

import jax
import jax.numpy as jnp

import tacthmc
from tacthmc.dynamics import Coordinates


def test_a_state_can_be_donated():
    """No buffer is in a fresh state twice."""
    sampler = tacthmc.tact(0.01, coordinates=Coordinates(center="mean"))
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    step = jax.jit(lambda s, k: sampler.step(k, s, target, ())[0], donate_argnums=0)
    state = sampler.init(jax.random.key(0), jnp.zeros(2))
    for i in range(2):
        state = step(state, jax.random.key(i))
    assert int(state.step) == 2
