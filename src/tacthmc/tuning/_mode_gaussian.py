"""Gaussians from Hessians: the scale of a minimum, in coordinates of very unequal units too."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc._typing import Scalar
from tacthmc.tuning._mode_starts import Gaussian

MAX_NEWTON_DISTANCE = 0.3
"""The largest Mahalanobis distance to the minimum that is left."""
NEWTON_STEPS = 8
"""The largest number of Newton steps to the minimum of the energy of all data."""
MIN_CURVATURE_RATIO = 1e-6
"""The smallest curvature of a mode relative to its largest one: of single precision."""
MAX_UNEVENNESS = 100.0
"""The largest ratio of the standard deviations of two coordinates with which minimizations manage.
Beyond it, each coordinate is minimized in its own unit."""


def scale_of_hessian(hessian: np.ndarray, units: Float[np.ndarray, " d"]) -> np.ndarray | None:
    """The Cholesky factor of the inverse of a Hessian, or None if it is not positive definite.

    It has to be so by a margin, in the coordinates as they are or in the given units.
    """
    curvatures = np.diag(hessian)
    if not np.isfinite(hessian).all() or not np.all(curvatures > 0):
        return None
    symmetric = 0.5 * (hessian + hessian.T)
    if not any(_is_definite(symmetric * np.outer(u, u)) for u in (np.ones_like(units), units)):
        return None
    # Rounding is relative to the curvatures of both coordinates.
    own = 1 / np.sqrt(curvatures)
    values, vectors = np.linalg.eigh(symmetric * np.outer(own, own))
    if values[0] <= 0:
        return None
    return own[:, None] * np.linalg.cholesky((vectors / values) @ vectors.T)


def _is_definite(hessian: np.ndarray) -> bool:
    values = np.linalg.eigvalsh(hessian)
    return bool(values[0] > MIN_CURVATURE_RATIO * abs(values[-1]))


def uneven_units(curvatures: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """The standard deviation of each coordinate, or ones if they do not differ much."""
    sizes = np.sqrt(np.abs(curvatures))
    known = np.isfinite(sizes) & (sizes > 0)
    if not known.any() or sizes[known].max() <= MAX_UNEVENNESS * sizes[known].min():
        return np.ones_like(sizes)
    return 1 / np.where(known, sizes, np.median(sizes[known]))


def gaussian_at_minimum(
    energy: Callable[[Array], Scalar], start: Float[np.ndarray, " d"]
) -> Gaussian | None:
    """The Gaussian of the curvature at a minimum near ``start``; None if there is no minimum."""
    both = jax.jit(lambda x: (jax.grad(energy)(x), jax.hessian(energy)(x)))
    center, units = start, None
    for _ in range(NEWTON_STEPS):
        gradient, hessian = (np.asarray(x, float) for x in both(jnp.asarray(center, jnp.float32)))
        units = uneven_units(np.diag(hessian)) if units is None else units
        scale = scale_of_hessian(hessian, units)
        if scale is None or not np.isfinite(gradient).all():
            return None
        step = scale @ (scale.T @ gradient)
        center = center - step
        if np.linalg.norm(scale.T @ gradient) < MAX_NEWTON_DISTANCE:
            return Gaussian(center, scale)
    return None
