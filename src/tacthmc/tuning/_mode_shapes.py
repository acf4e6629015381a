r"""The shapes of modes from draws: their means and covariances, where Hessians say something else.

The Gaussian of the Hessian at a minimum is far too narrow for a mode with a sharp peak and too wide
for one with steep walls. For draws θ in mode k, with :math:`z = L_k^{-1}(\theta - \mu_k)`, the new
Gaussian has the mean and the covariance of z, drawn toward those of the Hessian:

.. math:: \mu_k \leftarrow \mu_k + s\,L_k\bar z, \qquad L_k \leftarrow L_k\,\mathrm{chol}(C), \qquad
    C = s\,\mathrm{cov}(z) + (1 - s)\,v\,I, \qquad s = \frac{n}{n + D},

where n is the number of independent draws and v the mean variance of z. Modes without draws are
widened by the typical factor of the others.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tacthmc.diagnostics._laws import autocorrelation
from tacthmc.dynamics import Modes

MIN_DRAWS = 8.0
"""The smallest number of independent draws from which a shape is fitted."""
MAX_ODD_VARIANCE = 1.5
"""The largest factor between the variance of draws and that of the Hessian that is left."""


def fitted_modes(modes: Modes, draws: Float[np.ndarray, "chains draws d"]) -> Modes:
    """The modes with the shapes of draws, where those differ from the Hessians' by much.

    ``draws`` are those of chains that began in the modes.

    >>> rng = np.random.default_rng(0)
    >>> modes = Modes(jnp.zeros((1, 2)), jnp.ones((1, 2)), jnp.ones(1))
    >>> found = fitted_modes(modes, 3.0 * rng.normal(size=(16, 50, 2)))
    >>> bool(abs(np.asarray(found.scales)[0, 0, 0] - 3) < 0.3)
    True
    """
    centers, scales = (np.array(x, float) for x in (modes.centers, modes.scales))
    if scales.ndim == 2:
        scales = np.stack([np.diag(one) for one in scales])
    labels = _labels(centers, scales, draws)
    size, variances = draws.shape[2], np.full(modes.count, np.nan)
    for k in range(modes.count):
        inside = labels == k
        if inside.sum() <= size:
            continue
        z = np.linalg.solve(scales[k], (draws[inside] - centers[k]).T).T
        worth = _independent(draws, inside)
        if worth < MIN_DRAWS:
            continue
        trust = worth / (worth + size)
        shift, variance = trust * z.mean(axis=0), float(np.mean(z.var(axis=0)))
        variances[k] = variance
        if not _is_odd(variance, float(np.mean(shift**2))):
            continue
        covariance = trust * np.cov(z, rowvar=False).reshape(size, size)
        factor = np.linalg.cholesky(covariance + (1 - trust) * variance * np.eye(size))
        centers[k] += scales[k] @ shift
        scales[k] = scales[k] @ factor
    _widen_others(scales, variances)
    weights = np.exp(np.asarray(modes.log_weights, float))
    dtype = modes.centers.dtype
    return Modes(jnp.asarray(centers, dtype), jnp.asarray(scales, dtype), weights)


def _labels(
    centers: Float[np.ndarray, "k d"],
    scales: Float[np.ndarray, "k d d"],
    draws: Float[np.ndarray, "chains draws d"],
) -> Int[np.ndarray, "chains draws"]:
    """The mode of each draw: the one with the nearest center in its own standard deviations.

    The density of a Gaussian that is much too narrow says nothing about draws far from its center.
    """
    away = [
        np.linalg.norm(
            np.linalg.solve(
                scale, np.moveaxis(draws - center, 2, 0).reshape(-1, draws[..., 0].size)
            ),
            axis=0,
        )
        for center, scale in zip(centers, scales, strict=True)
    ]
    return np.argmin(np.stack(away), axis=0).reshape(draws.shape[:2])


def _is_odd(variance: float, shift: float) -> bool:
    """Whether the Hessian's Gaussian is far from the draws."""
    return max(variance, 1 / variance) > MAX_ODD_VARIANCE or shift > MAX_ODD_VARIANCE - 1


def _independent(draws: Float[np.ndarray, "chains draws d"], inside: np.ndarray) -> float:
    """About how many independent draws are in a mode: by the chains that are mostly there."""
    mostly = inside.mean(axis=1) > 0.5
    if not mostly.any():
        return 0.0
    rows = draws.shape[1]
    slowest = 1.0
    for values in np.moveaxis(draws[mostly], 2, 0):
        centered = values - values.mean(axis=1, keepdims=True)
        if np.ptp(centered) == 0:
            return 0.0
        rho = autocorrelation(centered, rows // 2)
        below = np.flatnonzero(rho < 0.05)
        slowest = max(slowest, 1 + 2 * float(rho[1 : below[0] if len(below) else None].sum()))
    return float(mostly.sum() * max(rows / slowest, 1.0))


def _widen_others(scales: Float[np.ndarray, "k d d"], variances: np.ndarray) -> None:
    """Widen modes without draws like the others."""
    known = np.isfinite(variances)
    if not known.any():
        return
    typical = float(np.exp(np.median(np.log(variances[known]))))
    if _is_odd(typical, 0.0):
        scales[~known] *= np.sqrt(typical)
