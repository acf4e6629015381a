r"""R-hat and effective sample sizes of many scalars at once.

Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021): chains are split into halves, values are
replaced by the normal scores z of their ranks, and

.. math:: \hat R^2 = \frac{n-1}{n} + \frac{\mathrm{var}(\bar z_m)}{W}

for m half-chains of n draws with the mean variance W within them. The folded R-hat is the same of
the distances from the median. The effective sample size is mn/τ with the autocorrelation time τ
from Geyer's initial monotone sequence. Autocovariances of all scalars come from one Fourier
transform, so there is no loop over scalars.

An array has the axes (chain, draw, scalar) outside of this module, and (scalar, chain, draw)
inside, where the axis that is sorted and transformed lies densely in memory.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.fft
from jaxtyping import Float
from scipy.special import ndtri

from tacthmc import _checks as checks

MIN_DRAWS = 4
"""The smallest number of draws of a chain from which anything can be computed."""
TAILS = (0.05, 0.95)
"""The quantiles whose effective sample size is that of the tails."""

Scalars = Float[np.ndarray, "k chains draws"]
EachScalar = Float[np.ndarray, " k"]


class Agreement(NamedTuple):
    """R-hat of some scalars, and the effective draws within chains that it is judged by."""

    rhat: EachScalar
    within: EachScalar
    """The effective sample size without the differences between chains."""


class Mixing(NamedTuple):
    """Diagnostics of each of many scalars."""

    bulk: EachScalar
    """Effective draws of the bulk."""
    tail: EachScalar
    """Effective draws of the 5% and 95% quantiles, the smaller of the two."""
    mean: EachScalar
    """Effective draws of the mean."""
    location: Agreement
    """R-hat of the normal scores: whether chains are at the same place."""
    scale: Agreement
    """R-hat of the folded ones: whether chains have the same width."""

    @property
    def rhat(self) -> EachScalar:
        """The larger R-hat of location and scale."""
        return np.fmax(self.location.rhat, self.scale.rhat)


def mixing(values: Float[np.ndarray, "chains draws k"]) -> Mixing:
    """All diagnostics of finite draws; NaN for a scalar that never moves.

    With fewer than four draws everything is NaN, and with one chain R-hat is.

    >>> import numpy as np
    >>> found = mixing(np.random.default_rng(0).normal(size=(4, 1000, 2)))
    >>> found.bulk.shape, bool(np.all(found.rhat < 1.01)), bool(np.all(found.tail > 3000))
    ((2,), True, True)
    """
    chains, draws, count = values.shape
    if draws < MIN_DRAWS:
        nan = np.full(count, np.nan)
        return Mixing(nan, nan, nan, Agreement(nan, nan), Agreement(nan, nan))
    x = scalar_major(values)
    halves = split(x)
    scores = normal_scores(halves)
    bulk, within = effective_and_within(scores)
    folded = normal_scores(np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True)))
    lone = chains < 2
    location = Agreement(_nan_if(lone, between_over_within(scores)), within)
    scale = Agreement(_nan_if(lone, between_over_within(folded)), effective_and_within(folded)[1])
    found = Mixing(bulk, _tail(x), effective_and_within(halves)[0], location, scale)
    still = np.ptp(x, axis=(1, 2)) == 0
    return _with_nan(found, still) if still.any() else found


def ess(values: np.ndarray) -> float:
    """Bulk effective sample size of a (chain, draw) array; NaN if there are too few draws.

    >>> import numpy as np
    >>> bool(3000 < ess(np.random.default_rng(0).normal(size=(4, 1000))) < 5000)
    True
    """
    return _of_one(values, lambda halves: effective_and_within(normal_scores(halves))[0])


def mean_ess(values: np.ndarray) -> float:
    """Effective sample size of the mean of a (chain, draw) array, without rank normalization.

    >>> import numpy as np
    >>> bool(3000 < mean_ess(np.random.default_rng(0).normal(size=(4, 1000))) < 5000)
    True
    """
    return _of_one(values, lambda halves: effective_and_within(halves)[0])


def tail_ess(values: np.ndarray) -> float:
    """The smaller effective sample size of the 5% and 95% quantiles of a (chain, draw) array.

    >>> import numpy as np
    >>> bool(3000 < tail_ess(np.random.default_rng(0).normal(size=(4, 1000))) < 5000)
    True
    """
    values = _checked(values)
    if values.shape[1] < MIN_DRAWS or not np.all(np.isfinite(values)):
        return float("nan")
    return float(_tail(values[None])[0])


def rhat(values: np.ndarray) -> float:
    """Rank-normalized split R-hat of a (chain, draw) array; NaN for a single chain.

    >>> import numpy as np
    >>> bool(rhat(np.random.default_rng(0).normal(size=(4, 1000))) < 1.01)
    True
    """
    values = _checked(values)
    if values.shape[0] < 2:
        return float("nan")

    def larger(halves: Scalars) -> EachScalar:
        far = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
        both = (between_over_within(normal_scores(part)) for part in (halves, far))
        return np.fmax(*both)

    return _of_one(values, larger)


def scalar_major(values: Float[np.ndarray, "chains draws k"]) -> Scalars:
    """The values in double precision, with the draws of a chain side by side."""
    return np.ascontiguousarray(np.moveaxis(values, 2, 0), float)


def split(x: Scalars) -> Float[np.ndarray, "k pieces half"]:
    """The halves of chains as chains. Of an odd number of draws the middle one is left out."""
    half = x.shape[2] // 2
    return np.concatenate([x[:, :, :half], x[:, :, -half:]], axis=1)


def normal_scores(x: Scalars) -> Scalars:
    """Each value's quantile of the normal law, by its rank among all draws of its scalar."""
    flat = x.reshape(len(x), -1)
    size = flat.shape[1]
    order = np.argsort(flat, axis=1)
    ranked = np.take_along_axis(flat, order, axis=1)
    # Twice the mean rank of equal values is a whole number, and chooses from a table of scores.
    double = np.broadcast_to(2 * np.arange(1, size + 1), ranked.shape)
    tied = ranked[:, 1:] == ranked[:, :-1]
    if tied.any():
        double = _tied_ranks(tied)
    table = ndtri((np.arange(2 * size + 1) / 2 - 0.375) / (size + 0.25))
    scores = np.empty_like(flat)
    np.put_along_axis(scores, order, table[double], axis=1)
    return scores.reshape(x.shape)


def _tied_ranks(tied: np.ndarray) -> np.ndarray:
    """First plus last rank of the group of equal values around each place of sorted rows."""
    size = tied.shape[1] + 1
    places = np.arange(1, size + 1)
    edge = np.zeros((len(tied), 1), bool)
    begins = np.where(np.concatenate([edge, tied], axis=1), 0, places)
    ends = np.where(np.concatenate([tied, edge], axis=1), size, places)
    first = np.maximum.accumulate(begins, axis=1)
    last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    return first + last


def between_over_within(x: Scalars) -> EachScalar:
    """R-hat of chains as they are."""
    draws = x.shape[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = x.mean(axis=2).var(axis=1, ddof=1) / x.var(axis=2, ddof=1).mean(axis=1)
    return np.sqrt(ratio + (draws - 1) / draws)


def effective_and_within(x: Scalars) -> tuple[EachScalar, EachScalar]:
    """The effective sample size, and that without the differences between chains."""
    count, chains, draws = x.shape
    between = x.mean(axis=2).var(axis=1, ddof=1) if chains > 1 else np.zeros(count)
    covariances = _autocovariances(x)
    size = chains * draws
    return (
        size / _autocorrelation_time(covariances, between, size),
        size / _autocorrelation_time(covariances, np.zeros(count), size),
    )


def _autocovariances(x: Scalars) -> Float[np.ndarray, "k draws"]:
    """The mean over chains of their autocovariances at all lags."""
    draws = x.shape[2]
    size = scipy.fft.next_fast_len(2 * draws, real=True)
    transformed = np.asarray(scipy.fft.rfft(x - x.mean(axis=2, keepdims=True), size, axis=2))
    power = np.square(np.abs(transformed)).mean(axis=1)
    return np.asarray(scipy.fft.irfft(power, size, axis=1))[:, :draws] / draws


def _autocorrelation_time(
    covariances: Float[np.ndarray, "k draws"], between: EachScalar, size: int
) -> EachScalar:
    """τ by Geyer's initial monotone sequence of sums of neighboring autocorrelations."""
    draws = covariances.shape[1]
    within = covariances[:, :1] * draws / (draws - 1)
    whole = within * (draws - 1) / draws + between[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1 - (within - covariances) / whole
    rho[:, 0] = 1.0
    # The last pair that is looked at begins three lags before the end.
    pairs = 1 + max(0, -(-(draws - 2) // 2) - 1)
    even, odd = rho[:, : 2 * pairs : 2], rho[:, 1 : 2 * pairs : 2]
    sums = even + odd
    negative = sums <= 0
    stop = np.where(negative.any(axis=1), negative.argmax(axis=1), pairs - 1)
    summed = np.where(np.arange(pairs) < stop[:, None], np.minimum.accumulate(sums, axis=1), 0)
    rows = np.arange(len(rho))
    last = np.where(np.maximum(even, sums)[rows, stop] > 0, even[rows, stop], 0.0)
    tau = 2 * summed.sum(axis=1) - 1 + last
    # A constant tells nothing; callers that count it as all draws say so themselves.
    known = np.isfinite(rho[:, : 2 * pairs]).all(axis=1)
    return np.where(known, np.maximum(tau, 1 / np.log10(size)), np.nan)


def _tail(x: Scalars) -> EachScalar:
    """The smaller effective sample size of the indicators of two quantiles."""
    found = []
    for level in np.quantile(x, TAILS, axis=(1, 2)):
        inside = (x <= level[:, None, None]).astype(float)
        halves = split(inside)
        constant = np.ptp(halves, axis=(1, 2)) == 0
        found.append(np.where(constant, halves[0].size, effective_and_within(halves)[0]))
    return np.minimum(*found)


def _checked(values: np.ndarray) -> np.ndarray:
    """Draws of one scalar of at least one chain."""
    values = checks.numbers("values", values, "(chain, draw)", least=0)
    if not len(values):
        raise ValueError(f"values must have at least one chain; got shape {values.shape}")
    return values


def _of_one(values: np.ndarray, statistic: Callable[[Scalars], EachScalar]) -> float:
    """A statistic of the halves of one scalar; NaN if there are too few draws, or one is lost."""
    values = _checked(values)
    if values.shape[1] < MIN_DRAWS or not np.all(np.isfinite(values)):
        return float("nan")
    return float(statistic(split(values[None]))[0])


def _nan_if(condition: bool, values: EachScalar) -> EachScalar:
    return np.full_like(values, np.nan) if condition else values


def _with_nan(found: Mixing, where: np.ndarray) -> Mixing:
    """NaN in everything that is known of these scalars."""

    def cleared(part: EachScalar) -> EachScalar:
        return np.where(where, np.nan, part)

    ends = (Agreement(cleared(p.rhat), cleared(p.within)) for p in (found.location, found.scale))
    return Mixing(cleared(found.bulk), cleared(found.tail), cleared(found.mean), *ends)
