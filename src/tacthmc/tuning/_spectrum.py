"""The noisiest directions of the force, and the noise of the rest."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

MIN_ESTIMATES = 4
"""The smallest number of estimates for each direction to be found."""


class Spectrum(NamedTuple):
    """The noisiest directions and variances of the noise."""

    directions: Float[np.ndarray, "k d"]
    """Orthonormal directions, the noisiest first."""
    along: Float[np.ndarray, " k"]
    """The variance along each direction."""
    bulk: float
    """The mean variance over all other directions."""
    doubt: float
    """The relative standard error of the variances in ``along``."""


def spectrum(gradients: Float[np.ndarray, "n d"], most: int) -> Spectrum:
    """The spectrum from estimates of the force, less their mean at each place.

    It has at most ``most`` directions. They are the first eigenvectors of the covariance of one
    half of the estimates, and the variances along them are measured on the other half: in high
    dimension some direction of a few estimates is always noisy by chance.

    >>> rng = np.random.default_rng(0)
    >>> found = spectrum(rng.normal(size=(400, 1000)) * np.where(np.arange(1000) < 2, 30.0, 1.0), 4)
    >>> found.along.round(-2).tolist(), round(found.bulk, 1)
    ([1000.0, 800.0, 0.0, 0.0], 1.0)
    """
    # Every other estimate, so that both halves contain all places.
    first, second = gradients[::2], gradients[1::2]
    size = gradients.shape[1]
    sought = max(1, min(most, len(first) // MIN_ESTIMATES, size // 2))
    # The eigenvectors of the smaller of the two matrices.
    few = len(first) < size
    square = (first @ first.T if few else first.T @ first).astype(float)
    rows = np.linalg.eigh(square)[1][:, ::-1][:, :sought].T
    rows = rows.astype(first.dtype) @ first if few else rows
    # Orthonormal again after rounding errors.
    rows = np.linalg.qr(rows.T.astype(float))[0].T
    along = np.var((second @ rows.T.astype(second.dtype)).astype(float), axis=0, ddof=1)
    whole = float(np.mean(np.mean(second**2, axis=0), dtype=float)) * size
    order = np.argsort(along)[::-1]
    # In one dimension there is no other direction.
    bulk = max(whole - float(along.sum()), 0.0) / max(size - sought, 1)
    return Spectrum(rows[order], along[order], bulk, float(np.sqrt(2 / len(second))))
