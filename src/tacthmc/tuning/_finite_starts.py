"""Starts where the density is not zero, for posteriors that end at a wall."""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from tacthmc._typing import Position
from tacthmc.potentials import Potential


def finite_starts(potential: Potential, positions: Position) -> Position:
    """A stack of positions, in which those of infinite energy are replaced by others of the stack.

    >>> import jax.numpy as jnp, tacthmc
    >>> wall = tacthmc.potential(lambda x: jnp.where(x > 0, x, jnp.inf))
    >>> finite_starts(wall, jnp.array([1.0, -1.0, 2.0, -3.0])).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    if not potential.traits.has_energy or potential.traits.num_chains is not None:
        return positions
    finite = np.isfinite(np.asarray(_energies(potential, positions), float))
    if finite.all() or not finite.any():
        return positions
    good, source = np.flatnonzero(finite), np.arange(len(finite))
    source[~finite] = np.resize(good, int(np.sum(~finite)))
    return jax.tree.map(lambda x: x[source], positions)


@eqx.filter_jit
def _energies(potential: Potential, positions: Position) -> Float[Array, " n"]:
    return jax.lax.map(potential.energy, positions)
