"""Over-dispersed starts for the search of modes.

In D dimensions a mode that is narrow by a factor f attracts minimizations only from a ball of about
f times its distance to the next one, and random starts miss a ball in many dimensions. They find it
only if it is wide. But often modes differ in one coordinate, in all by the same, or along the axes
of the curvature. So some starts go in such single directions, at distances that double.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

SPREADS = (1.5, 1000.0)
"""The range of the widths of starts around a mode, in its own standard deviations."""
STEPS = (3.0, 6.0, 12.0, 24.0, 48.0)
"""The distances of starts in single directions, in standard deviations along them."""
WIDE = 5.0
"""The width of starts around the only mode, in its standard deviations."""
REGION_WIDTHS = (2.0, 5.0, 15.0)
"""The widths of the region that is screened around the only mode, in its standard deviations."""
MIN_CORRELATION = 0.1
"""The largest correlation of coordinates below which curvature has no axes of its own."""


class Gaussian(NamedTuple):
    """A Gaussian from which starts are drawn."""

    center: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, "d d"]

    def draw(
        self, rng: np.random.Generator, widths: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n d"]:
        """One draw for each width, from the Gaussian that is wider by it."""
        normal = rng.normal(size=(len(widths), len(self.center)))
        return self.center + widths[:, None] * (normal @ self.scale.T)


def around_modes(
    rng: np.random.Generator, known: list[Gaussian], count: int
) -> list[Float[np.ndarray, "n d"]]:
    """Starts near known modes at many widths, and from a wide Gaussian of all of them."""
    low, high = np.log(SPREADS)
    half = count // 2
    widths = np.exp(rng.uniform(float(low), float(high), count - half))
    which = rng.integers(len(known), size=len(widths))
    near = [known[k].draw(rng, widths[which == k]) for k in np.unique(which)]
    if len(known) == 1:
        return [*near, known[0].draw(rng, np.full(half, WIDE))]
    return [*near, _between(rng, known, half)]


def over_region(
    rng: np.random.Generator, known: list[Gaussian], prior: Gaussian | None, count: int
) -> Float[np.ndarray, "n d"]:
    """Places over the region of the known modes, over twice that, and over the prior.

    If there is one mode, its region is two, five or fifteen times as wide as the mode.
    """
    parts = []
    if prior is not None:
        parts.append(prior.draw(rng, np.ones(count // 3)))
    left = count - sum(map(len, parts))
    if len(known) == 1:
        return np.concatenate([*parts, known[0].draw(rng, np.resize(REGION_WIDTHS, left))])
    return np.concatenate([*parts, _between(rng, known, left)])


def _between(
    rng: np.random.Generator, known: list[Gaussian], count: int
) -> Float[np.ndarray, "n d"]:
    """The directions between modes, and those within the widest mode."""
    centers = np.stack([one.center for one in known])
    away = centers - centers.mean(axis=0)
    mixed = rng.normal(size=(count, len(known))) @ away / np.sqrt(len(known))
    widest = max(known, key=lambda one: float(np.linalg.slogdet(one.scale)[1]))
    within = rng.normal(size=(count, centers.shape[1])) @ widest.scale.T
    width = np.where(np.arange(count) % 2, 1.0, 2.0)[:, None]
    return centers.mean(axis=0) + width * (mixed + 2 * within)


def around_start(
    rng: np.random.Generator,
    start: Float[np.ndarray, " d"],
    hessian: Float[np.ndarray, "d d"],
    count: int,
) -> Float[np.ndarray, "n d"]:
    """Starts around a place that need not be a minimum, by the size of its curvatures."""
    if not np.isfinite(hessian).all() or not hessian.any():
        scale = np.eye(len(start)) * max(1.0, float(np.abs(start).max()))
    else:
        sizes = np.sqrt(np.abs(np.diag(hessian)))
        # A coordinate may have no curvature at a saddle point.
        units = 1 / np.where(sizes > 0, sizes, np.sqrt(np.abs(hessian).max()))
        values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T) * np.outer(units, units))
        values = np.maximum(np.abs(values), 1e-4 * np.abs(values).max())
        scale = units[:, None] * vectors / np.sqrt(values)
    widths = np.exp(rng.uniform(0.0, 0.5 * np.log(SPREADS[1]), count))
    return Gaussian(start, scale).draw(rng, widths)


def single_directions(
    center: Float[np.ndarray, " d"], scale: Float[np.ndarray, "d d"]
) -> Float[np.ndarray, "n d"]:
    """Starts along each coordinate, along all at once, and along the axes of the curvature.

    Distances double, so that each start is closer to the next mode than twice its distance. The
    nearest starts of all directions come first.

    >>> single_directions(np.zeros(2), np.eye(2))[:6].tolist()[:2]
    [[3.0, 0.0], [-3.0, 0.0]]
    """
    size = len(center)
    sds = np.sqrt(np.sum(scale**2, axis=1))
    directions = [np.diag(sds), sds[None] / np.sqrt(size)]
    correlation = (scale @ scale.T) / np.outer(sds, sds)
    if size > 1 and np.abs(correlation - np.eye(size)).max() > MIN_CORRELATION:
        values, vectors = np.linalg.eigh(scale @ scale.T)
        directions.append((vectors * np.sqrt(values)).T)
    all_of_them = np.concatenate(directions)
    signed = np.stack([all_of_them, -all_of_them], axis=1).reshape(-1, size)
    return np.concatenate([center + step * signed for step in STEPS])
