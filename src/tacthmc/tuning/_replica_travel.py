"""Whether replicas travel on a ladder: a given one on which they do not is refused."""

import jax
import numpy as np
from jaxtyping import Int

from tacthmc._positions import flatten
from tacthmc._typing import Position
from tacthmc.dynamics import Modes
from tacthmc.samplers._replica_ladder import Barrier
from tacthmc.tuning._choices import TuningError

MAX_GIVEN_REJECTION = 0.99
"""The rejection rate of neighbors on a given ladder from which it is refused."""
MIN_ARRIVALS = 10
"""The number of arrivals at the target that a given ladder has to let one expect of a run."""


def check_given_ladder(barrier: Barrier, rounds: float | None) -> None:
    """Raise an error for a given ladder on which hardly any replica would arrive at the target.

    ``rounds`` is the number of rounds of swaps of the run that follows, over all chains.
    """
    worst = int(np.argmax(barrier.rejections))
    expected = np.inf if rounds is None else rounds / barrier.trip
    if barrier.rejections[worst] <= MAX_GIVEN_REJECTION and expected >= MIN_ARRIVALS:
        return
    cold, hot = barrier.inverse_temperatures[[worst, worst + 1]]
    raise TuningError(
        f"inverse_temperatures must let replicas travel: {barrier.rejections[worst]:.1%} of swaps"
        f" between λ = {cold:.3g} and {hot:.3g} were rejected in short runs. Give more values"
        " between them, or leave out inverse_temperatures"
    )


def modes_of_replicas(positions: Position, modes: Modes) -> Int[np.ndarray, "c k"]:
    """The number of the mode nearest to each replica, by chain and rung."""

    def nearest(position: Position) -> jax.Array:
        return modes.nearest(flatten(position, modes.centers.dtype))

    return np.asarray(jax.jit(jax.vmap(jax.vmap(nearest)))(positions))


def is_frozen(before: Int[np.ndarray, "c k"], after: Int[np.ndarray, "c k"]) -> bool:
    """Whether no replica has changed its mode, in any chain.

    Swaps exchange the modes of two rungs, and so leave the same numbers in a chain.

    >>> is_frozen(np.array([[0, 1, 0]]), np.array([[1, 0, 0]]))
    True
    >>> is_frozen(np.array([[0, 1, 0]]), np.array([[1, 1, 0]]))
    False
    """
    return bool(np.all(np.sort(before, axis=1) == np.sort(after, axis=1)))
