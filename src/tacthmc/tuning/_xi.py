r"""ξ's numbers, from how the energy fluctuates at each temperature.

On its way ξ is pushed by λ′·(U − Ū). With σ² the variance of what it feels, fluctuations and
mini-batch noise together, at a place where the coupling's slope is λ′, a step changes r_ξ by
η_ξ·λ′σ where its own standard deviation is √η_ξ: so η_ξ·(λ′σ)² has to be small. And

.. math:: \Lambda = \int \sigma\,d\lambda,

the way from unit temperature to the hottest in standard deviations of that push, is what ξ has
to cross whatever its mass. A coupling with the same λ′σ all the way
(:mod:`tacthmc.dynamics._shaped_coupling`) makes that as short as it can be, and θ widens with ξ
(:mod:`tacthmc.dynamics._temperature_scaled`) where that makes Λ shorter.
"""

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics._coupling import Coupling
from tacthmc.dynamics._shaped_coupling import ShapedCoupling
from tacthmc.potentials._base import Potential
from tacthmc.tuning._bursts import estimates, stacked
from tacthmc.tuning._ladder import Heat

LIGHTEST = 0.01
"""η_ξ at most, for a slope 4/3 wide: what is lighter leaves θ no time to relax."""
PUSH = 0.03
"""η_ξ·(λ′σ)² at most: what is lighter is no faster where noise drags it, and leaves θ no time."""
PER_LEVEL = 256
"""Draws at which energies are estimated, a level."""
PLATEAU, WALL = 1 / 3, 5 / 3
"""ξ0 and W0: a fifth of the time at unit temperature."""
AT_REST = 0.95
"""The share of it where nothing is known to be gained from heat; the slope is as wide."""
FEWEST_BINS, MOST_BINS = 30, 400
BINS_PER_SD = 4


class Profile(NamedTuple):
    """Temperatures, and the standard deviations there of U and of E = U − ½∇U·(θ − μ)."""

    temperatures: Float[np.ndarray, " n"]
    plain: Float[np.ndarray, " n"]
    widening: Float[np.ndarray, " n"]

    def up_to(self, hottest: float) -> "Profile":
        """The same without what is hotter; ends in between by interpolation of logarithms.

        >>> hot = np.array([1.0, 3.0, 9.0])
        >>> Profile(hot, hot, hot).up_to(1.5).plain.round(3).tolist()
        [1.0, 1.5]
        >>> Profile(hot, hot, hot).up_to(1.0001).temperatures.tolist()
        [1.0, 1.0001]
        """
        logs = np.log(self.temperatures)
        # Nothing that is next to the end; of a short way as of a long one.
        kept = logs < 0.999 * np.log(hottest)
        columns = [np.append(self.temperatures[kept], hottest)]
        for sds in (self.sds(False), self.sds(True)):
            end = np.exp(np.interp(np.log(hottest), logs, np.log(sds)))
            columns.append(np.append(sds[kept], end))
        return Profile(*columns)

    def sds(self, widening: bool) -> Float[np.ndarray, " n"]:
        """Those of what ξ feels in one form or the other; never nothing at all."""
        sd = self.widening if widening else self.plain
        return np.maximum(sd, max(1e-3 * float(sd.max()), 1e-12))

    def length(self, widening: bool) -> float:
        """Λ, by the trapezoidal rule in log λ.

        >>> hot = np.geomspace(1.0, 9.0, 20)
        >>> round(Profile(hot, hot, hot).length(widening=False), 3)      # log 9
        2.197
        """
        return float(
            np.trapezoid(self.sds(widening) / self.temperatures, np.log(self.temperatures))
        )

    def within(self, longest: float) -> float:
        """The hottest temperature to which Λ, in the shorter of the forms, is no more than that.

        >>> hot = np.geomspace(1.0, 9.0, 20)
        >>> round(Profile(hot, 10 * hot, 10 * hot).within(1.0), 3)          # 10·log T = 1
        1.105
        """
        low, high = 0.0, float(np.log(self.temperatures[-1]))
        for _ in range(40):
            middle = 0.5 * (low + high)
            part = self.up_to(float(np.exp(middle)))
            longer = min(part.length(False), part.length(True)) > longest
            low, high = (low, middle) if longer else (middle, high)
        return float(np.exp(high))

    def push(self, coupling: Coupling, widening: bool) -> float:
        """The largest λ′σ on the way."""
        xi = np.linspace(float(coupling.plateau), float(coupling.wall), 201)
        lam, slope = jax.vmap(coupling.value_and_slope)(jnp.asarray(xi))
        logs = np.log(self.sds(widening))
        there = np.exp(np.interp(-np.log(np.asarray(lam)), np.log(self.temperatures), logs))
        return float(np.max(np.abs(np.asarray(slope)) * there))

    def coupling(self, widening: bool, idle: bool = False) -> ShapedCoupling:
        """The coupling that they ask for; with most of ξ's range at rest where it is idle."""
        width = (WALL - PLATEAU) / (1 - AT_REST) if idle else WALL
        plateau = AT_REST * width if idle else PLATEAU
        sds = self.sds(widening)
        with warnings.catch_warnings():
            # A plateau of more than a quarter is warned of where it makes the slope steeper.
            warnings.simplefilter("ignore", UserWarning)
            return ShapedCoupling(self.temperatures, sds, plateau=plateau, wall=width)


def profile(
    key: PRNGKey, potential: Potential, heat: Heat, like: Position
) -> tuple[Profile, Float[np.ndarray, " d"]]:
    """The fluctuations at each level, and the plateau's mean μ.

    ``potential`` is the one that the levels' chains moved in.
    """
    plateau = heat.widest.draws
    center = plateau.mean(axis=(0, 1))
    rows = []
    for number, level in enumerate(heat.levels):
        draws = plateau if number == 0 else level.burst.draws
        some = draws.reshape(-1, draws.shape[-1])
        some = some[:: max(1, len(some) // PER_LEVEL)][:PER_LEVEL]
        energies, gradients = estimates(
            jax.random.fold_in(key, number),
            potential,
            stacked(some, like),
            jnp.asarray(1 / level.temperature),
        )
        values = np.asarray(energies, float)
        calm = values - 0.5 * np.sum(np.asarray(gradients, float) * (some - center), axis=1)
        rows.append((level.temperature, values.std(), calm.std()))
    return Profile(*np.array(rows, float).T), center


def xi_step_size(seen: Profile, coupling: Coupling, widening: bool) -> tuple[float, str]:
    """η_ξ, and what decided.

    >>> import tacthmc
    >>> calm = Profile(np.array([1.0, 9.0]), np.array([1.0, 9.0]), np.zeros(2))
    >>> value, why = xi_step_size(calm, calm.coupling(True), widening=True)
    >>> round(value, 4), why
    (0.01, 'no lighter, so that θ keeps up')
    """
    lightest = LIGHTEST * _width(coupling) ** 2
    push = seen.push(coupling, widening)
    allowed = PUSH / push**2 if push > 0 else np.inf
    if allowed > lightest:
        return lightest, "no lighter, so that θ keeps up"
    return float(allowed), f"{PUSH:g} over the square of the largest push λ′σ, {push:.3g}"


def bins(seen: Profile, widening: bool, coupling: Coupling) -> int:
    """Four to a standard deviation of Λ: within a bin the mean energy hardly changes.

    Of a coupling of which more is plateau there are as many more, since they are equally wide.
    """
    more = float(coupling.wall) / WALL / _width(coupling)
    return int(np.clip(BINS_PER_SD * seen.length(widening) * more, FEWEST_BINS, MOST_BINS))


def _width(coupling: Coupling) -> float:
    """That of the slope, in units of the usual one."""
    return float(coupling.wall - coupling.plateau) / (WALL - PLATEAU)
