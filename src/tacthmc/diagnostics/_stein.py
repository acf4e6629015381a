r"""The configurational temperature of coordinates, leaves, directions and modes.

For every smooth vector field f that grows slowly, and a density that vanishes at its boundary,

.. math:: E[f\cdot\nabla U] = E[\nabla\cdot f].

With f = θ_i − a_i this is E[(θ_i − a_i) ∂_iU] = 1. In a Gaussian it is the ratio of the variance of
the draws to the true one, for any a. So it sees wrong widths, which neither R-hat nor the kinetic
temperature do. A steady a makes for a small error: here it is the center of the mode. With smooth
shares r_k(θ) of modes k and their centers μ_k,

.. math:: t_{ki} = r_k\,(\theta_i-\mu_{ki})\,\partial_iU - (\theta_i-\mu_{ki})\,\partial_ir_k,
    \qquad E[t_{ki}] = E[r_k],

an identity for any r_k, so the Gaussians from which shares are made need not fit. The sum over
modes has the mean 1, and the mean over draws of t_k divided by that of r_k is the temperature of
one mode. Reference: H. Rugh. *Dynamical approach to temperature.* Phys. Rev. Lett. 1997.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

MAX_MODES = 16
"""The largest number of modes with a center of their own."""
MIN_MODE_DRAWS = 20
"""The smallest number of draws that give a mode a center."""
MIN_RELATIVE_SD = 1e-6
"""The smallest standard deviation of a mode, relative to that of all draws."""

Array3 = Float[np.ndarray, "chains draws d"]


class Centers(NamedTuple):
    """A Gaussian with independent coordinates for each mode."""

    mean: Float[np.ndarray, "k d"]
    sd: Float[np.ndarray, "k d"]
    log_weight: Float[np.ndarray, " k"]


def centers(draws: Array3, labels: Int[np.ndarray, "chains draws"]) -> Centers:
    """The Gaussians of the heaviest modes that the labels name."""
    flat, mine = draws.reshape(-1, draws.shape[-1]), labels.ravel()
    counts = np.bincount(mine, minlength=1)
    order = [k for k in np.argsort(-counts)[:MAX_MODES] if counts[k] >= MIN_MODE_DRAWS]
    if len(order) < 2:
        # One mode has the share 1 everywhere, which has no slope.
        return Centers(flat.mean(axis=0)[None], np.full((1, flat.shape[1]), np.inf), np.zeros(1))
    parts = [flat[mine == k] for k in order]
    smallest = MIN_RELATIVE_SD * flat.std(axis=0) + np.finfo(float).tiny
    sds = [np.maximum(part.std(axis=0), smallest) for part in parts]
    return Centers(
        np.stack([part.mean(axis=0) for part in parts]), np.stack(sds), np.log(counts[order])
    )


class Terms(NamedTuple):
    """What is averaged over draws."""

    total: Array3
    """Σ_k t_ki of each draw, of mean 1."""
    by_mode: Float[np.ndarray, "chains draws k"]
    """The mean of t_ki over coordinates i."""
    shares: Float[np.ndarray, "chains draws k"]
    """r_k of each draw."""


def stein_terms(draws: Array3, gradients: Array3, at: Centers) -> Terms:
    """t_ki and r_k at each draw, from its gradient of U.

    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(0.0, 1.2, (4, 1000, 1))  # 1.2 times too wide
    >>> at = centers(draws, np.zeros((4, 1000), int))
    >>> bool(abs(stein_terms(draws, draws, at).total.mean() - 1.44) < 0.1)  # of U = θ²/2
    True
    """
    shares, mean_slope = _shares(draws, at)
    total, by_mode = np.zeros(draws.shape), []
    for k, (mean, sd) in enumerate(zip(at.mean, at.sd, strict=True)):
        away = draws - mean
        own = shares[..., k, None] * away * (gradients + away / sd**2 + mean_slope)
        total += own
        by_mode.append(own.mean(axis=-1))
    return Terms(total, np.stack(by_mode, axis=-1), shares)


def principal_terms(draws: Array3, gradients: Array3, at: Centers) -> Array3:
    """The same along the principal directions of the draws around the centers of their modes.

    The directions of half of the chains are used for the other half, so that they know nothing of
    the draws that they are tried on. Component j is along the j-th narrowest direction.
    """
    shares, mean_slope = _shares(draws, at)
    away = draws - at.mean[np.argmax(shares, axis=-1)]
    parts, found = _halves(*draws.shape[:2]), np.zeros(draws.shape)
    for here, there in (parts, parts[::-1]):
        directions = np.linalg.eigh(np.cov(away[there].T))[1]
        for k, (mean, sd) in enumerate(zip(at.mean, at.sd, strict=True)):
            own = draws[here] - mean
            force = gradients[here] + own / sd**2 + mean_slope[here]
            found[here] += shares[here][:, k, None] * (own @ directions) * (force @ directions)
    return found


def _shares(draws: Array3, at: Centers) -> tuple[np.ndarray, np.ndarray]:
    """r_k of each draw, and Σ_k r_k ∇l_k with l_k the log density of mode k.

    The slope of a share is ∂_ir_k = r_k(∂_il_k − Σ_j r_j ∂_il_j).
    """
    if len(at.mean) == 1:
        return np.ones((*draws.shape[:2], 1)), np.zeros(draws.shape)
    logs = []
    for mean, sd, log_weight in zip(*at, strict=True):
        logs.append(log_weight - np.sum(0.5 * ((draws - mean) / sd) ** 2 + np.log(sd), axis=-1))
    weights = np.exp(np.stack(logs, axis=-1) - np.max(logs, axis=0)[..., None])
    shares = weights / weights.sum(axis=-1, keepdims=True)
    slope = np.zeros(draws.shape)
    for k, (mean, sd) in enumerate(zip(at.mean, at.sd, strict=True)):
        slope -= shares[..., k, None] * (draws - mean) / sd**2
    return shares, slope


def _halves(chains: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the two halves: of chains, or of the draws of one chain."""
    first = np.zeros((chains, draws), bool)
    if chains > 1:
        first[: chains // 2] = True
    else:
        first[:, : draws // 2] = True
    return first, ~first
