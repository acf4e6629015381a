"""The hottest temperature: chains are heated and cooled again, and their positions compared."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics._linear_map import LinearMap, MappedPotential
from tacthmc.potentials._base import Potential
from tacthmc.tuning._bursts import Burst, Bursts
from tacthmc.tuning._choices import TuningError
from tacthmc.tuning._friction import MAX_DENSE_DIMENSION

TEMPERATURE_RATIO = 3.0
"""The ratio of neighboring temperatures."""
MAX_LEVELS = 6
"""The largest number of levels, up to a temperature of 3⁶ = 729."""
MIN_MOVED_SHARE = 0.15
"""The smallest share of chains that have to move for heat to help; small, for light modes."""
MAX_USELESS_TEMPERATURE = 1.5
"""The largest hottest temperature if heat does not help."""
MIN_RELATIVE_SHARE = 0.7
"""The share, relative to the largest one, that counts as nearly as many."""
MIN_RETURNED_SHARE = 0.9
"""The smallest share of chains whose energy has to return to that before heating."""
ROUND_TRIP_BURSTS = 3
"""The number of bursts to the first level and back."""
MIN_SQUARED_DISTANCE_RATIO = 9.0
"""The smallest squared distance of a move, relative to that between the halves of a chain."""


class Level(NamedTuple):
    """Chains at one temperature."""

    temperature: float
    burst: Burst


class Cooled(NamedTuple):
    """Chains that were heated to a level and cooled to unit temperature again."""

    burst: Burst
    moved: float
    """The share of chains that came back elsewhere."""
    returned: float
    """The share of chains whose energy returned to that before heating."""


class Ladder(NamedTuple):
    """Levels of temperature, and the chains that were cooled from each tried level."""

    levels: list[Level]
    cooled: list[Cooled]
    given: bool
    """Whether the hottest temperature was given."""
    potential: Potential
    """The potential of the chains."""
    moves_unheated: bool = False
    """Whether chains also moved elsewhere without heat."""

    @property
    def linear(self) -> LinearMap | None:
        """The linear coordinates of the chains."""
        return self.potential.linear if isinstance(self.potential, MappedPotential) else None

    @property
    def moved(self) -> list[float]:
        """The shares that heat moved elsewhere; 0 if too few chains returned at all."""
        valid = [not self.moves_unheated and c.returned >= MIN_RETURNED_SHARE for c in self.cooled]
        return [c.moved if v else 0.0 for c, v in zip(self.cooled, valid, strict=True)]

    @property
    def widest(self) -> Burst:
        """Chains at unit temperature, in as many modes as were found."""
        if self.given:
            return self.cooled[-1].burst
        moved = self.moved
        best = int(np.argmax(moved))
        return self.cooled[best].burst if moved[best] >= MIN_MOVED_SHARE else self.levels[0].burst

    @property
    def is_useful(self) -> bool:
        """Whether enough chains came back elsewhere from any level."""
        return max(self.moved) >= MIN_MOVED_SHARE

    @property
    def should_rest(self) -> bool:
        """Whether ξ should mostly rest: in high dimension, if heat is not known to help."""
        return not self.is_useful and self.levels[0].burst.draws.shape[-1] > MAX_DENSE_DIMENSION

    @property
    def hottest(self) -> tuple[float, str]:
        """The hottest temperature and its reason.

        It is the first level from which nearly as many chains come back elsewhere as from any, or
        a low one if heat does not help.
        """
        moved = self.moved
        if self.moves_unheated:
            return MAX_USELESS_TEMPERATURE, (
                "in short runs nearly as many chains move elsewhere without heat, so these cannot"
                " tell whether heat helps"
            )
        reached = self.levels[len(moved)].temperature
        if not self.is_useful and self.cooled[-1].returned < MIN_RETURNED_SHARE:
            return MAX_USELESS_TEMPERATURE, (
                f"chains that were heated to {reached:g} had not cooled in the same time, so it is"
                " not known whether heat helps"
            )
        if not self.is_useful:
            return MAX_USELESS_TEMPERATURE, (
                f"chains that were heated to {reached:g} and cooled again came back to their old"
                " places: no other mode is within reach"
            )
        best = next(k for k, share in enumerate(moved) if share >= MIN_RELATIVE_SHARE * max(moved))
        found = self.levels[best + 1].temperature
        return found, (
            f"heated to {found:g} and cooled again, {moved[best]:.0%} of the chains came back"
            " elsewhere, and hardly more of them with more heat"
        )


def climb_ladder(
    key: PRNGKey, bursts: Bursts, plateau: Burst, eta: float, c: float, top: float | None = None
) -> Ladder:
    """Heat chains by factors of three, and cool them again from each level.

    If the hottest temperature ``top`` is given, the ladder ends there, and chains are cooled only
    from there. Otherwise it ends where chains no longer return.
    """
    levels, cooled = [Level(1.0, plateau)], []
    moves_unheated = False
    for temperature in _temperatures(top):
        key, up, down = jax.random.split(key, 3)
        level, eta = _heat(up, bursts, levels[-1].burst.positions, eta, c, temperature)
        levels.append(level)
        if top is not None and temperature != top:
            continue
        cooled.append(_compared(plateau, _cool(down, bursts, levels, eta, c)))
        if len(cooled) == 1 and top is None and plateau.draws.shape[-1] > MAX_DENSE_DIMENSION:
            key, now = jax.random.split(key)
            moves_unheated = _moves_unheated(now, bursts, plateau, eta, c, cooled[-1].moved)
        if moves_unheated or cooled[-1].returned < MIN_RETURNED_SHARE:
            break
    return Ladder(levels, cooled, top is not None, bursts.potential, moves_unheated)


def _temperatures(top: float | None) -> list[float]:
    temperatures = [TEMPERATURE_RATIO**k for k in range(1, MAX_LEVELS + 1)]
    return temperatures if top is None else [t for t in temperatures if t < top] + [top]


def _moves_unheated(
    key: PRNGKey, bursts: Bursts, plateau: Burst, eta: float, c: float, moved: float
) -> bool:
    """Whether nearly as many chains move elsewhere without heat in the same time."""
    burst = plateau
    for now in jax.random.split(key, ROUND_TRIP_BURSTS):
        burst = bursts.run(now, burst.positions, eta, c)
    if not burst.finite:
        return False
    share = share_elsewhere(plateau.draws, burst.draws)
    return share >= MIN_MOVED_SHARE and share >= MIN_RELATIVE_SHARE * moved


def _compared(plateau: Burst, burst: Burst) -> Cooled:
    means, at_home = burst.energies.mean(axis=1), plateau.energies.mean(axis=1)
    # The differences between unheated chains, and the statistical error of the mean of a burst.
    allowed = 3 * np.hypot(at_home.std(), plateau.energies.std() / np.sqrt(burst.energies.shape[1]))
    return Cooled(
        burst,
        share_elsewhere(plateau.draws, burst.draws),
        float(np.mean(means < at_home.mean() + allowed)),
    )


def _heat(
    key: PRNGKey, bursts: Bursts, positions: Position, eta: float, c: float, temperature: float
) -> tuple[Level, float]:
    for _ in range(8):
        key, now = jax.random.split(key)
        burst = bursts.run(now, positions, eta, c / temperature, temperature)
        if burst.finite:
            return Level(temperature, burst), eta
        eta /= 2
    raise TuningError(
        f"at temperature {temperature:g} the chains diverged even at η = {2 * eta:.3g}: give a"
        " coupling that ends below it, such as coupling=tacthmc.dynamics.PowerCoupling.up_to("
        f"{temperature / TEMPERATURE_RATIO:g}), or a prior that holds θ together"
    )


def _cool(key: PRNGKey, bursts: Bursts, levels: list[Level], eta: float, c: float) -> Burst:
    positions = levels[-1].burst.positions
    for level in levels[-2:0:-1]:
        key, now = jax.random.split(key)
        hot = level.temperature
        positions = bursts.run(now, positions, eta, c / hot, hot, 0.5).positions
    first, second = jax.random.split(key)
    positions = bursts.run(first, positions, eta, c).positions
    burst = bursts.run(second, positions, eta, c)
    if not burst.finite:
        raise TuningError(
            f"chains that were heated to {levels[-1].temperature:g} and cooled diverged at unit"
            f" temperature with η = {eta:.3g}: give a smaller step_size"
        )
    return burst


def share_elsewhere(
    before: Float[np.ndarray, "chains draws d"], after: Float[np.ndarray, "chains draws d"]
) -> float:
    """The share of chains whose mean moved by much more than their two halves differ.

    >>> rng = np.random.default_rng(0)
    >>> here, there = rng.normal(size=(2, 8, 40, 3))
    >>> share_elsewhere(here, there), share_elsewhere(here, there + 3.0)
    (0.0, 1.0)
    """

    def halves(draws: np.ndarray) -> float:
        half = draws.shape[1] // 2
        change = draws[:, :half].mean(axis=1) - draws[:, half:].mean(axis=1)
        return float(np.mean(np.sum(change**2, axis=1)))

    moved = np.sum((after.mean(axis=1) - before.mean(axis=1)) ** 2, axis=1)
    return float(np.mean(moved > MIN_SQUARED_DISTANCE_RATIO * max(halves(before), halves(after))))
