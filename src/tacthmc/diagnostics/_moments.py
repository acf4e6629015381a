"""Moments of very many scalars in one pass over their draws, with memory for a few draws.

Sums of powers give R-hat of half-chains for place and width, without ranks, and how clearly a
scalar has two peaks. That is enough to find the few scalars which are worth ranks and Fourier
transforms. The smallest and largest value tell what never moved, or was lost.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

Each = Float[np.ndarray, " k"]

PANEL = 1 << 13
"""The number of scalars that are taken at a time, so that a block of draws stays in the cache."""
MIN_STILL_DRAWS = 16
"""The number of equal draws in a row with which a half-chain counts as standing still."""


class Screened(NamedTuple):
    """What one pass says about each scalar."""

    rhat: Each
    """The larger split R-hat of the value and of its squared distance from the center."""
    bimodality: Each
    """Sarle's coefficient, (skewness² + 1)/kurtosis: 1 for two points, 1/3 for a normal law."""
    constant: Bool[np.ndarray, " k"]
    """Whether all draws of all chains are the same."""
    lost: Bool[np.ndarray, " k"]
    """Whether a draw is not finite."""
    still: Int[np.ndarray, " k"]
    """The first chain that stood still for half of its draws while others moved, or −1."""


class Moments:
    """Sums over the draws of a group of scalars, half-chain by half-chain."""

    def __init__(self, center: Each, scale: Each):
        """Begin with nothing; values are taken relative to ``center`` in units of ``scale``."""
        self._center, self._scale = center, scale
        self._powers = np.zeros((4, len(center)))
        self._mass = 0.0
        self._begin_half()
        # Over half-chains: means, their squares, and variances, of the value and its square.
        self._over = np.zeros((2, 3, len(center)))
        self._halves = 0
        self._lowest = np.full(len(center), np.inf)
        self._highest = np.full(len(center), -np.inf)
        self._still = np.full(len(center), -1)

    def _begin_half(self) -> None:
        self._half, self._half_mass, self._rows = np.zeros_like(self._powers), 0.0, 0
        self._low = np.full(self._powers.shape[1], np.inf)
        self._high = -self._low

    def bounds(self, values: Float[np.ndarray, "rows k"]) -> None:
        """Take in the smallest and the largest of draws of the present half-chain."""
        self._low = np.minimum(self._low, values.min(axis=0))
        self._high = np.maximum(self._high, values.max(axis=0))
        self._rows += len(values)

    def add(
        self, values: Float[np.ndarray, "rows k"], weights: Float[np.ndarray, " rows"]
    ) -> Float[np.ndarray, "rows k"]:
        """Add draws of the present half-chain; returns them relative to center and scale."""
        # In the precision of the draws, because the range of single precision is enough here.
        kind, away = values.dtype, np.empty_like(values)
        center, scale = self._center.astype(kind), (1 / self._scale).astype(kind)
        mass = weights.astype(kind)
        with np.errstate(invalid="ignore", over="ignore"):
            for begin in range(0, values.shape[1], PANEL):
                part = slice(begin, begin + PANEL)
                panel = (values[:, part] - center[part]) * scale[part]
                away[:, part] = panel
                power = panel.copy()
                for order, sums in enumerate(self._half):
                    if order:
                        power *= panel
                    sums[part] += np.einsum("i,ij->j", mass, power)
        self._half_mass += float(weights.sum())
        return away

    def end_half(self, chain: int) -> None:
        """The half-chain of ``chain`` has ended."""
        mass = self._half_mass
        if mass > 0:
            means = self._half / mass
            # Of a lost scalar these are not finite, and nothing is concluded from them.
            with np.errstate(invalid="ignore", over="ignore"):
                for which, (first, second) in enumerate(((0, 1), (1, 3))):
                    mean = means[first]
                    self._over[which] += [mean, mean**2, means[second] - mean**2]
            self._halves += 1
        self._powers += self._half
        self._mass += mass
        stands = (self._high == self._low) & (self._rows >= MIN_STILL_DRAWS) & (self._still < 0)
        self._still[stands] = chain
        self._lowest = np.minimum(self._lowest, self._low)
        self._highest = np.maximum(self._highest, self._high)
        self._begin_half()

    def screened(self) -> Screened:
        """The result of all half-chains."""
        constant = self._highest == self._lowest
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rhat = np.fmax(*map(self._rhat, self._over))
            bimodality = _bimodality(*self._powers / max(self._mass, 1e-300))
        return Screened(
            rhat,
            np.where(np.isfinite(bimodality), bimodality, 0.0),
            constant,
            ~(np.isfinite(self._lowest) & np.isfinite(self._highest)),
            np.where(constant, -1, self._still),
        )

    def _rhat(self, sums: Float[np.ndarray, "3 k"]) -> Each:
        means, squares, variances = sums / max(self._halves, 1)
        between = (squares - means**2) * self._halves / max(self._halves - 1, 1)
        # Rounding makes the variance of a constant half-chain negative or tiny.
        within = np.where(variances > 1e-14 * (squares + variances), variances, 0.0)
        return np.sqrt(1 + np.maximum(between, 0.0) / within)


def _bimodality(first: Each, second: Each, third: Each, fourth: Each) -> Each:
    """Sarle's coefficient from raw moments."""
    variance = second - first**2
    skewed = third - 3 * first * second + 2 * first**3
    peaked = fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4
    return (skewed**2 / variance**3 + 1) / (peaked / variance**2)
