"""Nearly independent draws from chains: how far apart they must be."""

import numpy as np

MAX_CORRELATION_SUM = 0.1
"""The sum of the autocorrelations of thinned draws. It widens the law of a rank among L of them by
less than a share of 1.2/L of its variance."""
NOISE_LEVEL = 0.02
"""Two neighboring autocorrelations whose sum is below this are taken for noise, as are all after
them."""


def stride(chains: np.ndarray) -> int:
    """The least distance at which draws are nearly independent, from a (chain, draw) array.

    Autocorrelations are averaged over chains, each about its own mean. If they do not fall, or if
    a chain does not move, the distance is the whole length.

    >>> rng = np.random.default_rng(0)
    >>> stride(rng.normal(size=(100, 200)))
    1
    >>> slow = rng.normal(size=(100, 400))
    >>> for k in range(1, 400):
    ...     slow[:, k] = 0.8 * slow[:, k - 1] + 0.6 * slow[:, k]
    >>> 9 <= stride(slow) <= 15
    True
    """
    length = chains.shape[1]
    correlation = mean_autocorrelation(chains)
    if correlation is None:
        return length
    pairs = correlation[:-1] + correlation[1:]
    quiet = np.flatnonzero(pairs < NOISE_LEVEL)
    if not quiet.size:
        return length
    correlation = np.where(np.arange(len(correlation)) < quiet[0], correlation, 0.0)
    for distance in range(1, len(correlation)):
        if correlation[distance::distance].sum() <= MAX_CORRELATION_SUM:
            return distance
    return length


def mean_autocorrelation(chains: np.ndarray) -> np.ndarray | None:
    """The mean autocorrelation up to half the length; None if most chains do not move."""
    length = chains.shape[1]
    if length < 4:
        return None
    # Positions far from zero would lose the digits that differ.
    away = np.asarray(chains, float)
    away = away - away.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(away, 2 * length, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, : length // 2]
    covariance = covariance / (length - np.arange(length // 2))
    moving = covariance[:, 0] > 0
    if moving.mean() < 0.5:
        return None
    return (covariance[moving] / covariance[moving, :1]).mean(axis=0)


def spaced(length: int, distance: int, most: int) -> np.ndarray:
    """At most ``most`` places in a chain, at least ``distance`` apart and spread over all of it.

    >>> spaced(100, 10, 5).tolist()
    [19, 39, 59, 79, 99]
    """
    count = min(most, length // distance)
    if not count:
        return np.zeros(0, int)
    return ((np.arange(count) + 1) * (length / count)).astype(int) - 1
