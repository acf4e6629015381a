r"""The barrier between both ends of a ladder, and the ladder on which all pairs reject alike.

With rejection rates r_i of neighboring pairs, Λ(λ_k) = Σ_{i<k} r_i estimates the barrier between
the target and λ_k. It hardly depends on the ladder, as long as it is fine (Syed et al. 2022). Pairs
reject alike if Λ(λ_k) is the same multiple of k for all k. A replica then travels from end to end
and back about once in

.. math:: 2 + 2N\,\frac{r}{1 - r} = 2 + \frac{2\Lambda N}{N - \Lambda}

rounds of swaps, with N pairs and r = Λ/N. N replicas have to be moved in each round, and the cost
of a trip is lowest for N ≈ 2Λ.

Reference: S. Syed, A. Bouchard-Côté, G. Deligiannidis, A. Doucet. *Non-reversible parallel
tempering.* JRSS B 2022.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

MIN_REJECTION = 1e-3
"""What is added to each rejection rate, so that the barrier rises everywhere."""


class Barrier(NamedTuple):
    """The communication barrier along a ladder."""

    inverse_temperatures: Float[np.ndarray, " k"]
    """λ of each rung, from the coldest."""
    rejections: Float[np.ndarray, " p"]
    """The rate at which swaps of each pair of neighbors are rejected."""

    @property
    def total(self) -> float:
        """Λ, the sum of all rejection rates.

        >>> Barrier(np.array([1.0, 0.5, 0.0]), np.array([0.2, 0.6])).total
        0.8
        """
        return float(np.sum(self.rejections))

    def up_to(self, inverse_temperature: float) -> float:
        """Λ(λ), the barrier between the coldest rung and λ, by linear interpolation.

        >>> Barrier(np.array([1.0, 0.5, 0.0]), np.array([0.2, 0.6])).up_to(0.25)
        0.5
        """
        rises = np.append(0.0, np.cumsum(self.rejections))[::-1]
        return float(np.interp(inverse_temperature, self.inverse_temperatures[::-1], rises))

    def equalized(self, rungs: int) -> Float[np.ndarray, " n"]:
        r"""The ladder of so many rungs on which all pairs would reject alike.

        Λ(λ) is taken as linear between rungs, but for the last pair of a ladder that ends at 0.
        There the barrier of a wide base grows as log(1 + λ/c) with an unknown c, which is small if
        hardly any swap is accepted. With c = λ·((1 − r)/r)², the next ladder comes nearer to 0 by
        orders of magnitude if it has to.

        >>> Barrier(np.array([1.0, 0.5, 0.0]), np.array([0.2, 0.6])).equalized(3).round(2).tolist()
        [1.0, 0.27, 0.0]
        """
        rises = np.append(0.0, np.cumsum(self.rejections + MIN_REJECTION))
        wanted, lam = np.linspace(0, rises[-1], rungs), self.inverse_temperatures
        found = np.interp(wanted, rises, lam)
        if lam[-1] == 0:
            r = np.clip(self.rejections[-1], MIN_REJECTION, 1 - MIN_REJECTION)
            c = ((1 - r) / r) ** 2
            left = np.clip((rises[-1] - wanted) / (rises[-1] - rises[-2]), 0, 1)
            near = lam[-2] * c * np.expm1(left * np.log1p(1 / c))
            found = np.where(left < 1, near, found)
        # Rounding may not move the ends.
        found[[0, -1]] = self.inverse_temperatures[[0, -1]]
        return found

    @property
    def trip(self) -> float:
        """The expected number of rounds of swaps in a round trip, 2 + 2Σr/(1 − r).

        It holds if a replica forgets its energy between two rounds.

        >>> Barrier(np.array([1.0, 0.5, 0.0]), np.array([0.5, 0.5])).trip
        6.0
        """
        r = np.minimum(self.rejections, 1 - 1e-9)
        return float(2 + 2 * np.sum(r / (1 - r)))


def rungs_for(barrier: float, most: int) -> int:
    """The number of replicas for a barrier Λ, about 2Λ + 1, with the cheapest round trips.

    >>> [rungs_for(barrier, 100) for barrier in (0.1, 1.0, 5.0, 200.0)]
    [2, 3, 11, 100]
    """
    pairs = np.arange(1, most)
    enough = pairs > barrier
    left = np.where(enough, pairs - barrier, 1.0)
    cost = np.where(enough, pairs * (1 + barrier * pairs / left), np.inf)
    return int(pairs[np.argmin(cost)]) + 1 if enough.any() else most
