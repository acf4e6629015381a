"""Diagnostics of the dynamics: the flatness of ξ, and thermostats and momenta against Theorem 1.

Only unit-temperature draws represent the posterior. These diagnostics use steps at all
temperatures, and test whether the dynamics works.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc import _checks as checks
from tacthmc._typing import Draws, Position
from tacthmc.diagnostics._mixing import mean_ess
from tacthmc.dynamics import ContinuousTempering, Langevin, NoThermostat
from tacthmc.dynamics._noise_levels import NoiseLevels


class Law(NamedTuple):
    """The observed mean and standard deviation of a quantity, and those by Theorem 1."""

    name: str
    mean: float
    expected_mean: float
    sd: float
    expected_sd: float
    error: float = float("nan")
    """The Monte-Carlo standard error of the mean."""
    expected_error: float = 0.0
    """The standard error of the expected mean, whose noise is measured."""


def flatness(xi: np.ndarray, wall: float, bins: int = 20) -> np.ndarray:
    """Total variation between the histogram of ξ in each chain and the uniform law on the well.

    >>> import numpy as np
    >>> flatness(np.linspace(-1, 1, 1000)[None], wall=1.0).round(3).tolist()
    [0.0]
    """
    xi = checks.numbers("xi", xi, "(chain, step)", least=0)
    checks.positive("wall", wall)
    checks.whole("bins", bins, 1)
    edges = np.linspace(-wall, wall, bins + 1)
    counts = np.stack([np.histogram(chain, edges)[0] for chain in xi])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return 0.5 * np.abs(shares - 1 / bins).sum(axis=1)


def autocorrelation(values: np.ndarray, lags: int) -> np.ndarray:
    """ρ(0), …, ρ(lags) of a (chain, draw) array, with the mean and variance of all chains together.

    If chains stay in different modes, the correlation therefore does not decay.

    >>> import numpy as np
    >>> autocorrelation(np.array([[1.0, -1.0] * 500]), 3).round(2).tolist()
    [1.0, -1.0, 1.0, -1.0]
    """
    values = checks.numbers("values", values, "(chain, draw)", least=0)
    checks.whole("lags", lags, 0)
    values = values - np.mean(values)
    count = values.shape[1]
    lags = min(lags, count - 1)
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(values, size)) ** 2
    sums = np.fft.irfft(spectrum, size)[:, : lags + 1].mean(axis=0)
    covariances = sums / (count - np.arange(lags + 1))
    return covariances / covariances[0] if covariances[0] > 0 else np.ones(lags + 1)


def thermostat_laws(
    sampler: Langevin,
    position: Position,
    force_variance: Draws,
    energy_variance: float | None,
    column: Callable[[str], np.ndarray],
) -> list[Law]:
    """Compare thermostats and kinetic temperatures with Theorem 1.

    The theorem is for constant rates. With schedules, the rates of the first step are used. There
    is no law for z_ξ without the variance of the energy (None), or if ξ follows a schedule.

    >>> import tacthmc
    >>> sampler, force_variance = tacthmc.sgnht(0.01, noise=0.2), np.full(2, 4.0, np.float32)
    >>> seen = {"thermostat": np.full((1, 9), 0.22), "kinetic_temperature": np.ones((1, 9))}
    >>> laws = thermostat_laws(sampler, jnp.zeros(2), force_variance, None, seen.__getitem__)
    >>> [(law.name, round(law.expected_mean, 3)) for law in laws]
    [('z_theta', 0.22), ('kinetic temperature of theta', 1.0)]
    """
    now = sampler.rates(jnp.zeros((), int), position)
    bath = float(now.theta.bath)
    laws = []
    if not isinstance(sampler.thermostat, NoThermostat):
        weights = sampler.thermostat.weights(now.mass)
        variances = jax.tree.map(
            lambda v, m, g: v / np.asarray(m * g), force_variance, now.mass, weights
        )
        noise = NoiseLevels(float(now.theta.c), variances)
        mean, variance = sampler.thermostat.level_law(position, noise, now.theta)
        laws.append(_law("z_theta", column("thermostat"), mean, variance))
    laws.append(_mean_only("kinetic temperature of theta", column("kinetic_temperature"), bath))
    tempering = sampler.tempering
    if not isinstance(tempering, ContinuousTempering):
        return laws
    if energy_variance is not None and not isinstance(tempering.thermostat, NoThermostat):
        noise = NoiseLevels(float(now.xi.c), np.asarray(energy_variance))
        mean, variance = tempering.thermostat.level_law(jnp.zeros(()), noise, now.xi)
        laws.append(_law("z_xi", column("xi_thermostat"), mean, variance))
    laws.append(_mean_only("kinetic temperature of xi", column("xi_kinetic_temperature"), bath))
    return laws


def _law(name: str, values: np.ndarray, mean: float, variance: float) -> Law:
    values = np.asarray(values, float)
    sd, deviation = float(values.std()), float(np.sqrt(variance))
    return Law(name, float(values.mean()), mean, sd, deviation, _error(values))


def _mean_only(name: str, values: np.ndarray, mean: float) -> Law:
    values, nan = np.asarray(values, float), float("nan")
    return Law(name, float(values.mean()), mean, nan, nan, _error(values))


def _error(values: np.ndarray) -> float:
    """The Monte-Carlo standard error of the mean of (chain, row) values."""
    effective = mean_ess(values) if np.ptp(values) > 0 else float("nan")
    return float(values.std() / np.sqrt(effective))
