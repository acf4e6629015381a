r"""Ratios of normalizers between temperatures, from the mean energies that the bias learned.

With Z(λ) = ∫exp(−λU(θ))dθ, d log Z/dλ = −⟨U⟩_λ. So the mean energies in the bins of the adaptive
biasing force integrate to log Z along λ (thermodynamic integration). As a function of ξ this is the
free energy, A(ξ) = −T·log Z(λ(ξ)) up to a constant.

Where λ multiplies only a part of the energy (:mod:`tacthmc.potentials._energy_terms`), Z(λ) =
∫exp(−U0 − λU1) and d log Z/dλ = −⟨U1⟩_λ. If U1 is the negative log likelihood and the prior is
normalized, Z(λ) is the normalizer of the power posterior, log Z(1) is the log evidence and
log Z(0) = 0. The ratio at the hottest temperature is then a part of −log Z(1); the rest lies at
higher temperatures.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tacthmc.dynamics import Coupling
from tacthmc.dynamics._bias import FreeEnergy, MeanEnergies


class EvidenceRatio(NamedTuple):
    """log Z(1/temperature) − log Z(1), and its standard error over chains.

    The error is NaN for one chain, and if the chains did not learn independently.
    """

    temperature: float
    value: float
    error: float


class Profile(NamedTuple):
    """The free energy of one chain, with its table and parameters."""

    energy: FreeEnergy
    table: Any
    coupling: Coupling
    bath: float
    analytic_log_lambda: float
    """The exact factor of T·log λ in the free energy."""


def log_ratio(profile: Profile, temperature: float | None) -> tuple[float, float]:
    """The temperature (by default the hottest) and log Z there, relative to log Z(1).

    Between the points of the profile, everything but the exact part is interpolated linearly in λ,
    which is the integral of a mean energy that is constant in each bin.
    """
    places, values, lam = _right_side(profile)
    hottest = 1 / lam[-1]
    chosen = hottest if temperature is None else float(temperature)
    if not 1 <= chosen <= hottest * (1 + 1e-6):
        raise ValueError(
            f"temperature must lie between 1 and the hottest, {hottest:g}; got {temperature!r}"
        )
    _check_visited(profile, places[np.searchsorted(-lam, -1 / chosen * (1 + 1e-6))])
    rest = values / profile.bath - profile.analytic_log_lambda * np.log(lam)
    # λ falls along ξ, and np.interp needs rising places.
    at = float(np.interp(1 / chosen, lam[::-1], rest[::-1]))
    return chosen, -(at + profile.analytic_log_lambda * np.log(1 / chosen))


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
    # The plateau does not count: λ is 1 there, and a scheduled ξ visits only one of its bins.
    begin = float(profile.coupling.plateau) + 1e-6 * wall
    between = (edges[1:] > begin) & (edges[:-1] < place - 1e-6 * wall)
    if np.any(visits[between] == 0):
        raise ValueError(
            "a chain has not visited all temperatures on the way yet, so the mean energy there is"
            " not known: run longer, or ask for a lower temperature"
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
