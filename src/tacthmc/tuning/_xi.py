r"""The numbers of ξ, from the fluctuations of the energy at each temperature.

The force on ξ is λ′·(U − Ū). Let σ² be the variance of the energy that acts on ξ, including
mini-batch noise. At the slope λ′ a step changes r_ξ by η_ξ·λ′σ, and the standard deviation of r_ξ
is √η_ξ, so η_ξ·(λ′σ)² has to be small. The length

.. math:: \Lambda = \int \sigma\,d\lambda,

is the way from unit temperature to the hottest in standard deviations of the energy. ξ has to cross
it with any mass. A coupling with constant λ′σ (:mod:`tacthmc.dynamics._shaped_coupling`) makes it
as easy as possible, and θ widens with ξ (:mod:`tacthmc.dynamics._coordinates`) if that makes Λ
shorter.
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
from tacthmc.tuning._ladder import Ladder

MAX_XI_STEP_SIZE = 0.01
"""The largest η_ξ, for a slope of width 4/3. A lighter ξ would leave θ no time to relax."""
MAX_PUSH = 0.03
"""The largest η_ξ·(λ′σ)². Under noise a lighter ξ is not faster, and leaves θ no time to relax."""
DRAWS_PER_LEVEL = 256
"""The largest number of draws per level at which energies are estimated."""
PLATEAU, WALL = 1 / 3, 5 / 3
"""ξ0 and W0, for a fifth of the time at unit temperature."""
REST_SHARE = 0.95
"""The share of time at unit temperature if heat is not known to help. The slope is as wide."""
MIN_BINS, MAX_BINS = 30, 400
BINS_PER_SD = 4
"""The number of bins per standard deviation of the energy."""


class EnergyProfile(NamedTuple):
    """The fluctuations of the energy at each temperature."""

    temperatures: Float[np.ndarray, " n"]
    plain: Float[np.ndarray, " n"]
    """The standard deviation of U."""
    widening: Float[np.ndarray, " n"]
    """The standard deviation of E = U − ½∇U·(θ − μ), which acts on ξ if θ widens with it."""

    def up_to(self, hottest: float) -> "EnergyProfile":
        """The profile up to ``hottest``, with the values there interpolated in logarithms.

        >>> hot = np.array([1.0, 3.0, 9.0])
        >>> EnergyProfile(hot, hot, hot).up_to(1.5).plain.round(3).tolist()
        [1.0, 1.5]
        >>> EnergyProfile(hot, hot, hot).up_to(1.0001).temperatures.tolist()
        [1.0, 1.0001]
        """
        logs = np.log(self.temperatures)
        # Without points too close to the end, relative to the length of the profile.
        kept = logs < 0.999 * np.log(hottest)
        columns = [np.append(self.temperatures[kept], hottest)]
        for sds in (self.sds(False), self.sds(True)):
            end = np.exp(np.interp(np.log(hottest), logs, np.log(sds)))
            columns.append(np.append(sds[kept], end))
        return EnergyProfile(*columns)

    def sds(self, widening: bool) -> Float[np.ndarray, " n"]:
        """The standard deviations for one form or the other, with a small lower limit."""
        sd = self.widening if widening else self.plain
        return np.maximum(sd, max(1e-3 * float(sd.max()), 1e-12))

    def length(self, widening: bool) -> float:
        """Λ, by the trapezoidal rule in log λ.

        >>> hot = np.geomspace(1.0, 9.0, 20)
        >>> round(EnergyProfile(hot, hot, hot).length(widening=False), 3)      # log 9
        2.197
        """
        return float(
            np.trapezoid(self.sds(widening) / self.temperatures, np.log(self.temperatures))
        )

    def hottest_within(self, longest: float) -> float:
        """The hottest temperature for which Λ, in the shorter form, is at most ``longest``.

        >>> hot = np.geomspace(1.0, 9.0, 20)
        >>> round(EnergyProfile(hot, 10 * hot, 10 * hot).hottest_within(1.0), 3)    # 10·log T = 1
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
        """The largest λ′σ on the slope."""
        xi = np.linspace(float(coupling.plateau), float(coupling.wall), 201)
        lam, slope = jax.vmap(coupling.value_and_slope)(jnp.asarray(xi))
        logs = np.log(self.sds(widening))
        there = np.exp(np.interp(-np.log(np.asarray(lam)), np.log(self.temperatures), logs))
        return float(np.max(np.abs(np.asarray(slope)) * there))

    def coupling(self, widening: bool, rests: bool = False) -> ShapedCoupling:
        """The coupling for these fluctuations. If ξ ``rests``, most of its range is plateau."""
        width = (WALL - PLATEAU) / (1 - REST_SHARE) if rests else WALL
        plateau = REST_SHARE * width if rests else PLATEAU
        sds = self.sds(widening)
        with warnings.catch_warnings():
            # The warning about a wide plateau is for steeper slopes, and this one is not steeper.
            warnings.simplefilter("ignore", UserWarning)
            return ShapedCoupling(self.temperatures, sds, plateau=plateau, wall=width)


def energy_profile(
    key: PRNGKey, potential: Potential, heat: Ladder, like: Position
) -> tuple[EnergyProfile, Float[np.ndarray, " d"]]:
    """The fluctuations at each level, and the mean μ on the plateau.

    ``potential`` is that of the chains on the ladder.
    """
    plateau = heat.widest.draws
    center = plateau.mean(axis=(0, 1))
    rows = []
    for number, level in enumerate(heat.levels):
        draws = plateau if number == 0 else level.burst.draws
        some = draws.reshape(-1, draws.shape[-1])
        some = some[:: max(1, len(some) // DRAWS_PER_LEVEL)][:DRAWS_PER_LEVEL]
        energies, gradients = estimates(
            jax.random.fold_in(key, number),
            potential,
            stacked(some, like),
            jnp.asarray(1 / level.temperature),
        )
        values = np.asarray(energies, float)
        virial = values - 0.5 * np.sum(np.asarray(gradients, float) * (some - center), axis=1)
        rows.append((level.temperature, values.std(), virial.std()))
    return EnergyProfile(*np.array(rows, float).T), center


def xi_step_size(profile: EnergyProfile, coupling: Coupling, widening: bool) -> tuple[float, str]:
    """η_ξ and its reason.

    >>> import tacthmc
    >>> profile = EnergyProfile(np.array([1.0, 9.0]), np.array([1.0, 9.0]), np.zeros(2))
    >>> value, why = xi_step_size(profile, profile.coupling(True), widening=True)
    >>> round(value, 4), why
    (0.01, 'no lighter, so that θ keeps up')
    """
    lightest = MAX_XI_STEP_SIZE * _width(coupling) ** 2
    push = profile.push(coupling, widening)
    allowed = MAX_PUSH / push**2 if push > 0 else np.inf
    if allowed > lightest:
        return lightest, "no lighter, so that θ keeps up"
    return float(allowed), f"{MAX_PUSH:g} over the square of the largest push λ′σ, {push:.3g}"


def bins(profile: EnergyProfile, widening: bool, coupling: Coupling) -> int:
    """The number of bins: four per standard deviation of Λ, so the mean hardly varies in a bin.

    Bins are equally wide, so a coupling with a wider plateau has proportionally more.
    """
    more = float(coupling.wall) / WALL / _width(coupling)
    return int(np.clip(BINS_PER_SD * profile.length(widening) * more, MIN_BINS, MAX_BINS))


def _width(coupling: Coupling) -> float:
    """The width of the slope, in units of the usual one."""
    return float(coupling.wall - coupling.plateau) / (WALL - PLATEAU)
