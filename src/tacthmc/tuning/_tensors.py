r"""The noise of the force in each tensor, for a friction for each tensor.

If tensors share a friction, a few weights with much noise (in a first or last layer) determine the
friction of all. The many others are then too cold, mostly because of the noise of other tensors.
With its own friction, a tensor settles at c + ηv̄/2 with its own mean noise v̄. A direction in it
with the noise v₀, that of all but its noisiest directions, is too cold by

.. math:: 1 - \frac{c + \eta v_0/2}{c + \eta\bar v/2}

which depends only on this tensor. The largest η differs from tensor to tensor. The median tensor
decides (:func:`median_tensor`): half of all weights are in tensors that allow this step or a larger
one. (The most demanding tensor may be a handful of biases.) The noise of no tensor may make a
friction of more than one per step, at which momenta are forgotten in each step and a longer step
would not move it faster.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tacthmc.tuning._spectrum import Spectrum


class TensorNoise(NamedTuple):
    """Variances of the noise of the force in a tensor."""

    size: int
    """The number of weights."""
    mean: float
    typical: float
    """The variance in a typical direction: the mean over all but the noisiest directions, or the
    median over coordinates if that is smaller."""


def by_tensor(
    gradients: Float[np.ndarray, "n d"], sizes: Sequence[int], found: Spectrum
) -> tuple[TensorNoise, ...]:
    """The noise of each tensor, from estimates less their mean and their spectrum.

    Empty tensors are left out.

    >>> from tacthmc.tuning._spectrum import spectrum
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(4000, 6)) * [1.0, 1.0, 1.0, 3.0, 3.0, 9.0]
    >>> tensors = by_tensor(noise, [3, 3], spectrum(noise, 1))
    >>> [(one.size, round(one.mean), round(one.typical)) for one in tensors]
    [(3, 1, 1), (3, 33, 9)]
    """
    # The half of the estimates that was not used to find the directions.
    second = gradients[1::2]
    rows = found.directions.astype(second.dtype)
    each, left = _variances(gradients), _variances(second - (second @ rows.T) @ rows)
    # The median of variances from n normal numbers is too small by this factor.
    below = 1 + 2 / (3 * len(gradients))
    places = np.cumsum([0, *sizes])
    tensors = []
    for begin, end in pairwise(places):
        if begin == end:
            continue
        mean, median = float(each[begin:end].mean()), below * float(np.median(each[begin:end]))
        rest = float(end - begin - np.sum(rows[:, begin:end] ** 2))
        # The noisiest directions may span a whole tensor, and then nothing else is left.
        bulk = float(left[begin:end].sum()) / rest if rest > 0.5 else mean
        tensors.append(TensorNoise(int(end - begin), mean, min(bulk, median, mean)))
    return tuple(tensors)


def _variances(noise: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    return np.einsum("nd,nd->d", noise, noise).astype(float) / len(noise)


def along_directions(
    tensors: Sequence[TensorNoise], sizes: Sequence[int], found: Spectrum
) -> Float[np.ndarray, " k"]:
    """The noise that determines the friction along each direction, from the tensors it lies in."""
    means = np.repeat([t.mean for t in tensors], [size for size in sizes if size])
    return np.asarray(found.directions**2 @ means, float)


def noisiest_tensor(tensors: Sequence[TensorNoise], doubt: float) -> float:
    """The mean variance in the noisiest tensor, reduced by two relative standard errors.

    >>> noisiest_tensor([TensorNoise(7, 1.0, 1.0), TensorNoise(1, 9.0, 9.0)], doubt=0.25)
    6.0
    """
    return max(one.mean for one in tensors) / (1 + 2 * doubt)


def median_tensor(
    tensors: Sequence[TensorNoise], allowed: Callable[[TensorNoise], float]
) -> TensorNoise:
    """The median tensor by the step that it allows, weighted by size.

    >>> few, many = TensorNoise(1, 9.0, 0.0), TensorNoise(4, 2.0, 1.0)
    >>> most = TensorNoise(6, 1.0, 0.9)
    >>> by_mean = lambda one: 1 / one.mean
    >>> median_tensor([few, many, most], by_mean) == most
    True
    >>> median_tensor([few, many], by_mean) == many
    True
    """
    ordered = sorted(tensors, key=allowed, reverse=True)
    reached = np.cumsum([one.size for one in ordered])
    return ordered[int(np.searchsorted(reached, reached[-1] / 2))]
