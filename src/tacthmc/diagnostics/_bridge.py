r"""Bridge sampling: the mass of a mode, from draws of the posterior and of its Gaussian.

For a density p with the unknown mass Z = ∫p and a normalized density q, with n₁ draws of p/Z and n₂
draws of q, the estimate of Meng and Wong solves

.. math::
    Z = \frac{\frac1{n_2}\sum_j \frac{\ell_j}{s_1\ell_j + s_2 Z}}
             {\frac1{n_1}\sum_i \frac{1}{s_1\ell_i + s_2 Z}}, \qquad \ell = p/q,\quad
    s_k = \frac{n_k}{n_1 + n_2}.

Without draws of p it is the mean of ℓ over q. If p is restricted to a part of space, ℓ is zero
elsewhere.

Reference: X.-L. Meng, W. H. Wong. *Simulating ratios of normalizing constants via a simple
identity.* Statistica Sinica 1996.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

MAX_ITERATIONS = 200
"""The largest number of iterations of the fixed point."""
MAX_CHANGE = 1e-10
"""The change of log Z at which the iteration ends."""


class LogMass(NamedTuple):
    """log Z and its standard error."""

    value: float
    error: float


def log_mass(
    of_p: Float[np.ndarray, " n1"], of_q: Float[np.ndarray, " n2"], effective: float | None = None
) -> LogMass:
    """log Z from log ℓ at draws of p and at independent draws of q.

    ``effective`` is the number of independent draws that those of p are worth.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=4000), 1.5 * rng.normal(size=4000)
    >>> log_ratio = lambda v: -0.5 * v**2 - (-0.5 * (v / 1.5) ** 2 - np.log(1.5))
    >>> found = log_mass(log_ratio(x), log_ratio(y))      # ∫exp(−x²/2) over √(2π), which is 1
    >>> bool(abs(found.value) < 4 * found.error), found.error < 0.02
    (True, True)
    """
    n1, n2 = len(of_p), len(of_q)
    worth = float(n1) if effective is None else effective
    value = _log_mean(of_q)
    if not np.isfinite(value):
        return LogMass(-np.inf, np.inf)
    if not n1 or worth < 1:
        return LogMass(value, float(np.sqrt(_relative_variance(of_q) / n2)))
    odds = np.log(worth / n2)
    for _ in range(MAX_ITERATIONS):
        # With x = log(s₁ℓ/(s₂Z)), the terms are σ(x)/s₁ for draws of q and σ(−x)/(s₂Z) for those
        # of p. Their logarithms are exact, however far ℓ ranges.
        over, under = _log_sigmoid(of_q - value + odds), _log_sigmoid(value - odds - of_p)
        change = _log_mean(over) - _log_mean(under) - odds
        value += change
        if abs(change) < MAX_CHANGE:
            break
    over, under = _log_sigmoid(of_q - value + odds), _log_sigmoid(value - odds - of_p)
    relative = _relative_variance(over) / n2 + _relative_variance(under) / worth
    return LogMass(value, float(np.sqrt(relative)))


def _log_sigmoid(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return -np.logaddexp(0.0, -x)


def _log_mean(logs: Float[np.ndarray, " n"]) -> float:
    """The logarithm of the mean of exp(logs); −∞ of nothing."""
    top = np.max(logs, initial=-np.inf)
    return float(top + np.log(np.mean(np.exp(logs - top)))) if np.isfinite(top) else -np.inf


def _relative_variance(logs: Float[np.ndarray, " n"]) -> float:
    """The variance of exp(logs) over the square of its mean."""
    return float(np.var(np.exp(logs - _log_mean(logs))))
