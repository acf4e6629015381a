"""The descent from the start to typical energies, with a step size that is stable on the way."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc._positions import dimension
from tacthmc._typing import Position, PRNGKey
from tacthmc.compiler._random import normals
from tacthmc.potentials._base import Potential, forces
from tacthmc.tuning._bursts import Bursts
from tacthmc.tuning._choices import TuningError
from tacthmc.tuning._curvature import largest_curvatures

DESCENT_ETA_CURVATURE = 0.1
"""η times the largest curvature during the descent."""
DESCENT_FRICTION = 0.3
"""The friction during the descent, which is strong to prevent overshooting."""
MAX_ROUNDS = 40
"""The largest number of bursts."""
MAX_SLOWDOWN = 4.0**12
"""The largest factor by which the step size is reduced."""
DISTANCES_FROM_FLAT = np.geomspace(0.01, 100.0, 17)
"""The distances from a flat start at which the energy is looked at, relative to its length."""
MIN_CHANGE, MAX_CHANGE = 0.5, 100.0
"""The smallest change of the energy at a place whose curvature gives a step, and the largest per
dimension at the distance that belongs to a curvature, in units of kT."""
NUM_CURVATURE_PLACES = 4
"""The number of positions at which curvatures are measured."""


class Descended(NamedTuple):
    """Chains at typical energies, and the largest curvature there."""

    positions: Position
    curvature: float


def descend(key: PRNGKey, bursts: Bursts, starts: Position, least: float = 0.0) -> Descended:
    """Run bursts until the mean energy stops falling, with a quarter of η after each failure.

    ``least`` is a curvature that steps have to bear in any case.
    """
    positions, size = starts, dimension(starts) // bursts.chains
    curvature = max(first_curvature(key, bursts.potential, positions), least)
    slowed, lowest, stalled_rounds = 1.0, np.inf, 0
    tried: list[str] = []
    for number in range(MAX_ROUNDS):
        if not (np.isfinite(curvature) and curvature > 0):
            where = "init" if not number else f"the place reached after {number} bursts"
            raise TuningError(
                f"no step size can be found: the curvature at {where} is {curvature}. Start"
                f" elsewhere, or give step_size. {_listed(tried)}"
            )
        key, now = jax.random.split(key)
        eta = DESCENT_ETA_CURVATURE / curvature / slowed
        burst = bursts.run(now, positions, eta, DESCENT_FRICTION)
        tried.append(f"η = {eta:.3g} {'was stable' if burst.finite else 'diverged'}")
        if not burst.finite:
            slowed *= 4
            if slowed > MAX_SLOWDOWN:
                raise TuningError(f"no stable step size was found from init. {_listed(tried)}")
            continue
        positions = burst.positions
        curvature = max(curvature_at(now, bursts.potential, positions), least)
        means = burst.energies.mean(axis=1)
        error = means.std() / np.sqrt(len(means))
        # A fall by less than a tenth of the fluctuations of the energy does not count.
        falls = lowest - means.mean() > 2 * error + 0.1 * np.sqrt(size / 2)
        lowest = min(lowest, float(means.mean()))
        stalled_rounds = 0 if falls else stalled_rounds + 1
        slowed = max(1.0, slowed / 2)
        if stalled_rounds == 2:
            break
    return Descended(positions, curvature * slowed)


def first_curvature(key: PRNGKey, potential: Potential, starts: Position) -> float:
    """The largest curvature at the first start, or where the energy changes if it is flat there.

    It is flat if the length that belongs to the curvature leads to very different energies.
    """
    here = curvature_at(key, potential, starts, 1)
    first = jax.tree.map(lambda x: x[0], starts)
    normal, _ = normals(key, first)

    def change(distance: float) -> float:
        """The energy at a distance in a random direction, less that at the start."""
        there = _moved(first, normal, distance)
        return float(_rise(key, potential, first, there))

    if not np.isfinite(here):
        return here
    size = dimension(first)
    if here > 0 and abs(change(1 / np.sqrt(here))) < MAX_CHANGE * (size + 1):
        return here
    length = float(np.sqrt(sum(np.sum(np.square(x)) for x in jax.tree.leaves(first)))) or 1.0
    for distance in length * DISTANCES_FROM_FLAT:
        if not abs(change(distance)) <= MIN_CHANGE:
            near = jax.tree.map(lambda x: x[None], _moved(first, normal, distance))
            there = curvature_at(key, potential, near, 1)
            return max(here, there) if np.isfinite(there) else here
    return here


@eqx.filter_jit
def _rise(key: PRNGKey, potential: Potential, start: Position, end: Position) -> Any:
    """The difference of two energies of the same batch."""
    model, batch = potential.init_model(), potential.batch(key, start)
    ahead, before = (forces(potential, x, batch, model).energy for x in (end, start))
    return ahead - before


def _moved(position: Position, direction: Position, distance: Any) -> Position:
    return jax.tree.map(
        lambda x, n: x + (distance * n).astype(jnp.asarray(x).dtype), position, direction
    )


def curvature_at(
    key: PRNGKey, potential: Potential, positions: Position, count: int = NUM_CURVATURE_PLACES
) -> float:
    """The largest curvature at the positions of the first few chains."""
    some = jax.tree.map(lambda x: x[:count], positions)
    return float(np.max(largest_curvatures(key, potential, some, 20)))


def _listed(tried: list[str]) -> str:
    return f"Tried: {'; '.join(tried)}" if tried else ""
