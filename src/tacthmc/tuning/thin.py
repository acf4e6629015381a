r"""A frame for high dimension: the few directions in which the force is noisiest, shortened.

At step size η and injected noise c a direction of noise v is

.. math:: 1 + h, \qquad h = \frac{\eta(v - v_0)/2}{c + \eta v_0/2},

times as hot as one of the bulk's noise v₀. Shortened to the noise that makes h = HOT it is no
hotter than that. Its curvature goes down with its noise and it relaxes more slowly; but the noise
of mini-batches goes with the curvature: what is shortened is what relaxed fastest.

The directions are the first eigenvectors of n estimates' covariance. In D ≫ n dimensions the bulk
scatters into each: an eigenvalue is larger by D/n·v₀ than the variance along its direction, and
those up to v₀(1 + √(D/n))² may be the bulk's own. With i directions taken out, v₀ is what the other
eigenvalues come to.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike, Float

from tacthmc.frame import Frame
from tacthmc.low_rank import LowRank

HOT = 0.1
"""How much too hot a direction may be that is left alone, and is in the frame."""
NUMBERS = 1 << 22
"""Those of all directions together, at most: four products with them a step."""
ABOVE = 1.1
"""How much larger than the bulk's an eigenvalue has to be."""
FROM = 4
"""Estimates for each direction that is sought, at least."""


class Thin(NamedTuple):
    """A frame (None for θ's own), and how hot its noisiest direction is without and with it."""

    frame: Frame | None
    without: float
    within: float
    directions: int

    @property
    def why(self) -> str:
        """What it is for."""
        if self.frame is None:
            return f"the noisiest direction is {self.without:.3g} times as hot as it should be"
        return (
            f"{self.directions} directions shortened, the noisiest of which was"
            f" {self.without:.3g} times as hot as it should be; of the others it is"
            f" {self.within:.3g}"
        )


def thin(
    gradients: Float[np.ndarray, "n d"], eta: float, c: float, dtype: DTypeLike = jnp.float32
) -> Thin:
    """The frame that estimates of the force, less their mean at each place, ask for.

    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(400, 300)) * np.where(np.arange(300) < 3, 100.0, 1.0)
    >>> found = thin(noise, eta=1e-3, c=0.1)
    >>> found.directions, round(found.without), round(found.within, 1)
    (3, 53, 1.1)
    """
    count, size = gradients.shape
    gram = (gradients @ gradients.T).astype(float) / count
    values, vectors = np.linalg.eigh(gram)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    room = min(NUMBERS // size, count // FROM)
    taken = np.arange(1, room + 2)
    rest = values.sum() - np.cumsum(values)[: room + 1]
    bulk = rest / (1 - taken / count) / size
    values = values[: room + 1]
    clear = values > ABOVE * bulk * (1 + np.sqrt(size / count)) ** 2
    floor = bulk[-1]
    noise = np.where(clear, np.maximum(values - size / count * floor, floor), floor)
    heat = eta * (noise - floor) / 2 / (c + eta * floor / 2)
    found = min(int(np.sum(np.cumprod(heat > HOT))), room)
    if not found:
        return Thin(None, 1 + float(heat[0]), 1 + float(heat[0]), 0)
    rows = vectors[:, :found].T.astype(gradients.dtype) @ gradients
    # Again orthonormal: eigenvectors of the smaller matrix are so only up to rounding.
    rows = np.linalg.qr(rows.T.astype(float))[0].T
    allowed = floor + 2 * HOT / eta * (c + eta * floor / 2)
    factors = np.sqrt(np.minimum(allowed / noise[:found], 1))
    frame = Frame(LowRank(jnp.asarray(rows, dtype), jnp.asarray(factors, dtype)))
    return Thin(frame, 1 + float(heat[0]), 1 + float(max(heat[found], HOT)), found)
