"""What ``sample`` does with a sampler that has no numbers yet."""

import jax
import jax.numpy as jnp

from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics._langevin import Langevin
from tacthmc.potentials._base import Potential
from tacthmc.samplers._untuned import Untuned
from tacthmc.tuning._warmup import chains_for, warmed

STREAM = 2**31 + 1
"""A stream of its own: chains fold their index into the same key."""


def tuned_first(
    key: PRNGKey, sampler: Untuned, potential: Potential, starts: Position, progress: bool | None
) -> tuple[Langevin, Position]:
    """The tuned sampler, and a start for each chain: where short runs at unit temperature ended."""
    count = jax.tree.leaves(starts)[0].shape[0]
    # However many the run itself has.
    chains = chains_for(jax.tree.map(lambda x: x[0], starts))
    some = jax.tree.map(lambda x: x[jnp.arange(chains) % count], starts)
    tuned = warmed(jax.random.fold_in(key, STREAM), sampler, potential, some, progress=progress)
    assert tuned.tuning is not None
    return tuned, jax.tree.map(lambda x: x[jnp.arange(count) % chains], tuned.tuning.start)
