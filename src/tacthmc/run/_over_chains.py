"""A function of one chain as one of many: together, in turn, or spread over devices."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec

from tacthmc.compiler._mesh import CHAINS


def over_chains(
    function: Callable[..., Any], *, in_axes: Any, out_axes: Any, spmd: str | None, in_turn: bool
) -> Callable[..., Any]:
    """``vmap``, or the same one chain after the other (``in_turn``), on each device of a mesh.

    Where the mesh has chains alone, each device runs its own chains as a program without any
    exchange; where it spreads batches too, the compiler does the spreading.
    """
    alone = jax.sharding.get_abstract_mesh().axis_names == (CHAINS,)
    if spmd is not None and not alone:
        return jax.vmap(function, in_axes=in_axes, out_axes=out_axes, spmd_axis_name=spmd)
    mapped = jax.vmap(function, in_axes=in_axes, out_axes=out_axes)
    if in_turn:
        mapped = _in_turn(function, in_axes, out_axes)
    if not alone:
        return mapped
    return jax.shard_map(
        mapped, in_specs=_specs(in_axes), out_specs=_specs(out_axes), check_vma=False
    )


def _specs(axes: Any) -> Any:
    """The mesh's axis for each part that has chains."""
    return jax.tree.map(
        lambda axis: PartitionSpec() if axis is None else PartitionSpec(CHAINS),
        axes,
        is_leaf=lambda x: x is None,
    )


def _in_turn(function: Callable[..., Any], in_axes: Any, out_axes: Any) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        flat, structure = jax.tree.flatten(args)
        mapped = jax.tree.leaves(_per_leaf(in_axes, args))

        def one(own: list[Any]) -> Any:
            each = iter(own)
            leaves = [next(each) if m else leaf for leaf, m in zip(flat, mapped, strict=True)]
            return function(*jax.tree.unflatten(structure, leaves))

        results = jax.lax.map(one, [leaf for leaf, m in zip(flat, mapped, strict=True) if m])
        # What chains have in common comes out the same from each of them.
        keep = _per_leaf(out_axes, results)
        return jax.tree.map(lambda x, m: x if m else x[0], results, keep)

    return run


def _per_leaf(axes: Any, tree: Any) -> Any:
    """For each leaf of a tree, whether it has an axis of chains."""
    return jax.tree.map(
        lambda axis, part: jax.tree.map(lambda _: axis is not None, part),
        axes,
        tree,
        is_leaf=lambda x: x is None,
    )
