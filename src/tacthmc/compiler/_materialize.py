"""Arrays that are written to memory once, instead of being recomputed for each use."""

import jax
from jaxtyping import Array

from tacthmc._typing import Position

MIN_MATERIALIZED_SIZE = 4096
"""The size from which recomputing a leaf costs more than reading it from memory."""


def computed_once(position: Position) -> Position:
    """The same numbers, written to memory once instead of being recomputed for each use.

    XLA on a CPU recomputes an expression for each of its uses, unless it contains an operation that
    counts as expensive, such as a division by an array. Here the divisor is 1 everywhere. XLA does
    not see that, but LLVM does, and removes the division.

    >>> import jax.numpy as jnp
    >>> computed_once({"weight": jnp.arange(3.0)})["weight"].tolist()
    [0.0, 1.0, 2.0]
    """
    return jax.tree.map(
        lambda x: x / _one_of(x) if x.size >= MIN_MATERIALIZED_SIZE else x, position
    )


def _one_of(x: Array) -> Array:
    """1 for every number, as an expression of its bits that XLA does not simplify."""
    bits = jax.lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}")
    return ((bits | 1) & 1).astype(x.dtype)
