r"""Place and width of a sampler's posteriors, from the normal scores of ranks, and their power.

Under calibration a normalized rank u is uniform, and its score :math:`s = Φ^{-1}(u)` is a standard
normal number, whatever the posterior and the number of draws. So over N simulations

.. math:: \sqrt N\,\bar s \sim N(0, 1), \qquad \sum s^2 \sim χ^2_N

exactly. Draws that lie b posterior sds too high give a mean of −b/r, and draws that are r times too
wide a mean square of about 1/r². How far the latter falls short with L draws, whose extremes no
rank can pass, is computed for Gaussian posteriors.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, chi2, norm

POWER = 0.95
"""The probability with which an error that is called detectable is found."""
LEAST_WIDTH, MOST_WIDTH = 0.05, 20.0
"""Widths beyond these are not told from them."""
NODES = 400
BISECTIONS = 24


class Interval(NamedTuple):
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float


def scores(ranks: np.ndarray) -> np.ndarray:
    """The standard normal numbers that belong to ranks in (0, 1)."""
    return norm.ppf(np.clip(ranks, 1e-12, 1 - 1e-12))


def bias_p_value(ranks: np.ndarray) -> float:
    """The two-sided p-value of the mean score.

    >>> even = (np.arange(100) + 0.5) / 100
    >>> round(bias_p_value(even), 3), bias_p_value(even**2) < 1e-6
    (1.0, True)
    """
    return float(2 * norm.sf(abs(scores(ranks).mean()) * np.sqrt(len(ranks))))


def width_p_value(ranks: np.ndarray) -> float:
    """The two-sided p-value of the sum of squared scores.

    >>> even = (np.arange(100) + 0.5) / 100
    >>> width_p_value(even) > 0.5, width_p_value(0.3 + 0.4 * even) < 1e-6
    (True, True)
    """
    law, total = chi2(len(ranks)), float(np.sum(scores(ranks) ** 2))
    return float(min(1.0, 2 * min(law.cdf(total), law.sf(total))))


def width(ranks: np.ndarray, num_draws: int, level: float) -> Interval:
    """The sampler's standard deviation over the right one, with an interval of 1 − ``level``.

    >>> even = (np.arange(1000) + 0.5) / 1000
    >>> found = width(even, 100, 0.05)
    >>> 0.98 < found.value < 1.02, found.low < 1 < found.high
    (True, True)
    """
    count = len(ranks)
    total = float(np.sum(scores(ranks) ** 2))
    law = chi2(count)
    value, low, high = (
        _width_with(square, num_draws)
        for square in (total / count, total / law.ppf(level / 2), total / law.isf(level / 2))
    )
    return Interval(value, low, high)


def bias(ranks: np.ndarray, level: float) -> Interval:
    """How far the draws lie too high, in right standard deviations, with its interval.

    >>> even = (np.arange(1000) + 0.5) / 1000
    >>> found = bias(even, 0.05)
    >>> abs(found.value) < 1e-9, round(found.high, 3)
    (True, 0.062)
    """
    error = float(norm.isf(level / 2)) / len(ranks) ** 0.5
    value = -float(scores(ranks).mean())
    return Interval(value, value - error, value + error)


def detectable_bias(count: int, level: float) -> float:
    """The bias, in standard deviations, that is found with the probability ``POWER``.

    >>> round(detectable_bias(1000, 0.01), 3)
    0.133
    """
    return float((norm.isf(level / 2) + norm.isf(1 - POWER)) / np.sqrt(count))


def detectable_widths(count: int, num_draws: int, level: float) -> tuple[float, float]:
    """The widths, too narrow and too wide, that are found with the probability ``POWER``.

    >>> narrow, wide = detectable_widths(1000, 100, 0.01)
    >>> round(narrow, 2), round(wide, 2)
    (0.9, 1.11)
    """
    law = chi2(count)
    # Where the mean square is g, Σs² is about g·χ².
    large = law.isf(level / 2) / law.ppf(1 - POWER)
    small = law.ppf(level / 2) / law.isf(1 - POWER)
    return _width_with(large, num_draws), _width_with(small, num_draws)


def _width_with(square: float, num_draws: int) -> float:
    """The width at which Gaussian posteriors give this mean square of the scores."""
    if square >= _mean_square(LEAST_WIDTH, num_draws):
        return LEAST_WIDTH
    if square <= _mean_square(MOST_WIDTH, num_draws):
        return MOST_WIDTH
    low, high = np.log(LEAST_WIDTH), np.log(MOST_WIDTH)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        too_narrow = _mean_square(float(np.exp(middle)), num_draws) > square
        low, high = (middle, high) if too_narrow else (low, middle)
    return float(np.exp(0.5 * (low + high)))


@lru_cache(maxsize=4096)
def _mean_square(width: float, num_draws: int) -> float:
    """E[s²] where draws are ``width`` times too wide, for a Gaussian posterior."""
    truth = norm.ppf((np.arange(NODES) + 0.5) / NODES)
    below = norm.cdf(truth / width)
    chances = binom.pmf(np.arange(num_draws + 1)[:, None], num_draws, below[None, :]).mean(axis=1)
    # ∫ s² du over a cell of ranks is that of x²φ(x), whose integral is Φ(x) − xφ(x).
    edges = norm.ppf(np.arange(1, num_draws + 1) / (num_draws + 1))
    inner = norm.cdf(edges) - edges * norm.pdf(edges)
    squares = np.diff(np.concatenate([[0.0], inner, [1.0]])) * (num_draws + 1)
    return float(chances @ squares)
