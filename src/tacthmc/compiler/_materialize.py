"""Arrays that a CPU is to write out once, instead of computing them anew for each reader."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc._typing import Position

MANY = 4096
"""From so many numbers on, computing a leaf again costs more than reading it again."""


def computed_once(position: Position) -> Position:
    """The same numbers, which XLA on a CPU now writes out instead of repeating them per reader.

    It computes what several others need again for each of them, unless there is something in it
    that it takes for costly: a division by an array is. LLVM sees that this array is 1
    everywhere, and divides by nothing.

    >>> import jax.numpy as jnp
    >>> computed_once({"weight": jnp.arange(3.0)})["weight"].tolist()
    [0.0, 1.0, 2.0]
    """
    return jax.tree.map(lambda x: x / _one_of(x) if x.size >= MANY else x, position)


def _one_of(x: Array) -> Array:
    """1 for every number, by an expression of its bits that XLA takes as it stands."""
    bits = jax.lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}")
    return ((bits | 1) & 1).astype(x.dtype)


def with_sum(new: Position, old: Position) -> tuple[Position, Position]:
    """The new momenta, and their sum with the old ones: both written out once.

    A CPU writes the sum first and takes the old ones off it again, in their place, which leaves a
    rounding error of the sum's in the new ones. So neither is copied in a loop of steps, and the
    squares of one array are added up: of two arrays' sum that takes XLA's library five times as
    long.

    >>> import jax.numpy as jnp
    >>> new, both = with_sum({"weight": jnp.arange(3.0)}, {"weight": jnp.ones(3)})
    >>> new["weight"].tolist(), both["weight"].tolist()
    ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    """
    if jax.default_backend() != "cpu":
        new = computed_once(new)
        return new, jax.tree.map(jnp.add, old, new)
    both = computed_once(jax.tree.map(jnp.add, old, new))

    def kept(new: Array, both: Array, old: Array) -> Array:
        # With 0·both, since XLA makes code three times as slow of a lone subtraction in place.
        return both - old + 0 * both if new.size >= MANY else new

    return jax.tree.map(kept, new, both, old), both
