"""Modes of a cloud of draws, found by the depth of the valleys between them."""

from typing import NamedTuple

import numpy as np


class Modes(NamedTuple):
    """Which mode each draw belongs to, and each mode's share and highest point."""

    labels: np.ndarray
    shares: np.ndarray
    peaks: np.ndarray


def find_modes(
    draws: np.ndarray,
    *,
    ratio: float = 3.0,
    least: float = 0.01,
    neighbors: int | None = None,
    most: int = 6000,
) -> Modes | None:
    """Tell the modes of draws (draw, coordinate) apart.

    Two peaks of the density are two modes if along every way between them the density falls
    below 1/``ratio`` of the lower peak. The density is that of the ``neighbors`` nearest (8
    to 30, by the number of draws) of at most ``most`` draws, and draws join the mode uphill of
    them (persistence clustering, Chazal et al. 2013). Modes with less than a share ``least``
    join the nearest other one. It is meant for a handful of coordinates. Labels go from the
    heaviest mode to the lightest. None where there are too few different draws to tell.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> draws = rng.normal(size=(4000, 2)) + 8 * (rng.random((4000, 1)) < 0.3)
    >>> find_modes(draws).shares.round(1).tolist()
    [0.7, 0.3]
    """
    draws = np.asarray(draws, float)
    spread = draws.std(axis=0)
    scaled = (draws - draws.mean(axis=0)) / np.where(spread > 0, spread, 1)
    from scipy.spatial import KDTree

    # Evenly through the draws: nothing random, so that a report can be made again. Draws that
    # repeat each other would look like peaks of any height.
    chosen = scaled[np.unique(np.linspace(0, len(draws) - 1, most).astype(int))]
    chosen = np.unique(chosen, axis=0)
    neighbors = int(np.clip(len(chosen) // 20, 8, 30)) if neighbors is None else neighbors
    if len(chosen) < 4 * neighbors:
        return None
    tree = KDTree(chosen)
    found = tree.query(chosen, neighbors + 1)
    distances, near = np.asarray(found[0]), np.asarray(found[1])
    dimension = draws.shape[1]
    density = -dimension * np.log(np.maximum(distances[:, -1], 1e-12))
    roots = _basins(density, near[:, 1:], np.log(ratio))
    roots = _without_small(roots, chosen, least)
    # Each draw is where the nearest of the chosen ones is.
    heavy = roots[tree.query(scaled)[1]]
    peaks = np.array(sorted(_counts(heavy), key=lambda root: -np.sum(heavy == root)))
    labels = np.argmax(heavy[:, None] == peaks, axis=1)
    shares = np.bincount(labels, minlength=len(peaks)) / len(labels)
    places = chosen[peaks] * np.where(spread > 0, spread, 1) + draws.mean(axis=0)
    return Modes(labels, shares, places)


def _basins(density: np.ndarray, near: np.ndarray, depth: float) -> np.ndarray:
    """The peak that each point belongs to; a valley less deep than ``depth`` is no border."""
    # Plain lists: single elements are looked up a few hundred thousand times.
    parent = list(range(len(density)))
    rank = np.empty(len(density), int)
    order = np.argsort(-density)
    rank[order] = np.arange(len(order))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i in order.tolist():
        higher = near[i][rank[near[i]] < rank[i]]
        if not higher.size:
            continue
        parent[i] = find(int(higher[np.argmax(density[higher])]))
        for j in higher.tolist():
            here, there = find(i), find(j)
            low, high = (here, there) if density[here] < density[there] else (there, here)
            if low != high and density[low] - density[i] < depth:
                parent[low] = high
    return np.array([find(i) for i in range(len(parent))])


def _counts(roots: np.ndarray) -> dict[int, int]:
    values, counts = np.unique(roots, return_counts=True)
    return {int(v): int(c) for v, c in zip(values, counts, strict=True)}


def _without_small(roots: np.ndarray, points: np.ndarray, least: float) -> np.ndarray:
    """Give the points of modes that are too light to the nearest mode that is not."""
    counts = _counts(roots)
    small = [root for root, count in counts.items() if count < least * len(roots)]
    large = [root for root in counts if root not in small]
    if not small or not large:
        return roots
    away = np.linalg.norm(points[small][:, None] - points[large][None], axis=-1)
    goes_to = {root: large[i] for root, i in zip(small, away.argmin(axis=1), strict=True)}
    return np.array([goes_to.get(int(root), int(root)) for root in roots])
