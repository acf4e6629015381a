"""A rate that begins late: ξ is held until the network has been found."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc import checks
from tacthmc._typing import Number

HELD = 1e-12
"""ξ's η while it is held, of what it is after: it moves a million times more slowly."""


class Released(eqx.Module):
    """η_ξ as a schedule: next to nothing for so many steps, then all of it.

    Next to nothing rather than nothing, since on the plateau no force sets ξ going: it keeps the
    momentum that it was given at the start, N(0, η), through every change of η. A momentum of zero
    would hold it there for good.

    >>> rate = Released(1e-4, after=100)
    >>> float(rate(0)) < 1e-15, round(float(rate(100)), 6)
    (True, 0.0001)
    """

    rate: Number
    after: Number

    def __init__(self, rate: Number, after: Number):
        """Hold for ``after`` steps, then run at ``rate``."""
        checks.positive("rate", rate)
        checks.non_negative("after", after)
        self.rate, self.after = rate, after

    def __call__(self, step: Any) -> Array:
        """η_ξ at a step."""
        full = jnp.asarray(self.rate, jnp.float32)
        return jnp.where(step < self.after, jnp.float32(HELD) * full, full)
