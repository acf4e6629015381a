"""From the start down to the plateau, with a step size that is stable on the way."""

from typing import NamedTuple

import jax
import numpy as np

from tacthmc._positions import dimension
from tacthmc._typing import Position, PRNGKey
from tacthmc.potentials._base import Potential
from tacthmc.tuning._bursts import Bursts
from tacthmc.tuning._choices import TuningError
from tacthmc.tuning._curvature import largest_curvatures

CAREFUL = 0.1
"""η times the largest curvature on the way down."""
FRICTION = 0.3
"""Strong, so that what falls does not fly."""
ROUNDS = 40
SLOWEST = 4.0**12
LOOKED_AT = 4
"""Positions at which curvatures are measured."""


class Settled(NamedTuple):
    """Chains on the plateau, and the largest curvature there."""

    positions: Position
    curvature: float


def settle(key: PRNGKey, bursts: Bursts, starts: Position) -> Settled:
    """Bursts until the mean energy falls no more; a quarter of the step size after each failure."""
    positions, size = starts, dimension(starts) // bursts.chains
    curvature = curvature_at(key, bursts.potential, positions, 1)
    slowed, lowest, calm = 1.0, np.inf, 0
    seen: list[str] = []
    for number in range(ROUNDS):
        if not (np.isfinite(curvature) and curvature > 0):
            where = "init" if not number else f"the place reached after {number} bursts"
            raise TuningError(
                f"no step size can be found: the energy's curvature at {where} is {curvature}."
                f" Start elsewhere, or give step_size. {_tried(seen)}"
            )
        key, now = jax.random.split(key)
        eta = CAREFUL / curvature / slowed
        burst = bursts.run(now, positions, eta, FRICTION)
        seen.append(f"η = {eta:.3g} {'was stable' if burst.finite else 'diverged'}")
        if not burst.finite:
            slowed *= 4
            if slowed > SLOWEST:
                raise TuningError(f"no stable step size was found from init on. {_tried(seen)}")
            continue
        positions = burst.positions
        curvature = curvature_at(now, bursts.potential, positions)
        means = burst.energies.mean(axis=1)
        error = means.std() / np.sqrt(len(means))
        # Less than a tenth of the energy's own fluctuations is no fall.
        falls = lowest - means.mean() > 2 * error + 0.1 * np.sqrt(size / 2)
        lowest = min(lowest, float(means.mean()))
        calm = 0 if falls else calm + 1
        slowed = max(1.0, slowed / 2)
        if calm == 2:
            break
    return Settled(positions, curvature * slowed)


def curvature_at(
    key: PRNGKey, potential: Potential, positions: Position, count: int = LOOKED_AT
) -> float:
    """The largest curvature at the first few of the chains' positions."""
    some = jax.tree.map(lambda x: x[:count], positions)
    return float(np.max(largest_curvatures(key, potential, some, 20)))


def _tried(seen: list[str]) -> str:
    return f"Tried: {'; '.join(seen)}" if seen else ""
