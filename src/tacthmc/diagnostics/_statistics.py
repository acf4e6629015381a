r"""Mean, width, quantiles, Monte-Carlo error and mixing of many scalars, with weights or without.

With weights w, the mean is :math:`\bar x = \sum_i w_i x_i / \sum_i w_i`. Draw i contributes
:math:`w_i (x_i - \bar x)/\bar w` to its error. The Monte-Carlo error is that of the mean of these
contributions, correlations included, and the effective sample size is sd²/error². A quantile is
treated in the same way, with the indicator of being below it in place of x.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tacthmc.diagnostics._mixing import (
    MIN_DRAWS,
    TAILS,
    Agreement,
    EachScalar,
    Scalars,
    effective_and_within,
    mixing,
    scalar_major,
    split,
)

QUANTILES = (TAILS[0], 0.5, TAILS[1])
MAX_BLOCK = 1 << 20
"""The number of values that are taken on at a time."""


class Statistics(NamedTuple):
    """Statistics of each of many scalars; NaN for one with a draw that is not finite."""

    mean: EachScalar
    sd: EachScalar
    q5: EachScalar
    median: EachScalar
    q95: EachScalar
    mcse: EachScalar
    """The Monte-Carlo standard error of the mean."""
    ess: EachScalar
    """Effective draws of the bulk; with weights those of the mean."""
    ess_tail: EachScalar
    location: Agreement
    """R-hat of the place of chains, and the effective draws within chains."""
    scale: Agreement
    """R-hat of the width of chains, and the effective draws within chains."""

    @property
    def rhat(self) -> EachScalar:
        """The larger R-hat of location and scale."""
        return np.fmax(self.location.rhat, self.scale.rhat)

    @property
    def columns(self) -> tuple[EachScalar, ...]:
        """What a table shows beside the name and R-hat."""
        return self[:-2]

    def taken(self, places: np.ndarray) -> "Statistics":
        """Those of some of the scalars."""
        return mapped(self, lambda column: column[places])


def statistics(
    values: Float[np.ndarray, "chains draws k"],
    weights: Float[np.ndarray, "chains draws"] | None = None,
) -> Statistics:
    """The statistics of all scalars of some draws.

    >>> import numpy as np
    >>> found = statistics(np.random.default_rng(0).normal(size=(4, 1000, 3)))
    >>> bool(np.all(abs(found.mean) < 4 * found.mcse)), found.q95.round(1).tolist()
    (True, [1.6, 1.6, 1.6])
    """
    count = values.shape[2]
    width = max(1, MAX_BLOCK // max(values.shape[0] * values.shape[1], 1))
    blocks = [values[:, :, i : i + width] for i in range(0, count, width)] or [values]
    return joined([_of_block(block, weights) for block in blocks])


def joined(parts: list[Statistics]) -> Statistics:
    """The statistics of several groups of scalars, one after the other."""
    return made(
        [np.concatenate(each) for each in zip(*(part.columns for part in parts), strict=True)],
        *(
            Agreement(*(np.concatenate(each) for each in zip(*group, strict=True)))
            for group in ([p.location for p in parts], [p.scale for p in parts])
        ),
    )


def made(columns: list[EachScalar], location: Agreement, scale: Agreement) -> Statistics:
    """The statistics from the columns of a table, in their order."""
    mean, sd, q5, median, q95, mcse, ess, ess_tail = columns
    return Statistics(mean, sd, q5, median, q95, mcse, ess, ess_tail, location, scale)


def mapped(found: Statistics, change: Callable[[EachScalar], EachScalar]) -> Statistics:
    """The statistics with every column changed in the same way."""
    ends = (Agreement(change(p.rhat), change(p.within)) for p in (found.location, found.scale))
    return made([change(column) for column in found.columns], *ends)


def _of_block(values: np.ndarray, weights: np.ndarray | None) -> Statistics:
    finite = np.isfinite(values).all(axis=(0, 1))
    if not values.shape[0] * values.shape[1]:
        finite = np.zeros(values.shape[2], bool)
    found = _of_finite(values[:, :, finite], weights)
    if finite.all():
        return found
    places = np.where(finite, np.cumsum(finite) - 1, -1)

    return mapped(found, lambda column: np.append(column, np.nan)[places])


def _of_finite(values: np.ndarray, weights: np.ndarray | None) -> Statistics:
    if not values.shape[2]:
        nothing = np.zeros(0)
        none = Agreement(nothing, nothing)
        return made([nothing] * (len(Statistics._fields) - 2), none, none)
    if weights is not None:
        return _weighted(scalar_major(values), weights)
    values = np.asarray(values, float)
    sd = values.std(axis=(0, 1), ddof=min(1, values[:, :, 0].size - 1))
    found = mixing(values)
    mean, quantiles = values.mean(axis=(0, 1)), np.quantile(values, QUANTILES, axis=(0, 1))
    columns = [mean, sd, *quantiles, sd / np.sqrt(found.mean), found.bulk, found.tail]
    return made(columns, found.location, found.scale)


def _weighted(x: Scalars, weights: Float[np.ndarray, "chains draws"]) -> Statistics:
    mean, sd = _weighted_moments(x, weights)
    quantiles = weighted_quantiles(x, weights, QUANTILES)
    variance, within = _error(x, mean, weights)
    tails = []
    for level in (quantiles[0], quantiles[-1]):
        below = (x <= level[:, None, None]).astype(float)
        share = np.average(below.reshape(len(x), -1), weights=weights.ravel(), axis=1)
        tails.append(_ratio(share * (1 - share), _error(below, share, weights)[0]))
    folded = np.abs(x - quantiles[1][:, None, None])
    spread = _weighted_moments(folded, weights)
    inner = _error(folded, spread[0], weights)[1]
    location = Agreement(_weighted_rhats(x, weights), _ratio(sd**2, within))
    scale = Agreement(_weighted_rhats(folded, weights), _ratio(spread[1] ** 2, inner))
    ess, error = _ratio(sd**2, variance), np.sqrt(variance)
    columns = [mean, sd, *quantiles, error, ess, np.minimum(*tails)]
    return made(columns, location, scale)


def _ratio(of: EachScalar, by: EachScalar) -> EachScalar:
    return np.divide(of, by, out=np.full_like(of, np.nan), where=by > 0)


def _weighted_moments(x: Scalars, weights: np.ndarray) -> tuple[EachScalar, EachScalar]:
    flat, masses = x.reshape(len(x), -1), weights.ravel()
    mean = flat @ masses / masses.sum()
    return mean, np.sqrt((flat - mean[:, None]) ** 2 @ masses / masses.sum())


def weighted_quantiles(
    x: Scalars, weights: np.ndarray, levels: tuple[float, ...]
) -> Float[np.ndarray, "levels k"]:
    """The values below which these shares of the weight lie, interpolated."""
    flat, masses = x.reshape(len(x), -1), weights.ravel()
    order = np.argsort(flat, axis=1)
    ranked, mass = np.take_along_axis(flat, order, 1), masses[order]
    total = np.cumsum(mass, axis=1)
    # The weight of a draw counts half below it.
    places = (total - 0.5 * mass) / total[:, -1:]
    pairs = zip(places, ranked, strict=True)
    return np.stack([np.interp(levels, at, values) for at, values in pairs], axis=1)


def _error(x: Scalars, mean: EachScalar, weights: np.ndarray) -> tuple[EachScalar, EachScalar]:
    """The squared error of a weighted mean, and that without the differences between chains."""
    if x.shape[2] < MIN_DRAWS:
        nan = np.full(len(x), np.nan)
        return nan, nan
    shares = weights * (x - mean[:, None, None]) / weights.mean()
    whole, within = effective_and_within(split(shares))
    variance = shares.var(axis=(1, 2))
    return variance / whole, variance / within


def _weighted_rhats(x: Scalars, weights: np.ndarray) -> EachScalar:
    """Split R-hat from weighted means and variances of half-chains."""
    nan = np.full(len(x), np.nan)
    if x.shape[1] < 2 or x.shape[2] < MIN_DRAWS:
        return nan
    halves, masses = split(x), split(weights[None])
    totals = masses.sum(axis=2)
    if np.any(totals == 0):
        return nan
    means = (masses * halves).sum(axis=2) / totals
    within = ((masses * (halves - means[:, :, None]) ** 2).sum(axis=2) / totals).mean(axis=1)
    between = means.var(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(1 + between / within)
