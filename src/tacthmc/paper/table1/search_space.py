"""The settings that Table B searches: equally many for every method."""

from dataclasses import dataclass

import numpy as np

from tacthmc.paper import checks

Settings = tuple[tuple[str, float], ...]
"""A sampler's numbers by name, in the names' order."""


@dataclass(frozen=True)
class Range:
    """Numbers between two others, evenly spread in their logarithm."""

    name: str
    low: float
    high: float
    below_one: bool = False
    """Whether this is the range of 1 − x, as for a momentum near 1."""

    def at(self, share: float) -> float:
        """The number at a share of the way from low to high, to three digits.

        >>> Range("learning_rate", 1e-4, 1e-2).at(0.5)
        0.001
        >>> Range("momentum", 0.01, 0.5, below_one=True).at(0.0)
        0.99
        """
        found = self.low * (self.high / self.low) ** share
        # Records round to more digits than these, so that a number read back is the same one.
        found = float(f"{found:.3g}")
        return float(f"{1 - found:.5g}") if self.below_one else found


_RATE, _NOISE = ("learning_rate", 5e-4, 2e-2), (0.01, 0.5)

SPACE: dict[str, tuple[Range, ...]] = {
    "adam": (Range("learning_rate", 1e-4, 1e-2),),
    "momentum_sgd": (
        Range("learning_rate", 3e-4, 1e-1),
        Range("momentum", *_NOISE, below_one=True),
    ),
    "sghmc": (Range(*_RATE), Range("friction", *_NOISE)),
    "sgnht": (Range(*_RATE), Range("noise", *_NOISE), Range("inertia", 10.0, 1000.0)),
    "tact": (
        Range(*_RATE),
        Range("noise", *_NOISE),
        Range("hottest", 1.5, 6.0),
        Range("sweep_epochs", 8.0, 40.0),
    ),
}
"""The ranges by method. Rates are per datum, η·N."""


def shares(count: int, numbers: int) -> np.ndarray:
    """A Latin hypercube: each number takes ``count`` places at equal distances, each once.

    The first number's are in order, the others' are shuffled, each by a generator with its own
    fixed seed: SGHMC, SGNHT and TACT-HMC have the same pairs of rate and noise.

    >>> shares(3, 2)[:, 0].round(3).tolist()
    [0.167, 0.5, 0.833]
    """
    checks.whole("count", count, 1)
    # A generator's raw bits are the same in every version of NumPy; its permutations need not be.
    orders = [np.arange(count)] + [
        np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable")
        for seed in range(1, numbers)
    ]
    return (np.stack(orders, axis=1) + 0.5) / count


def settings(method: str, count: int) -> list[Settings]:
    """The settings with which a method's search begins.

    >>> settings("sghmc", 12)[7]
    (('friction', 0.16), ('learning_rate', 0.00501))
    >>> dict(settings("tact", 12)[7])["noise"]
    0.16
    """
    ranges = SPACE[method]
    places = shares(count, len(ranges))
    return [
        tuple(sorted((r.name, r.at(share)) for r, share in zip(ranges, row, strict=True)))
        for row in places.tolist()
    ]
