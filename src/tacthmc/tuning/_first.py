"""Tuning at the start of ``sample``."""

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics._langevin import Langevin
from tacthmc.potentials._base import Potential
from tacthmc.samplers._replica_path import ReplicaPath
from tacthmc.samplers._untuned import Untuned
from tacthmc.samplers._untuned_replicas import UntunedReplicas
from tacthmc.tuning._tune import chains_for, tune_from

KEY_NUMBER = 2**31 + 1
"""The number that is folded into the key. Chains fold their own numbers into the same key."""

BURST_STEPS, STEPS_PER_BURST = (250, 500), 4000
"""The limits of the smallest length of a burst, and the gradients of a run for each of its steps:
there are some fifty bursts of sixteen chains."""


def tuned_first(
    key: PRNGKey,
    sampler: Untuned | UntunedReplicas,
    potential: Potential,
    starts: Position,
    num_steps: int,
    progress: bool | None,
) -> tuple[Langevin | ReplicaPath, Position]:
    """The tuned sampler, and for each chain the end of a short run at unit temperature."""
    count = jax.tree.leaves(starts)[0].shape[0]
    # The number of chains for tuning does not depend on that of the run.
    chains = chains_for(jax.tree.map(lambda x: x[0], starts))
    some = jax.tree.map(lambda x: x[jnp.arange(chains) % count], starts)
    own = jax.random.fold_in(key, KEY_NUMBER)
    budget = float(count * num_steps)
    # Short runs for a short run, so that tuning does not take most of the gradients.
    steps = int(np.clip(budget / STEPS_PER_BURST, *BURST_STEPS))
    tuned = tune_from(own, sampler, potential, some, steps, progress, budget)
    assert tuned.tuning is not None
    ends = tuned.tuning.start
    return tuned, jax.tree.map(lambda x: x[jnp.arange(count) % x.shape[0]], ends)
