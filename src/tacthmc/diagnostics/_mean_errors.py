r"""Monte-Carlo errors of the means of many quantities at once.

The effective sample size is that of Geyer's initial monotone sequence over all chains together,
as in Stan: differences between chains count as correlation. It is the formula of
:func:`tacthmc.diagnostics.mean_ess`, without its loop over quantities.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

MAX_LAGS = 512
"""The largest lag of an autocorrelation that is summed."""
BLOCK_NUMBERS = 1 << 20
"""The number of values that are transformed at a time."""


class MeanErrors(NamedTuple):
    """Means over chains and draws, their standard errors, and effective sample sizes."""

    mean: Float[np.ndarray, " k"]
    error: Float[np.ndarray, " k"]
    ess: Float[np.ndarray, " k"]


def mean_errors(values: Float[np.ndarray, "chains draws k"]) -> MeanErrors:
    """The mean of each quantity with its error; NaN where there are fewer than four draws.

    >>> import numpy as np
    >>> found = mean_errors(np.random.default_rng(0).normal(size=(4, 1000, 2)))
    >>> bool(np.all(np.abs(found.mean) < 4 * found.error)), found.error.round(2).tolist()
    (True, [0.02, 0.02])
    """
    values = np.asarray(values, float)
    chains, draws, count = values.shape
    if draws < 4:
        nothing = np.full(count, np.nan)
        return MeanErrors(values.mean(axis=(0, 1)) if draws else nothing, nothing, nothing)
    width = max(1, BLOCK_NUMBERS // (chains * draws))
    parts = [_some(values[:, :, begin : begin + width]) for begin in range(0, count, width)]
    return MeanErrors(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _some(values: np.ndarray) -> MeanErrors:
    draws = values.shape[1]
    # Halves of chains show a trend that all chains share.
    half = draws // 2
    pieces = np.concatenate([values[:, :half], values[:, draws - half :]])
    own_mean = pieces.mean(axis=1)
    between = own_mean.var(axis=0, ddof=1) if len(pieces) > 1 else 0.0
    covariance = _autocovariance(pieces - own_mean[:, None], min(MAX_LAGS, half - 1))
    within = covariance[0] * half / (half - 1)
    whole = covariance[0] + between
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1 - (within - covariance) / whole
    correlation[0] = 1.0
    time = _integrated(correlation)
    total = len(pieces) * half
    size = total / np.maximum(time, 1 / np.log10(max(total, 10)))
    mean = values.mean(axis=(0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(whole / size)
    constant = ~(whole > 0)
    return MeanErrors(mean, np.where(constant, 0.0, error), np.where(constant, total, size))


def _autocovariance(centered: np.ndarray, lags: int) -> np.ndarray:
    """The autocovariances at lags 0 to ``lags``, averaged over chains, (lag, quantity)."""
    count = centered.shape[1]
    size = 1 << (count + lags).bit_length()
    spectrum = np.abs(np.fft.rfft(centered, size, axis=1)) ** 2
    sums = np.fft.irfft(spectrum.mean(axis=0), size, axis=0)[: lags + 1]
    return sums / count


def _integrated(correlation: np.ndarray) -> np.ndarray:
    """Geyer's estimate of Σρ over all lags, for each quantity."""
    even = len(correlation) // 2 * 2
    if even == 0:
        return np.ones(correlation.shape[1])
    pairs = correlation[0:even:2] + correlation[1:even:2]
    positive = np.logical_and.accumulate(np.nan_to_num(pairs) > 0, axis=0)
    decreasing = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    return 2 * decreasing.sum(axis=0) - 1
