"""Modes in a set of draws, separated by the depth of the valleys between them."""

from typing import NamedTuple

import numpy as np

from tacthmc import _checks as checks


class Modes(NamedTuple):
    """Modes, from the heaviest to the lightest."""

    labels: np.ndarray
    """The mode of each draw."""
    shares: np.ndarray
    """The share of the draws in each mode."""
    peaks: np.ndarray
    """The draw of the highest density in each mode."""


def find_modes(
    draws: np.ndarray,
    *,
    ratio: float = 3.0,
    least: float = 0.01,
    neighbors: int | None = None,
    most: int = 6000,
) -> Modes | None:
    """Find the modes of draws (draw, coordinate), for a few coordinates.

    Two peaks of the density are separate modes if the density falls below 1/``ratio`` of the lower
    peak along every path between them. The density is estimated from the ``neighbors`` nearest (8
    to 30, depending on the number of draws) of at most ``most`` draws, and each draw belongs to the
    mode uphill of it (persistence clustering, Chazal et al. 2013). Modes with less than the share
    ``least`` join the nearest other mode. Labels run from the heaviest mode to the lightest. The
    result is None if there are too few different draws.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> draws = rng.normal(size=(4000, 2)) + 8 * (rng.random((4000, 1)) < 0.3)
    >>> find_modes(draws).shares.round(1).tolist()
    [0.7, 0.3]
    """
    draws = checks.numbers("draws", draws, "(draw, coordinate)")
    _check(draws, ratio, least)
    for name, count in (("neighbors", neighbors), ("most", most)):
        if count is not None:
            checks.whole(name, count, 1)
    spread = draws.std(axis=0)
    scaled = (draws - draws.mean(axis=0)) / np.where(spread > 0, spread, 1)
    from scipy.spatial import KDTree

    # Draws are picked evenly, not at random, so that a report is reproducible. Repeated draws would
    # look like arbitrarily high peaks.
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
    # Each draw belongs to the mode of the nearest picked one.
    heavy = roots[tree.query(scaled)[1]]
    peaks = np.array(sorted(_counts(heavy), key=lambda root: -np.sum(heavy == root)))
    labels = np.argmax(heavy[:, None] == peaks, axis=1)
    shares = np.bincount(labels, minlength=len(peaks)) / len(labels)
    places = chosen[peaks] * np.where(spread > 0, spread, 1) + draws.mean(axis=0)
    return Modes(labels, shares, places)


def _check(draws: np.ndarray, ratio: float, least: float) -> None:
    if not np.isfinite(draws).all():
        bad = int(np.sum(~np.isfinite(draws)))
        raise ValueError(f"draws must be finite; got {bad} values that are NaN or infinite")
    checks.positive("ratio", ratio)
    if ratio <= 1:
        raise ValueError(f"ratio must be more than 1; got {ratio!r}")
    checks.non_negative("least", least)
    if least >= 1:
        raise ValueError(f"least must be a share below 1; got {least!r}")


def _basins(density: np.ndarray, near: np.ndarray, depth: float) -> np.ndarray:
    """The peak of each point, where valleys less deep than ``depth`` do not separate peaks."""
    # A plain list, because single elements are read a few hundred thousand times.
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
    """The roots, where the points of too light modes join the nearest other mode."""
    counts = _counts(roots)
    small = [root for root, count in counts.items() if count < least * len(roots)]
    large = [root for root in counts if root not in small]
    if not small or not large:
        return roots
    away = np.linalg.norm(points[small][:, None] - points[large][None], axis=-1)
    goes_to = {root: large[i] for root, i in zip(small, away.argmin(axis=1), strict=True)}
    return np.array([goes_to.get(int(root), int(root)) for root in roots])
