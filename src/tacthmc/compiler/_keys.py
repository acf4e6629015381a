"""Which random key is used for what: chain i's numbers depend on the run's key and on i alone."""

import jax
from jaxtyping import Array

from tacthmc._typing import PRNGKey
from tacthmc.compiler._random import related


def chain_keys(key: PRNGKey, chain: Array | int) -> tuple[PRNGKey, PRNGKey]:
    """A chain's two streams: one to start, one for its steps."""
    start, steps = jax.random.split(jax.random.fold_in(key, chain))
    return start, steps


def start_keys(start: PRNGKey) -> tuple[PRNGKey, PRNGKey]:
    """Keys of a chain's first state, and of its memory of the data."""
    state, data = jax.random.split(start)
    return state, data


def step_keys(steps: PRNGKey, step: Array | int) -> tuple[PRNGKey, PRNGKey]:
    """Keys of a step's noise, and of its batch."""
    return related(steps, 1, step), related(steps, 2, step)
