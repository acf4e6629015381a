"""Sharding over a mesh of devices: chains over one axis, the examples of a batch over another.

A mesh has an axis named ``chains``, one named ``batch``, or both:
``jax.make_mesh((4, 2), ("chains", "batch"))``.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, DTypeLike

from tacthmc._positions import flatten

CHAINS, BATCH = "chains", "batch"


def checked_mesh(mesh: Any, num_chains: int) -> Mesh | None:
    """The mesh, checked against the chains, with axes over which the compiler spreads arrays."""
    if mesh is None:
        if jax.process_count() > 1:
            raise ValueError(
                f"mesh is None, but {jax.process_count()} processes run together: give a mesh of"
                " all their devices"
            )
        return None
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a jax.sharding.Mesh (jax.make_mesh makes one); got {mesh!r}")
    absent = set(range(jax.process_count())) - {d.process_index for d in mesh.devices.flat}
    if absent:
        raise ValueError(f"mesh has no device of process {min(absent)}: each must take part")
    unknown = set(mesh.axis_names) - {CHAINS, BATCH}
    if unknown or not mesh.axis_names:
        raise ValueError(
            f"mesh must have axes named 'chains' and/or 'batch'; got {mesh.axis_names}: make it"
            ' with jax.make_mesh((4, 2), ("chains", "batch"))'
        )
    sizes = dict(mesh.shape)
    if num_chains % sizes.get(CHAINS, 1):
        raise ValueError(
            f"num_chains ({num_chains}) must be a multiple of the mesh's 'chains' axis"
            f" ({sizes[CHAINS]})"
        )
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def check_batch(mesh: Mesh | None, batch_size: int | None) -> None:
    """Raise an error for batches that cannot be spread evenly over the mesh."""
    ways = 1 if mesh is None else dict(mesh.shape).get(BATCH, 1)
    if batch_size is not None and batch_size % ways:
        raise ValueError(
            f"batch_size ({batch_size}) must be a multiple of the mesh's 'batch' axis ({ways})"
        )


def _over(*names: str | None) -> PartitionSpec:
    """Leading axes spread over these axes of the mesh. Without a name it also fits scalars."""
    return PartitionSpec(*names) if any(names) else PartitionSpec()


def axis(mesh: Mesh | None, name: str) -> str | None:
    """The name, or None if the mesh has no such axis."""
    return name if mesh is not None and name in mesh.axis_names else None


def spread_examples(batch: Any) -> Any:
    """Spread the examples of a batch over the ``batch`` axis of the ambient mesh, if any."""
    if BATCH not in jax.sharding.get_abstract_mesh().axis_names:
        return batch
    return jax.lax.with_sharding_constraint(batch, PartitionSpec(BATCH))


def sum_over_examples(
    each: Callable[[Any, Any], Array],
    added: Callable[[Array, Array], Array],
    batch: Any,
    common: Any,
) -> Array:
    """``added(values, values)`` over the examples of a batch, ``values = each(batch, common)``.

    On a mesh with only the ``batch`` axis each device has its own examples. Then ``added(values,
    whole)``, with the values of the device and of the whole batch, has to be the share of the
    device in the sum. Devices exchange the values and one gradient. (If the compiler shards it, the
    gradient of a network takes twice as long on two cores as on one.) On other meshes the compiler
    shards the computation.
    """
    size = jax.tree.leaves(batch)[0].shape[0]
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.auto_axes != (BATCH,) or size % mesh.shape[BATCH]:
        values = each(batch, common)
        return added(values, values)

    vectors, restored = _in_vectors(common)

    def part(batch: Any, vectors: Any) -> Array:
        values = each(batch, restored(vectors))
        whole = jax.lax.all_gather(jax.lax.stop_gradient(values), BATCH, tiled=True)
        return _by_shares(added(values, whole), added(whole, whole), mesh.shape[BATCH])

    return jax.shard_map(
        part,
        in_specs=(PartitionSpec(BATCH), PartitionSpec()),
        out_specs=PartitionSpec(),
        check_vma=False,
    )(batch, vectors)


def _in_vectors(tree: Any) -> tuple[list[Array], Callable[[list[Array]], Any]]:
    """Floating-point arrays as one vector for each dtype, and the inverse function.

    Devices synchronize once for each array whose derivative they add up. The eight arrays of a
    small network took 545 µs on two cores, and one array of the same size took 115 µs.
    """
    leaves, structure = jax.tree.flatten(tree)
    kinds = sorted(
        {leaf.dtype for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)}, key=str
    )
    likes = [[leaf for leaf in leaves if leaf.dtype == kind] for kind in kinds]
    others = [leaf for leaf in leaves if leaf.dtype not in kinds]

    def restored(vectors: list[Array]) -> Any:
        parts = {
            kind: iter(_apart(like, kind)(vector))
            for kind, vector, like in zip(kinds, vectors, likes, strict=False)
        }
        rest = iter(vectors[len(kinds) :])
        return jax.tree.unflatten(structure, [next(parts.get(leaf.dtype, rest)) for leaf in leaves])

    return [
        *(flatten(like, kind) for kind, like in zip(kinds, likes, strict=True)),
        *others,
    ], restored


def _apart(like: list[Array], kind: DTypeLike) -> Callable[[Array], list[Array]]:
    """A function that splits a vector into leaves, with an efficient derivative.

    The derivatives of the leaves are written into one vector. JAX's rule for slices instead adds as
    many vectors, each zero except for one leaf. XLA then tests for every number which leaf it
    belongs to, as it does for concatenation, which takes 0.3 ms in a step of a small network.
    """
    shapes = [leaf.shape for leaf in like]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1].tolist()

    def cut(vector: Array) -> list[Array]:
        parts = jnp.split(vector, ends)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    apart = jax.custom_vjp(cut)
    apart.defvjp(lambda vector: (cut(vector), None), lambda _, seeds: (_side_by_side(seeds, kind),))
    return apart


def _side_by_side(leaves: list[Array], kind: DTypeLike) -> Array:
    """The leaves in one vector."""
    vector, start = jnp.zeros(sum(leaf.size for leaf in leaves), kind), 0
    for leaf in leaves:
        vector = jax.lax.dynamic_update_slice(vector, leaf.ravel().astype(kind), (start,))
        start += leaf.size
    return vector


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _by_shares(share: Array, whole: Array, ways: int) -> Any:
    """The whole, with the derivative of the share of each device.

    Adding the shares, and the derivatives of the sum, would synchronize the devices twice more.
    """
    return whole


def _by_shares_forward(share: Array, whole: Array, ways: int) -> tuple[Array, None]:
    return whole, None


def _by_shares_backward(ways: int, _: None, seed: Array) -> tuple[Array, Array]:
    # The output is replicated, so each device gets its part of the derivative of the output.
    return ways * seed, jnp.zeros_like(seed)


_by_shares.defvjp(_by_shares_forward, _by_shares_backward)


def ambient(mesh: Mesh | None) -> Any:
    """A context in which the mesh is the ambient one."""
    return nullcontext() if mesh is None else jax.set_mesh(mesh)


def constrained(tree: Any, name: str | None) -> Any:
    """Spread the leading axis of arrays over an axis of the ambient mesh, if there is a mesh."""
    if not jax.sharding.get_abstract_mesh().axis_names:
        return tree
    return jax.lax.with_sharding_constraint(tree, _over(name))


def place(mesh: Mesh | None, tree: Any, *axes: str | None) -> Any:
    """Host values as arrays on the mesh, with their leading axes spread over the named axes.

    With many hosts each host passes the same values and keeps only its own part.
    """
    if mesh is None:
        return jax.tree.map(jnp.asarray, tree)
    sharding = NamedSharding(mesh, _over(*axes))

    def placed(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            return jax.device_put(leaf, sharding)
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = placed(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        values = np.asarray(leaf)
        return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])

    return jax.tree.map(placed, tree)


def on_every_host(mesh: Mesh | None, tree: Any) -> Any:
    """The arrays, replicated on every host."""
    if mesh is None or all(leaf.is_fully_addressable for leaf in jax.tree.leaves(tree)):
        return tree
    return _replicator(mesh)(tree)


@cache
def _replicator(mesh: Mesh) -> Any:
    return jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, PartitionSpec()))


def local_chains(mesh: Mesh | None, num_chains: int) -> np.ndarray:
    """The chains that this process stores: those whose first copy it holds."""
    if mesh is None:
        return np.arange(num_chains)
    devices = mesh.devices[None]
    if CHAINS in mesh.axis_names:
        devices = np.moveaxis(mesh.devices, mesh.axis_names.index(CHAINS), 0)
    owners = devices.reshape(len(devices), -1)[:, 0]
    mine = [d.process_index == jax.process_index() for d in owners]
    return np.flatnonzero(np.repeat(mine, num_chains // len(owners)))


def local_rows(tree: Any, mesh: Mesh | None) -> Any:
    """The rows of :func:`local_chains` of arrays with a leading chain axis."""

    def rows(leaf: jax.Array) -> np.ndarray:
        if leaf.is_fully_addressable:
            whole = np.asarray(leaf)
            return whole if mesh is None else whole[local_chains(mesh, len(whole))]
        parts = [s for s in leaf.addressable_shards if s.replica_id == 0]
        parts.sort(key=lambda shard: shard.index[0].start or 0)
        if not parts:
            return np.zeros((0, *leaf.shape[1:]), leaf.dtype)
        return np.concatenate([np.asarray(shard.data) for shard in parts])

    return jax.tree.map(rows, tree)


def held_chains(mesh: Mesh | None, num_chains: int) -> np.ndarray:
    """The chains of which a device of this process holds a copy."""
    if mesh is None or CHAINS not in mesh.axis_names:
        return np.arange(num_chains)
    devices = np.moveaxis(mesh.devices, mesh.axis_names.index(CHAINS), 0)
    here = [
        any(d.process_index == jax.process_index() for d in row)
        for row in devices.reshape(len(devices), -1)
    ]
    return np.flatnonzero(np.repeat(here, num_chains // len(devices)))


def over_chains(
    function: Callable[..., Any], *, in_axes: Any, out_axes: Any, spmd: str | None, in_turn: bool
) -> Callable[..., Any]:
    """``vmap`` over chains, or a loop over chains if ``in_turn``, on each device of a mesh.

    On a mesh with only the ``chains`` axis, each device runs its own chains without communication.
    On other meshes the compiler shards the computation.
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
        mapped, in_specs=_chain_specs(in_axes), out_specs=_chain_specs(out_axes), check_vma=False
    )


def _chain_specs(axes: Any) -> Any:
    """The mesh axis for each part that has chains."""
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
        # Arrays that chains share are equal in all results, so the first is taken.
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
