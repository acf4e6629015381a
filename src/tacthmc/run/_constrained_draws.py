"""The draws of a run in constrained values rather than in free coordinates."""

from typing import TYPE_CHECKING

import jax
import numpy as np

from tacthmc._typing import Draws
from tacthmc.potentials._constrained import constraints_of

if TYPE_CHECKING:
    from tacthmc.run._result import Run


def constrained_draws(run: "Run") -> Draws:
    """θ = f(φ) of each draw φ, with leading axes (chain, draw)."""
    constraints = constraints_of(run.potential)
    if constraints is None:
        raise ValueError(
            "run.constrained needs a potential made by tacthmc.constrained; the draws of this run"
            " are run.draws"
        )
    with jax.enable_x64(run.x64):
        found = jax.jit(jax.vmap(jax.vmap(constraints.constrain)))(run.draws)
    return jax.tree.map(np.asarray, found)
