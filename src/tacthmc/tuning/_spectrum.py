"""In which directions the force is noisiest, and how noisy the rest is."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

FROM = 4
"""Estimates for each direction that is sought, at least."""


class Spectrum(NamedTuple):
    """Orthonormal directions, the noisiest first, and variances of the noise."""

    directions: Float[np.ndarray, "k d"]
    along: Float[np.ndarray, " k"]
    """Along each of them."""
    bulk: float
    """The mean over what is left."""
    doubt: float
    """Relative standard error of those along directions."""


def spectrum(gradients: Float[np.ndarray, "n d"], most: int) -> Spectrum:
    """From estimates of the force, less their mean at each place; ``most`` directions at most.

    Directions are the first eigenvectors of one half's covariance, and variances along them those
    of the other half: in high dimension some direction of few estimates is always noisy by chance,
    and what looks like the noisiest is only in part.

    >>> rng = np.random.default_rng(0)
    >>> found = spectrum(rng.normal(size=(400, 1000)) * np.where(np.arange(1000) < 2, 30.0, 1.0), 4)
    >>> found.along.round(-2).tolist(), round(found.bulk, 1)
    ([1000.0, 800.0, 0.0, 0.0], 1.0)
    """
    # Every other one, so that both halves have seen all places.
    first, second = gradients[::2], gradients[1::2]
    size = gradients.shape[1]
    sought = max(1, min(most, len(first) // FROM, size // 2))
    # By way of the smaller matrix.
    few = len(first) < size
    square = (first @ first.T if few else first.T @ first).astype(float)
    rows = np.linalg.eigh(square)[1][:, ::-1][:, :sought].T
    rows = rows.astype(first.dtype) @ first if few else rows
    # Again orthonormal, which they are only up to rounding.
    rows = np.linalg.qr(rows.T.astype(float))[0].T
    along = np.var((second @ rows.T.astype(second.dtype)).astype(float), axis=0, ddof=1)
    whole = float(np.mean(np.mean(second**2, axis=0), dtype=float)) * size
    order = np.argsort(along)[::-1]
    # In one dimension nothing is left.
    bulk = max(whole - float(along.sum()), 0.0) / max(size - sought, 1)
    return Spectrum(rows[order], along[order], bulk, float(np.sqrt(2 / len(second))))
