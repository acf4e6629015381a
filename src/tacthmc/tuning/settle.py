"""From the start down to the plateau, with a step size that is stable on the way."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc._typing import Position, PRNGKey
from tacthmc.curvature import largest_curvatures
from tacthmc.positions import dimension
from tacthmc.potential import Potential
from tacthmc.tuning.bursts import Burst, Bursts
from tacthmc.tuning.choices import TuningError

CAREFUL = 0.1
"""η times the largest curvature on the way down."""
FRICTION = 0.3
"""Strong, so that what falls does not fly."""
ROUNDS = 40
LOOKED_AT = 4
"""Positions at which curvatures are measured."""


class Settled(NamedTuple):
    """Chains on the plateau, the largest curvature there, and how many bursts it took."""

    burst: Burst
    curvature: float
    rounds: int


def settle(key: PRNGKey, bursts: Bursts, init: Position, stacked: bool = False) -> Settled:
    """Bursts until the mean energy falls no more; a quarter of the step size after each failure."""
    positions = init
    if not stacked:
        positions = jax.tree.map(lambda x: jnp.broadcast_to(x, (bursts.chains, *x.shape)), init)
    size = dimension(positions) // bursts.chains
    curvature = curvature_at(key, bursts.potential, positions, 1)
    if not (np.isfinite(curvature) and curvature > 0):
        raise TuningError(
            f"no step size can be found: the energy's curvature at init is {curvature}."
            " Start elsewhere, or give step_size"
        )
    slowed, before, calm, seen = 1.0, np.inf, 0, []
    for number in range(ROUNDS):
        key, now = jax.random.split(key)
        eta = CAREFUL / curvature / slowed
        burst = bursts.run(now, positions, eta, FRICTION)
        seen.append(f"η = {eta:.3g}: " + ("finite" if burst.finite else "diverged"))
        if not burst.finite:
            slowed *= 4
            if slowed > 4**12:
                raise TuningError(
                    "no stable step size was found from init on; tried " + "; ".join(seen)
                )
            continue
        positions = burst.positions
        curvature = curvature_at(now, bursts.potential, positions)
        if not (np.isfinite(curvature) and curvature > 0):
            raise TuningError(
                f"the energy's curvature became {curvature} after {number + 1} bursts;"
                " tried " + "; ".join(seen)
            )
        means = burst.energies.mean(axis=1)
        error = means.std() / np.sqrt(len(means))
        # Less than a tenth of the energy's own fluctuations is no fall.
        falls = before - means.mean() > 2 * error + 0.1 * np.sqrt(size / 2)
        before = min(before, float(means.mean()))
        calm = 0 if falls else calm + 1
        slowed = max(1.0, slowed / 2)
        if calm == 2:
            return Settled(burst, curvature * slowed, number + 1)
    return Settled(burst, curvature * slowed, ROUNDS)


def curvature_at(
    key: PRNGKey, potential: Potential, positions: Position, count: int = LOOKED_AT
) -> float:
    """The largest curvature at the first few of the chains' positions."""
    some = jax.tree.map(lambda x: x[:count], positions)
    return float(np.max(largest_curvatures(key, potential, some, 20)))
