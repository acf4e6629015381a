"""Adding to one element of a table, for one chain or many."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array

from tacthmc.compiler._cpu_flags import small_loop_bytes


@custom_vmap
def add_at(table: Any, index: Any, amount: Any) -> Any:
    """The table with ``amount`` added at ``index``, which has to be in bounds.

    With many chains an indexed update is a scatter, and on a CPU XLA does not compile loops with a
    scatter as a whole. On a CPU this is therefore a loop over chains that touches one number of
    each table, and elsewhere a masked addition to the whole table.

    >>> import jax, jax.numpy as jnp
    >>> tables, places = jnp.zeros((2, 3)), jnp.array([2, 0])
    >>> jax.vmap(add_at)(tables, places, jnp.array([1.0, 5.0])).tolist()
    [[0.0, 0.0, 1.0], [5.0, 0.0, 0.0]]
    """
    return _masked(table, index, amount)


def _masked(table: Array, index: Array, amount: Array) -> Array:
    return table + jnp.where(jnp.arange(table.shape[0]) == index, amount, 0)


def _one_by_one(tables: Array, indices: Array, amounts: Array) -> Array:
    def body(i: Array, tables: Array) -> Array:
        place = (i, indices[i])
        old = jax.lax.dynamic_slice(tables, place, (1, 1))
        return jax.lax.dynamic_update_slice(tables, old + amounts[i], place)

    return jax.lax.fori_loop(0, tables.shape[0], body, tables)


@add_at.def_vmap
def _many(size: int, batched: Any, table: Any, index: Any, amount: Any) -> Any:
    full = [
        jnp.asarray(value) if is_batched else jnp.broadcast_to(value, (size, *value.shape))
        for value, is_batched in zip((table, index, amount), batched, strict=True)
    ]
    all_at_once = jax.vmap(_masked)
    # The table is read and written, and counts a third time for the memory of the loop.
    touched = 3 * full[0].size * full[0].dtype.itemsize
    spread = jax.sharding.get_abstract_mesh().auto_axes
    if spread or touched > small_loop_bytes() // 2:
        # With chains on several devices, each iteration of a loop over chains would communicate.
        # And a loop that is not compiled as a whole costs more than adding to all of the tables.
        return all_at_once(*full), True
    return jax.lax.platform_dependent(*full, cpu=_one_by_one, default=all_at_once), True
