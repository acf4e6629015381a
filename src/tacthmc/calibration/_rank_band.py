r"""Simultaneous confidence bands for the empirical distribution of ranks.

Under calibration the normalized ranks :math:`u_1, …, u_N` are independent and uniform. Let
:math:`R_i` be how many of them are at most :math:`z_i = i/K`. Each is binomial, and

.. math:: R_{i+1} - R_i \mid R_i \sim
    \mathrm{Bin}\Big(N - R_i, \tfrac{z_{i+1} - z_i}{1 - z_i}\Big)

so the counts are a Markov chain. The band consists of the central intervals of the binomial laws
that leave out at most γ/2 on each side. The probability that all counts lie in it follows from a
recursion over the chain, exactly. It gives the γ of a band of any level, and the p-value of the
outermost count.

Reference: T. Säilynoja, P.-C. Bürkner, A. Vehtari. *Graphical test for discrete uniformity and its
applications in goodness-of-fit evaluation and multiple sample comparison.* Statistics and
Computing 2022.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln
from scipy.stats import binom

POINTS = 100
"""K, the number of points at which the distribution of the ranks is looked at."""
BISECTIONS = 40
"""Halvings of log γ, from 10⁻¹⁴ to 1: nine digits."""
LEAST_GAMMA = 1e-14


class RankBand(NamedTuple):
    """The band around the difference of the empirical distribution function and the uniform one."""

    points: np.ndarray
    low: np.ndarray
    high: np.ndarray


def points_of(count: int) -> np.ndarray:
    """The points 1/K, …, (K−1)/K for so many ranks."""
    points = max(2, min(POINTS, count))
    return np.arange(1, points) / points


def differences(ranks: np.ndarray) -> np.ndarray:
    """The empirical distribution function of ranks in (0, 1) minus the uniform one, at the points.

    >>> differences(np.array([0.1, 0.3, 0.6, 0.9])).round(2).tolist()
    [0.0, 0.0, 0.0]
    """
    points = points_of(len(ranks))
    return _counts(ranks, points) / len(ranks) - points


def rank_band(count: int, level: float) -> RankBand:
    """The band that all differences of ``count`` ranks stay in with probability 1 − ``level``.

    >>> band = rank_band(200, 0.05)
    >>> bool(np.all(band.low < 0) and np.all(band.high > 0)), round(float(band.high.max()), 2)
    (True, 0.11)
    """
    points = points_of(count)
    low, high = _intervals(count, _gamma(count, level))
    return RankBand(points, low / count - points, high / count - points)


def uniform_p_value(ranks: np.ndarray) -> float:
    """The probability that uniform ranks leave the band as far as these somewhere do.

    >>> even = (np.arange(200) + 0.5) / 200
    >>> uniform_p_value(even) > 0.5, uniform_p_value(0.5 + 0.5 * even) < 1e-12
    (True, True)
    """
    count, points = len(ranks), points_of(len(ranks))
    seen = _counts(ranks, points)
    law = binom(count, points)
    outermost = float(2 * np.minimum(law.cdf(seen), law.sf(seen - 1)).min())
    if outermost < LEAST_GAMMA:
        return min(1.0, outermost * len(points))
    # The counts that are exactly as far out belong to the tail.
    return max(0.0, 1.0 - _coverage(count, outermost * (1 + 1e-9)))


def _counts(ranks: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(ranks), points, side="right")


def _intervals(count: int, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """The counts r with P(R ≤ r) > γ/2 and P(R ≥ r) > γ/2, from the least to the largest."""
    law = binom(count, points_of(count))
    low = law.ppf(gamma / 2)
    low = low + (law.cdf(low) <= gamma / 2)
    high = law.isf(gamma / 2)
    high = high + (law.sf(high) > gamma / 2) - (law.sf(high - 1) <= gamma / 2)
    return low.astype(int), high.astype(int)


@lru_cache(maxsize=256)
def _coverage(count: int, gamma: float) -> float:
    """The probability that all counts lie in the band with tails of γ/2."""
    points = points_of(count)
    low, high = _intervals(count, gamma)
    log_factorial = gammaln(np.arange(count + 1) + 1.0)
    # Before the first point nothing is counted.
    states, chances, before = np.array([0]), np.array([1.0]), 0.0
    for point, least, most in zip(points, low, high, strict=True):
        if most < least:
            return 0.0
        share = (point - before) / (1 - before)
        reached = np.arange(least, most + 1)
        left, more = (count - states)[:, None], reached[None, :] - states[:, None]
        possible = (more >= 0) & (more <= left)
        more = np.where(possible, more, 0)
        log_chance = (
            log_factorial[left]
            - log_factorial[more]
            - log_factorial[left - more]
            + more * np.log(share)
            + (left - more) * np.log1p(-share)
        )
        chances = chances @ np.where(possible, np.exp(log_chance), 0.0)
        states, before = reached, point
    return float(chances.sum())


@lru_cache(maxsize=64)
def _gamma(count: int, level: float) -> float:
    """The largest γ whose band holds all counts with probability 1 − ``level``."""
    low, high = np.log(LEAST_GAMMA), 0.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        inside = _coverage(count, float(np.exp(middle))) >= 1 - level
        low, high = (middle, high) if inside else (low, middle)
    return float(np.exp(low))
