"""All chains in one compiled program: starting them, and running a chunk of each."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc._positions import dimension
from tacthmc._typing import Position
from tacthmc.compiler._async_jit import unwaited
from tacthmc.compiler._keys import chain_keys
from tacthmc.compiler._mesh import arranged
from tacthmc.dynamics._low_rank import has_low_rank
from tacthmc.dynamics._sampler import Sampler
from tacthmc.potentials._base import Potential
from tacthmc.run._chunk import (
    Chain,
    Filled,
    Kept,
    Limits,
    Row,
    Shape,
    chain_axes,
    run_interval,
    run_intervals,
    start_chain,
)
from tacthmc.run._gradient_cost import gradient_work
from tacthmc.run._over_chains import over_chains
from tacthmc.run._packing import fingerprint, pack, unpack

LARGE = 1 << 13
"""Parameters below which no gradient is heavy enough to be looked at."""


def spread_over(axes: Chain, chains: Chain, name: str | None) -> Chain:
    """Each part of the chains over the mesh's axis of chains, common parts everywhere."""

    def spread(axis: int | None, part: Any) -> Any:
        return arranged(part, None if axis is None else name)

    return jax.tree.map(spread, axes, chains, is_leaf=lambda x: x is None)


def _split(sampler: Sampler, swept: bool) -> tuple[Any, Any, int | None]:
    """Arrays, the rest, and the axis of chains in the arrays."""
    arrays, rest = eqx.partition(sampler, eqx.is_array)
    return arrays, rest, 0 if swept else None


@partial(eqx.filter_jit, donate="none")
def start_chains(
    sampler: Sampler,
    potential: Potential,
    key: Array,
    positions: Position,
    swept: bool,
    spmd: str | None,
) -> tuple[Chain, Array]:
    """Each chain before its first step, and the keys of its steps."""
    arrays, rest, axis = _split(sampler, swept)
    numbers = jnp.arange(jax.tree.leaves(positions)[0].shape[0])
    starts, steps = jax.vmap(chain_keys, in_axes=(None, 0))(key, numbers)
    start = jax.vmap(
        lambda arrays, key, position, number: start_chain(
            key, eqx.combine(arrays, rest), potential.of_chain(number), position
        ),
        in_axes=(axis, 0, 0, 0),
        out_axes=chain_axes(potential),
        spmd_axis_name=spmd,
    )
    chains = spread_over(chain_axes(potential), start(arrays, starts, positions, numbers), spmd)
    return chains, arranged(steps, spmd)


class _Taken(NamedTuple):
    """How a device takes its chains."""

    in_turn: bool
    """One after the other."""
    heavy: bool
    """A step is mostly its gradient."""


def _taken(
    sampler: Sampler, potential: Potential, chains: Chain, feed: Any, fed_per_chain: bool
) -> _Taken:
    """Decided by what one chain's step computes, and on how many devices."""

    def one(tree: Any, axes: int) -> Any:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[axes:], x.dtype), tree)

    state, numbers = chains.state, dimension(chains.state.position)
    if jax.default_backend() != "cpu" or numbers < LARGE * jax.tree.leaves(state)[0].shape[0]:
        return _Taken(in_turn=False, heavy=False)
    if has_low_rank((sampler, potential)):
        # Thin products of several vectors take XLA several times as long as those of each.
        return _Taken(in_turn=True, heavy=True)
    data = jax.tree.map(
        lambda axis, part: one(part, 0 if axis is None else 1),
        potential.data_axes,
        chains.data,
        is_leaf=lambda x: x is None,
    )
    if feed is not None:
        # A batch of a feed has axes of intervals and steps before it.
        data = one(feed, 3 if fed_per_chain else 2)
    work = gradient_work(potential.of_chain(0), data, one(state.position, 1), one(state.model, 1))
    # Without a mesh a CPU is one device, whose cores share what they are given.
    share_products = not jax.sharding.get_abstract_mesh().axis_names
    return _Taken(work.in_turn(share_products), work.heavy)


@unwaited
def run_chunk(
    sampler: Sampler,
    potential: Potential,
    keys: Array,
    chains: Chain,
    feed: Any,
    limits: Limits,
    shape: Shape,
    swept: bool,
    fed_per_chain: bool,
    spmd: str | None,
) -> tuple[Chain, Filled]:
    """Run intervals of every chain."""
    axes = chain_axes(potential)
    arrays, rest, axis = _split(sampler, swept)
    common, whole = eqx.partition((potential, limits), eqx.is_array)

    numbers = jnp.arange(keys.shape[0])
    taken = _taken(sampler, potential, chains, feed, fed_per_chain)

    def one(common: Any, arrays: Any, number: Array, key: Array, chain: Chain, fed: Any) -> Any:
        potential, limits = eqx.combine(common, whole)
        potential = potential.of_chain(number)
        sampler = eqx.combine(arrays, rest)
        return run_interval(sampler, potential, key, chain, fed, limits, shape, taken.heavy)

    step = over_chains(
        one,
        in_axes=(None, axis, 0, 0, axes, 0 if fed_per_chain else None),
        out_axes=(axes, 0, 0),
        spmd=spmd,
        in_turn=taken.in_turn,
    )

    def interval(i: Array, chains: Chain) -> tuple[Chain, Row, Kept]:
        fed = jax.tree.map(lambda x: x[:, i] if fed_per_chain else x[i], feed)
        return step(common, arrays, numbers, keys, chains, fed)

    chains, filled = run_intervals(interval, chains, limits, shape)
    # Statistics are small, and every process looks at them.
    seen = arranged((filled.rows, filled.health), None)
    filled = Filled(seen[0], arranged(filled.kept, spmd), seen[1])
    return spread_over(axes, chains, spmd), filled


def traced(sampler: Sampler) -> Sampler:
    """Numbers as (weakly typed) arrays, so that other numbers find the same program."""

    def leaf(value: Any) -> Any:
        if isinstance(value, (float, int, np.number)) and not isinstance(value, bool):
            return jnp.asarray(value)
        return value

    return jax.tree.map(leaf, sampler)


def stacked(samplers: list[Sampler]) -> Sampler:
    """Samplers that differ in numbers only, as one with a leading chain axis."""
    first, *others = (traced(s) for s in samplers)
    arrays, rest = eqx.partition(first, eqx.is_array)
    stack = [arrays]
    for number, other in enumerate(others, start=1):
        theirs, their_rest = eqx.partition(other, eqx.is_array)
        if jax.tree.structure(other) != jax.tree.structure(first) or not eqx.tree_equal(
            rest, their_rest
        ):
            raise ValueError(
                f"sampler[{number}] differs from sampler[0] in more than its numbers: chains of one"
                " program must share parts, schedules, keep_every and the like"
            )
        stack.append(theirs)

    def joined(*leaves: Array) -> Array:
        shapes = {leaf.shape for leaf in leaves}
        if len(shapes) > 1:
            raise ValueError(f"samplers of one program differ in an array's shape: {shapes}")
        return jnp.stack(leaves)

    return eqx.combine(jax.tree.map(joined, *stack), rest)


def unstacked(sampler: Sampler, num_chains: int, swept: bool) -> list[Sampler]:
    """Each chain's sampler."""
    if not swept:
        return [sampler] * num_chains
    return [
        jax.tree.map(lambda x, c=chain: x[c] if eqx.is_array(x) else x, sampler)
        for chain in range(num_chains)
    ]


@partial(eqx.filter_jit, donate="none")
def pack_chains(potential: Potential, chains: Chain, spmd: str | None) -> tuple[Array, Array]:
    """A state as words, and their fingerprint."""
    words = pack(potential, chains, spmd)
    return words, fingerprint(words)


@partial(eqx.filter_jit, donate="none")
def unpack_chains(
    potential: Potential, words: Array, like: Chain, spmd: str | None
) -> tuple[Chain, Array]:
    """The state that words stand for, and their fingerprint."""
    return unpack(potential, words, like, spmd), fingerprint(words)
