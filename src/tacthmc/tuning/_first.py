"""Tuning at the start of ``sample``."""

import jax
import jax.numpy as jnp

from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics._langevin import Langevin
from tacthmc.potentials._base import Potential
from tacthmc.samplers._untuned import Untuned
from tacthmc.tuning._tune import chains_for, tune_from

KEY_NUMBER = 2**31 + 1
"""The number that is folded into the key. Chains fold their own numbers into the same key."""


def tuned_first(
    key: PRNGKey, sampler: Untuned, potential: Potential, starts: Position, progress: bool | None
) -> tuple[Langevin, Position]:
    """The tuned sampler, and for each chain the end of a short run at unit temperature."""
    count = jax.tree.leaves(starts)[0].shape[0]
    # The number of chains for tuning does not depend on that of the run.
    chains = chains_for(jax.tree.map(lambda x: x[0], starts))
    some = jax.tree.map(lambda x: x[jnp.arange(chains) % count], starts)
    own = jax.random.fold_in(key, KEY_NUMBER)
    tuned = tune_from(own, sampler, potential, some, progress=progress)
    assert tuned.tuning is not None
    return tuned, jax.tree.map(lambda x: x[jnp.arange(count) % chains], tuned.tuning.start)
