r"""The force's noise tensor by tensor, for a friction each.

Where tensors share a friction, a few weights of much noise (a first layer's, a last one's) make
that of all, and the many others are too cold: what is wrong with them is mostly other tensors'
noise. With a friction each, a tensor's settles at c + ηv̄/2 with its own mean noise v̄, and a
direction in it of the noise v₀ that is left beside its noisiest is too cold by

.. math:: 1 - \frac{c + \eta v_0/2}{c + \eta\bar v/2}

for reasons of its own alone. How large η may be for that is another question for each tensor. The
middle one decides (:func:`middle`): half of all weights are in tensors that would allow as large a
step or a larger one. (Were it the most demanding, a handful of biases would.) No tensor's noise
makes a friction of more than one a step, at which momenta are forgotten from step to step and a
longer one would no longer move it faster.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tacthmc.tuning._spectrum import Spectrum


class TensorNoise(NamedTuple):
    """Variances of the force's noise in a tensor of so many weights."""

    size: int
    mean: float
    typical: float
    """That of a typical direction: the mean over what is left of the tensor beside the noisiest
    directions, or the median over its coordinates if that is less."""


def by_tensor(
    gradients: Float[np.ndarray, "n d"], sizes: Sequence[int], seen: Spectrum
) -> tuple[TensorNoise, ...]:
    """Of estimates less their mean, ``seen`` being their spectrum; empty tensors are left out.

    >>> from tacthmc.tuning.spectrum import spectrum
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(4000, 6)) * [1.0, 1.0, 1.0, 3.0, 3.0, 9.0]
    >>> found = by_tensor(noise, [3, 3], spectrum(noise, 1))
    >>> [(one.size, round(one.mean), round(one.typical)) for one in found]
    [(3, 1, 1), (3, 33, 9)]
    """
    # Others than those that the directions are from.
    second = gradients[1::2]
    rows = seen.directions.astype(second.dtype)
    each, left = _variances(gradients), _variances(second - (second @ rows.T) @ rows)
    # The median of variances from n normal numbers lies so much below what they estimate.
    below = 1 + 2 / (3 * len(gradients))
    places = np.cumsum([0, *sizes])
    found = []
    for begin, end in pairwise(places):
        if begin == end:
            continue
        mean, middling = float(each[begin:end].mean()), below * float(np.median(each[begin:end]))
        rest = float(end - begin - np.sum(rows[:, begin:end] ** 2))
        # Of a tensor that the noisiest directions fill, nothing is left to tell.
        beside = float(left[begin:end].sum()) / rest if rest > 0.5 else mean
        found.append(TensorNoise(int(end - begin), mean, min(beside, middling, mean)))
    return tuple(found)


def _variances(noise: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    return np.einsum("nd,nd->d", noise, noise).astype(float) / len(noise)


def along_directions(
    tensors: Sequence[TensorNoise], sizes: Sequence[int], seen: Spectrum
) -> Float[np.ndarray, " k"]:
    """The noise that makes the friction of each of the noisiest directions, by where it points."""
    means = np.repeat([t.mean for t in tensors], [size for size in sizes if size])
    return np.asarray(seen.directions**2 @ means, float)


def loudest(tensors: Sequence[TensorNoise], doubt: float) -> float:
    """The mean variance in the noisiest tensor, less two of its relative standard errors.

    >>> loudest([TensorNoise(7, 1.0, 1.0), TensorNoise(1, 9.0, 9.0)], doubt=0.25)
    6.0
    """
    return max(one.mean for one in tensors) / (1 + 2 * doubt)


def middle(tensors: Sequence[TensorNoise], allowed: Callable[[TensorNoise], float]) -> TensorNoise:
    """The one in the middle, by how large a step it allows.

    >>> few, many = TensorNoise(1, 9.0, 0.0), TensorNoise(4, 2.0, 1.0)
    >>> most = TensorNoise(6, 1.0, 0.9)
    >>> by_mean = lambda one: 1 / one.mean
    >>> middle([few, many, most], by_mean) == most, middle([few, many], by_mean) == many
    (True, True)
    """
    ordered = sorted(tensors, key=allowed, reverse=True)
    reached = np.cumsum([one.size for one in ordered])
    return ordered[int(np.searchsorted(reached, reached[-1] / 2))]
