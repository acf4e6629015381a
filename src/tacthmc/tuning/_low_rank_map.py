r"""A linear map for high dimension, which shortens the few noisiest directions.

At step size η and injected noise c the temperature of a direction with noise v is

.. math:: 1 + h, \qquad h = \frac{\eta(v - v_0)/2}{c + \eta v_0/2},

times that of a direction with the noise v₀ of the bulk. Shortening reduces its noise to that for
h = ``MIN_NOTABLE_HEAT``. Its curvature falls too, so it relaxes more slowly. But mini-batch noise
is roughly proportional to the curvature: the shortened directions relaxed fastest before.

Directions are found and measured on different estimates (:mod:`tacthmc.tuning._spectrum`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike, Float

from tacthmc.dynamics._linear_map import LinearMap
from tacthmc.dynamics._low_rank import LowRank
from tacthmc.tuning._friction import MIN_NOTABLE_HEAT
from tacthmc.tuning._spectrum import spectrum
from tacthmc.tuning._tensors import along_directions, by_tensor

MAX_NUMBERS = 1 << 22
"""The largest number of values in all directions, of which a step makes four products."""


class LowRankMap(NamedTuple):
    """A linear map for the noisiest directions, if one is needed."""

    linear: LinearMap | None
    without: float
    """The relative temperature of the hottest direction without the map."""
    directions: int
    """The number of shortened directions."""
    full: bool
    """Whether there was no room for more directions."""

    @property
    def why(self) -> str:
        """The reason for the map."""
        hot = f"{self.without:.3g} times as hot as it should be"
        if self.linear is None:
            return f"the noisiest direction is {hot}" + self.full * ", and there is no room for one"
        return (
            f"{self.directions} directions shortened, the noisiest of which was {hot}"
            + self.full * "; more would take too much room"
        )


def low_rank_map(
    gradients: Float[np.ndarray, "n d"],
    eta: float,
    c: float,
    dtype: DTypeLike = jnp.float32,
    sizes: Sequence[int] | None = None,
) -> LowRankMap:
    """The map for estimates of the force, less their mean at each place.

    With the ``sizes`` of tensors that have their own frictions, the heat of a direction is relative
    to these. Otherwise it is relative to the bulk.

    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(400, 300)) * np.where(np.arange(300) < 3, 100.0, 1.0)
    >>> found = low_rank_map(noise, eta=1e-3, c=0.1)
    >>> found.directions, round(found.without)
    (3, 49)
    """
    room = MAX_NUMBERS // gradients.shape[1]
    noise = spectrum(gradients, room + 1)
    reference = np.full(len(noise.along), noise.bulk)
    if sizes is not None:
        reference = along_directions(by_tensor(gradients, sizes, noise), sizes, noise)
    quiet = c + eta * reference / 2
    heat = eta * (noise.along - reference) / 2 / quiet
    # An excess of two standard errors does not count.
    hot = eta * (noise.along / (1 + 2 * noise.doubt) - reference) / 2 > MIN_NOTABLE_HEAT * quiet
    # The hottest first.
    order = np.argsort(np.where(hot, heat, -np.inf))[::-1]
    order = order[: min(int(np.sum(hot)), room)]
    without, full = 1 + max(float(heat.max()), 0.0), int(np.sum(hot)) > len(order)
    if not len(order):
        return LowRankMap(None, without, 0, full)
    allowed = reference + 2 * MIN_NOTABLE_HEAT * quiet / eta
    factors = np.sqrt(np.minimum(allowed / noise.along, 1))[order]
    rows = jnp.asarray(noise.directions[order], dtype)
    linear = LinearMap(LowRank(rows, jnp.asarray(factors, dtype)))
    return LowRankMap(linear, without, len(order), full)
