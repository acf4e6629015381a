"""Temperatures with errors, and when one is off: by more than chance and by more than little."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import norm

from tacthmc.diagnostics._mean_errors import MeanErrors

MAX_WIDTH_ERROR = 0.07
"""The relative error of a standard deviation that is small."""
FALSE_ALARMS = 1e-3
"""About the probability that any of the widths of a right run is called wrong by chance."""
MIN_ESS = 100
"""The smallest number of effective draws whose error is to be trusted."""
ERROR_ERROR = 3.0
"""The relative error of an error, times the square root of the effective draws that it is from."""


class Width(NamedTuple):
    """The configurational temperature of a coordinate, or its mean over several.

    >>> Width("mu", 1.44, 0.05, 800.0, 1).ratio
    1.2
    """

    name: str
    temperature: float
    """The variance of the draws over that of the posterior, if it is Gaussian."""
    error: float
    ess: float
    coordinates: int

    @property
    def ratio(self) -> float:
        """How many times too wide the draws are, about."""
        return float(np.sqrt(max(self.temperature, 0.0)))


def is_off(
    found: MeanErrors, tests: int, ess: Float[np.ndarray, " k"], least: Any = MIN_ESS
) -> Bool[np.ndarray, " k"]:
    """Which temperatures are off, if ``tests`` of them are looked at together.

    The estimate is skewed: where it is low by chance, so is its error. So it has to be far away
    both by its difference and by its logarithm. The center a is the mean of ``ess`` effective draws
    of θ, which makes the temperature too low by 1/ess; where there are few, errors are uncertain.
    """
    ess = np.minimum(found.ess, ess)
    mean = found.mean
    sigmas = norm.isf(0.5 * FALSE_ALARMS / max(tests, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = found.error * (1 + ERROR_ERROR / np.sqrt(ess)) + np.finfo(float).tiny
        margin = sigmas * error + 1 / ess
    low, high = (1 - MAX_WIDTH_ERROR) ** 2, (1 + MAX_WIDTH_ERROR) ** 2
    clear = np.minimum(np.abs(mean - 1), _log_distance(mean)) > margin
    known = np.isfinite(mean) & np.isfinite(error) & (ess >= least)
    return known & clear & ((mean < low) | (mean > high))


def _log_distance(mean: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """|log T|·T, the distance from 1 in units in which T has its own error."""
    positive = np.maximum(mean, 1e-3)
    return np.abs(np.log(positive)) * positive
