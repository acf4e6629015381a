"""How many gradients a search for modes may take."""

from typing import Any

import jax
import numpy as np

from tacthmc._typing import Position
from tacthmc.potentials import Potential, forces

SEARCH_SHARE = 0.1
"""The gradients of a search as a share of those of the run."""
MIN_GRADIENTS, MAX_CHEAP_GRADIENTS = 30_000.0, 120_000.0
"""The gradients that a search may take in any case, and those where they cost next to nothing."""
CHEAP_OPERATIONS = 5e9
"""The number of operations that costs next to nothing: some seconds of one core."""

LOOPS = ("scan[", "while[")
"""The names of loops in traced functions."""


def search_budget(potential: Potential, like: Position, run: float) -> float:
    """The gradients of a search for modes before a run of ``run`` gradients.

    >>> import jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> search_budget(target, jnp.zeros(2), 1e4), search_budget(target, jnp.zeros(2), 1e7)
    (120000.0, 1000000.0)
    """
    affordable = CHEAP_OPERATIONS / operations(potential, like)
    return max(SEARCH_SHARE * run, float(np.clip(affordable, MIN_GRADIENTS, MAX_CHEAP_GRADIENTS)))


def operations(potential: Potential, like: Position) -> float:
    """The number of operations of a gradient, by the compiler's count; infinite if unknown.

    It is unknown for a model with loops, whose turns the compiler does not count.
    """

    def gradient(position: Position, key: Any) -> Any:
        return forces(potential, position, potential.batch(key, position)).gradient

    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), like)
    traced = jax.jit(gradient).trace(shapes, jax.random.key(0))
    if any(loop in str(traced.jaxpr) for loop in LOOPS):
        return np.inf
    found = float((traced.lower().cost_analysis() or {}).get("flops", np.inf))
    return found if found > 0 else np.inf
