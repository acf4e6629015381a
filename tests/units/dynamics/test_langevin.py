"""The family's sampler with parts of one's own."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.dynamics import Splitting


class Halting(Splitting):
    """An integrator of one's own: the splitting's step, but θ stays."""

    def step(self, parts, now, noise, state, potential, batch):
        result = super().step(parts, now, noise, state, potential, batch)
        return result._replace(state=replace(result.state, position=state.position))


def test_an_integrator_of_ones_own_moves_a_large_position():
    """For a position this large, random numbers are drawn one step at a time."""
    sampler, target = tacthmc.sgnht(0.01, integrator=Halting()), tacthmc.potential(jnp.sum)
    run = tacthmc.sample(
        jax.random.key(0), sampler, target, jnp.zeros(20_000), 100, keep=tacthmc.Keep(after=0)
    )
    assert run.draws.shape == (1, 2, 20_000)
    assert not np.any(run.draws)
    assert np.any(run.state.momentum)
