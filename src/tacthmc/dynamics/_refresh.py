"""When momenta are drawn afresh."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc import _checks as checks


class Refresh(eqx.Module):
    """Draw momenta afresh after every ``every`` steps, on the plateau or ``everywhere``.

    Line 18 of Algorithm 1 has it as an option for the momenta of both θ and ξ, on the plateau.

    >>> import tacthmc
    >>> tacthmc.tact(0.01, refresh=Refresh(every=20)).refresh
    Refresh(every=20)
    """

    every: int = eqx.field(static=True, default=50)
    everywhere: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        """Check the values."""
        checks.whole("Refresh.every", self.every, 1)
        checks.flag("Refresh.everywhere", self.everywhere)

    def due(self, steps: Array, unit: Array) -> Array:
        """Whether momenta are drawn afresh after ``steps`` steps; ``unit`` is the plateau."""
        here = jnp.remainder(steps, jnp.asarray(self.every, steps.dtype)) == 0
        return here if self.everywhere else here & unit
