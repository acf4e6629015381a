r"""A linear map for high dimension: the few directions in which the force is noisiest, shortened.

At step size η and injected noise c a direction of noise v is

.. math:: 1 + h, \qquad h = \frac{\eta(v - v_0)/2}{c + \eta v_0/2},

times as hot as one of the bulk's noise v₀. Shortened to the noise that makes h = HOT it is no
hotter than that. Its curvature goes down with its noise and it relaxes more slowly; but the noise
of mini-batches goes with the curvature: what is shortened is what relaxed fastest.

How noisy a direction is, is measured on other estimates than it was found by
(:mod:`tacthmc.tuning._spectrum`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike, Float

from tacthmc.dynamics._linear_map import LinearMap
from tacthmc.dynamics._low_rank import LowRank
from tacthmc.tuning._friction import HOT
from tacthmc.tuning._spectrum import spectrum
from tacthmc.tuning._tensors import along_directions, by_tensor

NUMBERS = 1 << 22
"""Those of all directions together, at most: four products with them a step."""


class Thin(NamedTuple):
    """A linear map (None for θ's own), and how hot its noisiest direction was without it."""

    linear: LinearMap | None
    without: float
    directions: int
    full: bool
    """Whether there was no room for more."""

    @property
    def why(self) -> str:
        """What it is for."""
        hot = f"{self.without:.3g} times as hot as it should be"
        if self.linear is None:
            return f"the noisiest direction is {hot}" + self.full * ", and there is no room for one"
        return (
            f"{self.directions} directions shortened, the noisiest of which was {hot}"
            + self.full * "; more would take too much room"
        )


def thin(
    gradients: Float[np.ndarray, "n d"],
    eta: float,
    c: float,
    dtype: DTypeLike = jnp.float32,
    sizes: Sequence[int] | None = None,
) -> Thin:
    """The linear map that estimates of the force, less their mean at each place, ask for.

    ``sizes`` are those of tensors with a friction each, beside which a direction then is hot or
    not; without them it is beside the bulk.

    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(400, 300)) * np.where(np.arange(300) < 3, 100.0, 1.0)
    >>> found = thin(noise, eta=1e-3, c=0.1)
    >>> found.directions, round(found.without)
    (3, 49)
    """
    room = NUMBERS // gradients.shape[1]
    seen = spectrum(gradients, room + 1)
    beside = np.full(len(seen.along), seen.bulk)
    if sizes is not None:
        beside = along_directions(by_tensor(gradients, sizes, seen), sizes, seen)
    quiet = c + eta * beside / 2
    heat = eta * (seen.along - beside) / 2 / quiet
    # Two standard errors are no excess.
    hot = eta * (seen.along / (1 + 2 * seen.doubt) - beside) / 2 > HOT * quiet
    # The hottest first.
    order = np.argsort(np.where(hot, heat, -np.inf))[::-1]
    order = order[: min(int(np.sum(hot)), room)]
    without, full = 1 + max(float(heat.max()), 0.0), int(np.sum(hot)) > len(order)
    if not len(order):
        return Thin(None, without, 0, full)
    allowed = beside + 2 * HOT * quiet / eta
    factors = np.sqrt(np.minimum(allowed / seen.along, 1))[order]
    rows = jnp.asarray(seen.directions[order], dtype)
    return Thin(LinearMap(LowRank(rows, jnp.asarray(factors, dtype))), without, len(order), full)
