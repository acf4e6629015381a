"""Jumps between known modes at the end of an interval."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from tacthmc._positions import flatten, scalar_dtype
from tacthmc._typing import PRNGKey, Scalar
from tacthmc.compiler._random import jump_key
from tacthmc.dynamics import Info, Langevin, Sampler
from tacthmc.potentials import Potential


class AfterJump(NamedTuple):
    """A chain after the jump that was due, if any."""

    state: Any
    last: Info
    """The information on the last step, with the energy after the jump."""
    mode: Int[Array, ""]
    """The known mode that the position is in."""
    jumped: Bool[Array, ""]
    """Whether a jump was accepted."""


def jump_if_due(
    sampler: Sampler,
    potential: Potential,
    key: PRNGKey,
    chain: tuple[Any, Info],
    number: Int[Array, ""],
    every: int,
) -> AfterJump:
    """One attempt, if interval ``number`` of ``every`` steps ends with one and λ = 1.

    ``number`` is the same for all chains, so that energies of all data are computed only when a
    jump is due: a condition that differed between chains would compute both branches.
    """
    assert isinstance(sampler, Langevin)
    assert sampler.jumps is not None
    state, last = chain

    # Only this changes: the rest of a state may be large, and is not copied.
    now = state.position, state.memory

    def attempt() -> tuple[Any, Scalar, Bool[Array, ""]]:
        after, jump = sampler.jump(jump_key(key, state.step), state, potential)
        # A chain that is hot, or no longer finite, stays where it is.
        taken = jump.accepted & last.at_unit_temperature
        there = after.position, after.memory
        chosen = jax.tree.map(lambda new, old: jnp.where(taken, new, old), there, now)
        energy = jnp.where(taken, jump.energy.astype(last.energy.dtype), last.energy)
        return chosen, energy, taken

    def stay() -> tuple[Any, Scalar, Bool[Array, ""]]:
        return now, last.energy, jnp.zeros((), bool)

    intervals = -(-sampler.jumps.every // every)
    if intervals == 1:
        chosen, energy, taken = attempt()
    else:
        due = number % jnp.asarray(intervals).astype(number.dtype) == 0
        chosen, energy, taken = jax.lax.cond(due, attempt, stay)
    state = replace(state, position=chosen[0], memory=chosen[1])
    theta = sampler.position(state)
    mode = sampler.jumps.modes.nearest(flatten(theta, scalar_dtype(theta)))
    return AfterJump(state, last._replace(energy=energy), mode, taken)
