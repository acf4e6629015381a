"""What is searched for Table B: the same number of settings for every method."""

from dataclasses import dataclass

import numpy as np

from tacthmc import _checks as checks

Settings = tuple[tuple[str, float], ...]
"""A sampler's numbers by name, in the names' order."""


@dataclass(frozen=True)
class Range:
    """A number between two others, even in its logarithm."""

    name: str
    low: float
    high: float
    below_one: bool = False
    """Whether it is 1 − x of which this is the range: a momentum near 1."""

    def at(self, share: float) -> float:
        """The number that lies so far on the way, to three digits.

        >>> Range("learning_rate", 1e-4, 1e-2).at(0.5)
        0.001
        >>> Range("momentum", 0.01, 0.5, below_one=True).at(0.0)
        0.99
        """
        found = self.low * (self.high / self.low) ** share
        # Records round to more digits than these, so that what is read back is the same number.
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
"""By method. Rates are per datum, η·N."""


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
    """The settings that a method's search begins with.

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
