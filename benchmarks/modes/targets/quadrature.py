"""Shares and normalizers in the plane by a sum over a fine grid."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Planar(NamedTuple):
    """What a sum over the plane gives."""

    shares: np.ndarray
    """The share of each label."""
    log_z: float
    """log ∫exp(−U)."""


def over_the_plane(
    energy: Callable[[Any], Any],
    label: Callable[[np.ndarray], np.ndarray],
    count: int,
    box: tuple[tuple[float, float], tuple[float, float]],
    step: float,
) -> Planar:
    """Shares of ``count`` labels and log Z of a density that vanishes at the edges of the box.

    A step of a quarter of the narrowest standard deviation leaves an error below float32's.

    >>> found = over_the_plane(lambda x: 0.5 * jnp.sum(x**2), lambda x: (x[:, 0] > 1).astype(int),
    ...                        2, ((-7, 7), (-7, 7)), 0.02)
    >>> round(float(found.shares[1]), 3), round(found.log_z, 4)
    (0.159, 1.8379)
    """
    axes = [np.arange(low, high, step) + step / 2 for low, high in box]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    on_device = jnp.asarray(points, jnp.float32)
    energies = np.asarray(jax.lax.map(energy, on_device, batch_size=8192), float)
    least = energies.min()
    density = np.exp(least - energies)
    shares = np.bincount(label(points), density, minlength=count)
    total = shares.sum()
    return Planar(shares / total, float(np.log(total * step**2) - least))
