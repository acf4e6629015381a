"""How hot is hot enough: chains are heated and cooled again, and where they end is compared."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics._linear_map import LinearMap, MappedPotential
from tacthmc.potentials._base import Potential
from tacthmc.tuning._bursts import Burst, Bursts
from tacthmc.tuning._choices import TuningError
from tacthmc.tuning._friction import LOOKED_AFTER

RATIO = 3.0
LEVELS = 6
"""Up to a temperature of 3⁶ = 729."""
ELSEWHERE = 0.15
"""The share of chains that has to come back elsewhere: small, for modes of little weight."""
LUKEWARM = 1.5
"""The hottest where heat finds nothing."""
NEARLY = 0.7
"""What counts as nearly as many."""
RETURNED = 0.9
"""The share of chains whose energy has to be again what it was before they were heated."""
UP_AND_DOWN = 3
"""Bursts to the first level and back."""
FAR = 9.0
"""So many times the squared distance that a chain's own two halves are apart."""


class Level(NamedTuple):
    """Chains at one temperature."""

    temperature: float
    burst: Burst


class Cooled(NamedTuple):
    """Chains that were heated to a level and are at unit temperature again."""

    burst: Burst
    moved: float
    """The share of them that came back elsewhere."""
    returned: float
    """The share of them whose energy is what it was."""


class Heat(NamedTuple):
    """The ladder, and what came back from each of its levels as far as they were tried."""

    levels: list[Level]
    cooled: list[Cooled]
    given: bool
    potential: Potential
    """What the chains moved in."""
    wanders: bool = False
    """Whether chains that were not heated came to be elsewhere too."""

    @property
    def linear(self) -> LinearMap | None:
        """The linear coordinates they moved in."""
        return self.potential.linear if isinstance(self.potential, MappedPotential) else None

    @property
    def moved(self) -> list[float]:
        """The shares that came back elsewhere by heat; none where too few came back at all."""
        told = [not self.wanders and c.returned >= RETURNED for c in self.cooled]
        return [c.moved if t else 0.0 for c, t in zip(self.cooled, told, strict=True)]

    @property
    def widest(self) -> Burst:
        """Chains at unit temperature, in as many modes as were found."""
        if self.given:
            return self.cooled[-1].burst
        moved = self.moved
        best = int(np.argmax(moved))
        return self.cooled[best].burst if moved[best] >= ELSEWHERE else self.levels[0].burst

    @property
    def useful(self) -> bool:
        """Whether chains came back elsewhere from anywhere."""
        return max(self.moved) >= ELSEWHERE

    @property
    def idle(self) -> bool:
        """Whether ξ had better rest: in high dimension, where heat is not known to be of use."""
        return not self.useful and self.levels[0].burst.draws.shape[-1] > LOOKED_AFTER

    @property
    def hottest(self) -> tuple[float, str]:
        """The first level from which nearly as many come back elsewhere as from any; and why.

        Hardly warm where nothing moved: what heat there is, is of no use.
        """
        moved = self.moved
        if self.wanders:
            return LUKEWARM, (
                "in short runs nearly as many chains get elsewhere without heat: what heat is good"
                " for they cannot tell"
            )
        reached = self.levels[len(moved)].temperature
        if not self.useful and self.cooled[-1].returned < RETURNED:
            return LUKEWARM, (
                f"heated up to {reached:g}, chains had not cooled again in as long a time: what"
                " heat is good for cannot be told"
            )
        if not self.useful:
            return LUKEWARM, (
                f"heated up to {reached:g} and cooled again, the chains came back to where they"
                " were: no other mode is in reach"
            )
        best = next(k for k, share in enumerate(moved) if share >= NEARLY * max(moved))
        found = self.levels[best + 1].temperature
        return found, (
            f"heated to {found:g} and cooled again, {moved[best]:.0%} of the chains came back"
            " elsewhere, and hardly more of them after more heat"
        )


def ladder(
    key: PRNGKey, bursts: Bursts, plateau: Burst, eta: float, c: float, top: float | None = None
) -> Heat:
    """Up in factors of three, and down again from each level.

    ``top`` is a temperature that somebody has chosen: then the ladder ends there, and all that is
    sought is where chains come back to. Else it ends where chains do not come back any more.
    """
    temperatures = [RATIO**k for k in range(1, LEVELS + 1)]
    if top is not None:
        temperatures = [t for t in temperatures if t < top] + [top]
    levels, cooled = [Level(1.0, plateau)], []
    wanders = False
    for temperature in temperatures:
        key, up, down = jax.random.split(key, 3)
        level, eta = _climb(up, bursts, levels[-1].burst.positions, eta, c, temperature)
        levels.append(level)
        if top is None or temperature == top:
            cooled.append(_compared(plateau, _cooled(down, bursts, levels, eta, c)))
            if len(cooled) == 1 and top is None and plateau.draws.shape[-1] > LOOKED_AFTER:
                key, now = jax.random.split(key)
                wanders = _wanders(now, bursts, plateau, eta, c, cooled[-1].moved)
            if wanders or cooled[-1].returned < RETURNED:
                break
    return Heat(levels, cooled, top is not None, bursts.potential, wanders)


def _wanders(
    key: PRNGKey, bursts: Bursts, plateau: Burst, eta: float, c: float, moved: float
) -> bool:
    """Whether nearly as many get elsewhere without heat, in the time of one up and down."""
    burst = plateau
    for now in jax.random.split(key, UP_AND_DOWN):
        burst = bursts.run(now, burst.positions, eta, c)
    if not burst.finite:
        return False
    share = share_elsewhere(plateau.draws, burst.draws)
    return share >= ELSEWHERE and share >= NEARLY * moved


def _compared(plateau: Burst, burst: Burst) -> Cooled:
    means, at_home = burst.energies.mean(axis=1), plateau.energies.mean(axis=1)
    # What chains at home differ by, and what a burst's mean differs by by chance.
    allowed = 3 * np.hypot(at_home.std(), plateau.energies.std() / np.sqrt(burst.energies.shape[1]))
    return Cooled(
        burst,
        share_elsewhere(plateau.draws, burst.draws),
        float(np.mean(means < at_home.mean() + allowed)),
    )


def _climb(
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
        f"{temperature / RATIO:g}), or a prior that holds θ together"
    )


def _cooled(key: PRNGKey, bursts: Bursts, levels: list[Level], eta: float, c: float) -> Burst:
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
    """The share of chains whose mean moved by far more than its two halves are apart.

    >>> rng = np.random.default_rng(0)
    >>> here, there = rng.normal(size=(2, 8, 40, 3))
    >>> share_elsewhere(here, there), share_elsewhere(here, there + 3.0)
    (0.0, 1.0)
    """

    def halves(draws: np.ndarray) -> float:
        half = draws.shape[1] // 2
        apart = draws[:, :half].mean(axis=1) - draws[:, half:].mean(axis=1)
        return float(np.mean(np.sum(apart**2, axis=1)))

    moved = np.sum((after.mean(axis=1) - before.mean(axis=1)) ** 2, axis=1)
    return float(np.mean(moved > FAR * max(halves(before), halves(after))))
