r"""Weights of draws by the conditional density of the inverse temperature, and the evidence.

:func:`tacthmc.samplers.ct_hmc` samples (θ, λ) from exp(−U_base − λΔ), where Δ(θ) = U1(θ) + log ζ is
the tempered energy with the guess log ζ of the evidence. Before the energies act, λ is 1 with
probability a (the plateau) and otherwise uniform on [0, 1]. Relative to that law, the density of λ
given θ is e^{−λΔ}/N(Δ) with

.. math:: N(\Delta) = (1 - a)\,\frac{1 - e^{-\Delta}}{\Delta} + a\,e^{-\Delta},

so every draw, at whatever λ, contributes to the mean of f at every λ (Rao-Blackwell):

.. math:: w_\lambda(\theta) = \frac{e^{-\lambda\Delta(\theta)}}{N(\Delta(\theta))}, \qquad
    \mathrm E_\lambda f = \frac{\mathrm E[w_\lambda f]}{\mathrm E[w_\lambda]}, \qquad
    \frac{Z}{\zeta} = \frac{\mathrm E[w_1]}{\mathrm E[w_0]}.

The expectations on the right are those of the chain. λ = 1 is the target and λ = 0 the base. The
weights w_1 are bounded by 1/a.
"""

from typing import NamedTuple

import numpy as np


class LogEvidence(NamedTuple):
    """log Z relative to the base, and its standard error over chains (NaN for one chain)."""

    value: float
    error: float


def log_normalizer(delta: np.ndarray, plateau: float) -> np.ndarray:
    """log N(Δ).

    >>> log_normalizer(np.array([0.0, 1e3]), 0.0).round(3).tolist()
    [0.0, -6.908]
    """
    half = 0.5 * np.abs(delta)
    # log(sinh(x)/x), by its series near 0.
    safe = np.maximum(half, 1e-4)
    exact = safe + np.log(-np.expm1(-2 * safe)) - np.log(2 * safe)
    uniform = np.where(half < 1e-4, half**2 / 6, exact) - 0.5 * delta
    if plateau == 0:
        return uniform
    return np.logaddexp(np.log1p(-plateau) + uniform, np.log(plateau) - delta)


def log_weights(
    energies: np.ndarray, log_evidence: float, plateau: float, inverse_temperature: float
) -> np.ndarray:
    """log w_λ of draws with these tempered energies."""
    delta = np.asarray(energies, float) + log_evidence
    # A draw without a finite energy gets the weight zero.
    finite = np.isfinite(delta)
    delta = np.where(finite, delta, 0.0)
    weights = -inverse_temperature * delta - log_normalizer(delta, plateau)
    return np.where(finite, weights, -np.inf)


def evidence(energies: np.ndarray, log_evidence: float, plateau: float) -> LogEvidence:
    """log Z from (chain, draw) energies."""
    one, zero = (log_weights(energies, log_evidence, plateau, lam) for lam in (1.0, 0.0))
    parts = []
    for logs in (one, zero):
        top = logs.max()
        parts.append((top, np.exp(logs - top)))
    (top1, w1), (top0, w0) = parts
    value = log_evidence + top1 - top0 + np.log(w1.mean()) - np.log(w0.mean())
    # The mean of a chain's w1/E[w1] − w0/E[w0] is its share of the error of log(E[w1]/E[w0]).
    shares = (w1 / w1.mean() - w0 / w0.mean()).mean(axis=1)
    chains = len(shares)
    error = np.std(shares, ddof=1) / np.sqrt(chains) if chains > 1 else np.nan
    return LogEvidence(float(value), float(error))
