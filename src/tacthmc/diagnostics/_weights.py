r"""Weights that turn draws at all temperatures into draws from the posterior.

At a given ξ a draw has the density exp(−λU)/Z(λ). Over all visited ξ the draws come from the
mixture of these densities, so as draws from exp(−U) they have the weights

.. math:: w_i \propto \frac{e^{-U_i}}{\sum_k n_k\, e^{-\lambda_k U_i} / Z(\lambda_k)}

with n_k the number of draws at λ_k. The Z's come from the same draws, by the self-consistent
equations of the multistate Bennett acceptance ratio (Shirts and Chodera 2008). Weights are bounded
by those on the plateau: a hot draw far from the posterior gets a weight near zero. U has to be the
full-data energy, because noise in it would not average out. Where λ multiplies only a part U1 of
the energy (:mod:`tacthmc.potentials._energy_terms`), the rest cancels and U is replaced by U1.
"""

import numpy as np

MAX_STATES = 256
"""The largest number of values λ_k that represent all λ."""
MAX_ITERATIONS = 50
"""The largest number of iterations of the self-consistent equations."""
MAX_FITTED_DRAWS = 20_000
"""The largest number of draws from which the Z's are computed."""


def log_weights(lam: list[np.ndarray], energy: list[np.ndarray]) -> list[np.ndarray]:
    """The log-weights of each chain, with a mean weight of one over all chains.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> lam = np.repeat([1.0, 0.25], 5000)              # half the draws at temperature 4
    >>> x = rng.normal(size=10_000) / np.sqrt(lam)
    >>> (w,) = np.exp(log_weights([lam], [0.5 * x**2]))
    >>> bool(abs(np.mean(w * x**2) - 1.0) < 0.05)
    True
    """
    sizes = [len(chain) for chain in lam]
    lams = np.concatenate(lam).astype(float)
    energies = np.concatenate(energy).astype(float)
    # A draw without a finite energy gets the weight zero.
    lost = ~np.isfinite(energies)
    if lost.any() and not lost.all():
        found = iter(_some_log_weights(lams[~lost], energies[~lost]))
        weights = np.array([-np.inf if bad else next(found) for bad in lost])
        return np.split(weights, np.cumsum(sizes)[:-1])
    return np.split(_some_log_weights(lams, energies), np.cumsum(sizes)[:-1])


def _some_log_weights(lams: np.ndarray, energies: np.ndarray) -> np.ndarray:
    if not lams.size or np.all(lams == 1):
        return np.zeros(lams.size)
    energies = energies - np.mean(energies)
    states, shares, guess = _states(lams, energies)
    some = np.linspace(0, len(energies) - 1, min(MAX_FITTED_DRAWS, len(energies))).astype(int)
    free = _free_energies(states, shares, energies[some], guess)
    weights = -energies - _mixture(states, shares, free, energies)
    return weights - _log_mean_exp(weights)


def _states(lams: np.ndarray, energies: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A few values of λ that represent all, their shares of the draws, and a first guess of f(λ).

    f′(λ) = E[U | λ], so f is the integral of the mean energies.
    """
    order = np.argsort(lams, kind="stable")
    hot = order[lams[order] != 1]
    groups = [g for g in np.array_split(hot, min(MAX_STATES - 1, len(hot))) if g.size]
    cold = order[lams[order] == 1]
    if cold.size:
        groups.append(cold)
    states = np.array([lams[g].mean() for g in groups])
    means = np.array([energies[g].mean() for g in groups])
    steps = 0.5 * (means[1:] + means[:-1]) * np.diff(states)
    return states, np.array([len(g) for g in groups]) / len(lams), np.append(0, np.cumsum(steps))


def _mixture(
    states: np.ndarray, shares: np.ndarray, free: np.ndarray, energies: np.ndarray
) -> np.ndarray:
    """log Σ_k n_k exp(f_k − λ_k U_i), in blocks of draws."""
    offsets = np.log(shares) + free
    blocks = np.array_split(energies, max(1, len(energies) // 4096))
    return np.concatenate(
        [_log_sum_exp(offsets[None, :] - states[None, :] * block[:, None]) for block in blocks]
    )


def _free_energies(
    states: np.ndarray, shares: np.ndarray, energies: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """f_k = −log Z(λ_k) up to a constant, by iteration from a guess."""
    free = free - free[-1]
    for _ in range(MAX_ITERATIONS):
        denominator = _mixture(states, shares, free, energies)
        new = -np.array([_log_sum_exp(-lam * energies - denominator) for lam in states])
        new -= new[-1]
        if np.max(np.abs(new - free)) < 1e-6:
            return new
        free = new
    return free


def _log_sum_exp(values: np.ndarray) -> np.ndarray:
    top = values.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(values - top).sum(axis=-1)) + top[..., 0])


def _log_mean_exp(values: np.ndarray) -> float:
    return float(_log_sum_exp(values) - np.log(len(values)))


def weighted_mean(values: np.ndarray, weights: np.ndarray) -> float:
    """The mean of (chain, draw) values."""
    return float(np.average(values, weights=weights))


def weighted_sd(values: np.ndarray, weights: np.ndarray) -> float:
    """The standard deviation of (chain, draw) values."""
    centered = values - weighted_mean(values, weights)
    return float(np.sqrt(np.average(centered**2, weights=weights)))


def influence(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The contribution of each draw to the error of the weighted mean: w_i (x_i − x̄)/w̄.

    The mean of n of these has the variance of the weighted mean, correlations included.
    """
    return weights * (values - weighted_mean(values, weights)) / weights.mean()


def weighted_rhat(values: np.ndarray, weights: np.ndarray) -> float:
    """Split R-hat from weighted means and variances of half chains; NaN if it is not defined."""
    half = values.shape[1] // 2
    if values.shape[0] < 2 or half < 2:
        return float("nan")
    pieces = [(values[:, :half], weights[:, :half]), (values[:, -half:], weights[:, -half:])]
    if any(np.any(u.sum(axis=1) == 0) for _, u in pieces):
        return float("nan")
    means = [weighted_mean(x, w) for v, u in pieces for x, w in zip(v, u, strict=True)]
    spreads = [weighted_sd(x, w) ** 2 for v, u in pieces for x, w in zip(v, u, strict=True)]
    within = float(np.mean(spreads))
    return float(np.sqrt((within + np.var(means, ddof=1)) / within)) if within > 0 else float("nan")
