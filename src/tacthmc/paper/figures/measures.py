"""Distances of draws from a known mixture, and numbers of effective draws."""

import numpy as np
from scipy.stats import norm

from tacthmc.diagnostics import mean_ess
from tacthmc.targets import GaussianMixture


def mode_of(target: GaussianMixture, draws: np.ndarray) -> np.ndarray:
    """The nearest component of each draw, with the draws' leading axes."""
    means = np.asarray(target.means, float)
    squares = [np.sum((draws - mean) ** 2, axis=-1) for mean in means]
    return np.argmin(np.stack(squares), axis=0)


def weights(modes: np.ndarray, count: int) -> np.ndarray:
    """The share of draws in each of ``count`` modes."""
    return np.bincount(modes.ravel(), minlength=count) / max(modes.size, 1)


def deviations(target: GaussianMixture, draws: np.ndarray) -> np.ndarray:
    """Each draw's distance from the center of its mode, coordinate by coordinate."""
    return draws - np.asarray(target.means, float)[mode_of(target, draws)]


def sd_within(target: GaussianMixture, draws: np.ndarray) -> float:
    """The standard deviation within modes: the root of the mean square deviation."""
    return float(np.sqrt(np.mean(deviations(target, draws) ** 2)))


def cell_shares(target: GaussianMixture, edges: np.ndarray) -> np.ndarray:
    """The exact probability of each cell of a lattice with these edges in every coordinate.

    >>> import numpy as np
    >>> from tacthmc.targets import three_gaussians
    >>> cell_shares(three_gaussians(), np.array([-7.0, -2.0, 2.0, 7.0])).round(3).tolist()
    [0.3, 0.4, 0.3]
    """
    scale = float(np.asarray(target.scale))
    total = 0.0
    weights = np.asarray(target.weights, float)
    for weight, mean in zip(weights, np.asarray(target.means, float), strict=True):
        cell = np.asarray(weight)
        for coordinate in mean:
            cell = np.multiply.outer(cell, np.diff(norm.cdf(edges, coordinate, scale)))
        total = total + cell
    return np.asarray(total)


def histogram(draws: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The share of draws in each cell; draws outside the lattice count in the denominator."""
    counts, _ = np.histogramdd(draws, [edges] * draws.shape[-1])
    return counts / max(len(draws), 1)


def total_variation(seen: np.ndarray, truth: np.ndarray) -> float:
    """½Σ|p̂ − p|, including the draws outside the cells."""
    outside = abs(truth.sum() - seen.sum())
    return float(0.5 * (np.abs(seen - truth).sum() + outside))


def floor(truth: np.ndarray, count: int) -> float:
    """The expected total variation of ``count`` exact, independent draws.

    >>> import numpy as np
    >>> round(floor(np.full(100, 0.01), 10_000), 3)
    0.04
    """
    return float(0.5 * np.sqrt(2 / np.pi) * np.sqrt(truth * (1 - truth) / count).sum())


def indicator_ess(modes: np.ndarray, count: int) -> float:
    """Effective draws of one chain's mode indicator 1[mode = k], the least over k.

    A chain that never left its mode counts as one draw.

    >>> import numpy as np
    >>> indicator_ess(np.zeros(1000, int), 2), bool(indicator_ess(np.arange(1000) % 2, 2) > 1000)
    (1.0, True)
    """
    found = []
    for k in range(count):
        inside = (modes == k).astype(float)
        found.append(1.0 if inside.min() == inside.max() else mean_ess(inside[None]))
    return min(found)


def pooled_indicator_ess(inside: np.ndarray) -> float:
    """Effective draws of an indicator, (chain, draw), over all chains; one if it never changes."""
    return 1.0 if inside.min() == inside.max() else mean_ess(inside.astype(float))


def sum_of_ess(draws: np.ndarray) -> float:
    """Σ over chains of n/(1 + 2Σρ), each chain with its own mean: the paper's formula.

    A chain that stays in one mode counts as if it had mixed.
    """
    return float(sum(mean_ess(chain[None]) for chain in draws))
