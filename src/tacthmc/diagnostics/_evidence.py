r"""Ratios of normalizers between temperatures, from what the bias has learned.

With Z(λ) = ∫exp(−λU(θ))dθ, d log Z/dλ = −⟨U⟩_λ: what the adaptive biasing force averages, bin by
bin, integrates to log Z along λ (thermodynamic integration). In ξ that is A(ξ) = −T·log Z(λ(ξ))
up to a constant, the free energy.

Where λ multiplies a part of the energy only (:mod:`tacthmc.potentials._energy_terms`), Z(λ) = ∫exp(−U0 − λU1) and
d log Z/dλ = −⟨U1⟩_λ. With U1 the negative log likelihood and a normalized prior, log Z(1) is the
log evidence and Z(λ) is that of the power posterior, log Z(0) = 0: the ratio at the hottest
temperature is the part of −log Z(1) that lies above it.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tacthmc.dynamics import Coupling
from tacthmc.dynamics._bias import FreeEnergy, MeanEnergies


class EvidenceRatio(NamedTuple):
    """log Z(1/temperature) − log Z(1), and its standard error over chains.

    The error is NaN for one chain, and where chains did not learn independently of each other.
    """

    temperature: float
    value: float
    error: float


class Profile(NamedTuple):
    """One chain's free energy, and what it comes from."""

    energy: FreeEnergy
    table: Any
    coupling: Coupling
    bath: float
    analytic_log_lambda: float
    """The factor of T·log λ in it that is exact."""


def log_ratio(profile: Profile, temperature: float | None) -> tuple[float, float]:
    """The temperature (the hottest that was learned about by default) and log Z there.

    Between the profile's points all but the exact part is linear in λ, as the integral of a mean
    energy that is constant in a bin is.
    """
    places, values, lam = _right_side(profile)
    hottest = 1 / lam[-1]
    wanted = hottest if temperature is None else float(temperature)
    if not 1 <= wanted <= hottest * (1 + 1e-6):
        raise ValueError(
            f"temperature must lie between 1 and the hottest, {hottest:g}; got {temperature!r}"
        )
    _check_visited(profile, places[np.searchsorted(-lam, -1 / wanted * (1 + 1e-6))])
    rest = values / profile.bath - profile.analytic_log_lambda * np.log(lam)
    # λ falls along ξ, and np.interp wants it to rise.
    at = float(np.interp(1 / wanted, lam[::-1], rest[::-1]))
    return wanted, -(at + profile.analytic_log_lambda * np.log(1 / wanted))


def _right_side(profile: Profile) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ξ ≥ 0, A(ξ) and λ(ξ)."""
    right = profile.energy.xi >= 0
    places, values = profile.energy.xi[right], profile.energy.value[right]
    lam = 1 / np.asarray(profile.coupling.temperature(jnp.asarray(places)), float)
    return places, values, lam


def _check_visited(profile: Profile, place: float) -> None:
    if not isinstance(profile.table, MeanEnergies):
        return
    visits = np.asarray(profile.table.visits)
    wall = float(profile.coupling.wall)
    low = 0.0 if profile.coupling.even else -wall
    edges = np.linspace(low, wall, len(visits) + 1)
    # On the plateau λ is 1 and nothing is integrated: a scheduled ξ is in one of its bins only.
    begin = float(profile.coupling.plateau) + 1e-6 * wall
    between = (edges[1:] > begin) & (edges[:-1] < place - 1e-6 * wall)
    if np.any(visits[between] == 0):
        raise ValueError(
            "a chain has not been at all temperatures on the way yet, so that there is nothing to"
            " integrate: run longer, or ask for a lower temperature"
        )


def evidence_ratio(
    profiles: list[Profile], temperature: float | None, independent: bool
) -> EvidenceRatio:
    """The mean over chains."""
    found = [log_ratio(profile, temperature) for profile in profiles]
    values = [value for _, value in found]
    error = np.nan
    if independent and len(values) > 1:
        error = np.std(values, ddof=1) / np.sqrt(len(values))
    return EvidenceRatio(found[0][0], float(np.mean(values)), float(error))
