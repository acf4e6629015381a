"""Rates: numbers or schedules."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, DTypeLike

from tacthmc._typing import Rate


def rate_at(rate: Rate, step: Any, dtype: DTypeLike) -> Array:
    """The rate's value at a step, in the dtype that the dynamics computes in.

    >>> import jax.numpy as jnp
    >>> float(rate_at(0.5, 3, jnp.float32)), float(rate_at(lambda k: 1.0 / (k + 1), 3, jnp.float32))
    (0.5, 0.25)
    """
    return jnp.asarray(rate(step) if callable(rate) else rate).astype(dtype)
