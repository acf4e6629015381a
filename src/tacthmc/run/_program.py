"""The compiled program of a run: it starts, advances, packs and unpacks all chains."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Int, PyTree, UInt32

from tacthmc import _checks as checks
from tacthmc._positions import dimension
from tacthmc._typing import Position, PRNGKey, PRNGKeys
from tacthmc.compiler._async_jit import async_jit
from tacthmc.compiler._mesh import (
    CHAINS,
    ambient,
    axis,
    checked_mesh,
    constrained,
    over_chains,
    place,
)
from tacthmc.compiler._random import chain_keys
from tacthmc.compiler._words import fingerprint, pack_words, unpack_words
from tacthmc.dynamics import Langevin, Sampler
from tacthmc.potentials import Potential
from tacthmc.run._gradient_cost import MIN_LARGE_PARAMETERS, Placement, placement
from tacthmc.run._interval import Chain, Health, Kept, Row, Shape, run_interval, start_chain
from tacthmc.run._keep import Keep
from tacthmc.run._start import chain_positions, check_code

CHUNK_INTERVALS = 1000
"""The default number of intervals that a chunk has room for."""


class Chains(NamedTuple):
    """All chains of a program, and the keys of their steps."""

    each: Chain
    """The chains, with a leading axis on every array that chains do not share."""
    keys: Array


class Chunk(NamedTuple):
    """The result of some intervals: a row for each, and the draws, packed without gaps."""

    rows: Row
    """Statistics, each (chain, interval). Only the intervals that were run count."""
    kept: Kept
    """Draws, (chain, draw, …). Only as many count as rows say ``keep``."""
    health: Health
    """Whether each chain is finite."""


class Limits(NamedTuple):
    """The number of intervals, and the last step that is never kept. Both are traced."""

    intervals: Int[Array, ""]
    after: Int[Array, ""]


class Program:
    """A sampler, a potential and a :class:`tacthmc.Keep` as one compiled program for all chains.

    It lies between the ``step`` of a sampler and :func:`tacthmc.sample`, for loops of your own. It
    runs whole intervals of ``keep.every`` steps, with the draws and statistics of a run.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> program = Program(tacthmc.sgnht(0.1), target, tacthmc.Keep(every=10), num_chains=4)
    >>> chains = program.start(jax.random.key(0), jnp.zeros(2))
    >>> chains, chunk = program.advance(chains, intervals=3)
    >>> chunk.rows.step[0, :3].tolist(), chunk.rows.keep[:, :3].sum(axis=1).tolist()
    ([10, 20, 30], [3, 3, 3, 3])
    >>> words = program.pack(chains)
    >>> again = program.unpack(words, chains)
    >>> bool((again.each.state.position == chains.each.state.position).all())
    True
    """

    def __init__(
        self,
        sampler: Sampler | Sequence[Sampler],
        potential: Potential,
        keep: Keep | None = None,
        *,
        num_chains: int = 1,
        mesh: Mesh | None = None,
        room: int = CHUNK_INTERVALS,
        feed_per_chain: bool = False,
    ):
        """Join the parts of a run. Nothing is compiled yet.

        Args:
            sampler: a sampler for all chains, or a list with one per chain.
            potential: the potential to sample.
            keep: which draws are kept.
            num_chains: the number of chains.
            mesh: devices to spread chains and batches over, as for :func:`tacthmc.sample`.
            room: the largest number of intervals in one call of :meth:`advance`, whose draws are
                held on the device.
            feed_per_chain: whether batches that are fed in differ from chain to chain.
        """
        joined, per_chain, self.num_chains = one_sampler(sampler, num_chains)
        checks.instance(
            "potential", potential, Potential, "made by tacthmc.potential or .posterior"
        )
        checks.whole("room", room, 1)
        if keep is not None:
            checks.instance("keep", keep, Keep, "a tacthmc.Keep, such as Keep(every=20)")
        checks.flag("feed_per_chain", feed_per_chain)
        first = joined if not isinstance(sampler, Sequence) else sampler[0]
        self.keep = (Keep() if keep is None else keep).with_defaults(first)
        self.keep.check(first, potential)
        self.mesh = checked_mesh(mesh, self.num_chains)
        self.sampler, self.potential = _placed(self.mesh, (joined, potential))
        assert self.keep.every is not None
        self.shape = Shape(
            rows=room,
            every=self.keep.every,
            keep_all=self.keep.all_temperatures,
            relaxation_window=self.keep.relaxation_window,
            sampler_per_chain=per_chain,
            feed_per_chain=feed_per_chain,
            chain_axis=axis(self.mesh, CHAINS),
        )

    def start(self, key: PRNGKeys, init: Any, example: Any = None) -> Chains:
        """All chains before their first step.

        Args:
            key: one key for all chains, or an array with one for each.
            init: as for :func:`tacthmc.sample`.
            example: a batch, for streamed posteriors.
        """
        positions = chain_positions(self.potential, init, self.num_chains, example)
        return self.start_at(key, positions)

    def start_at(self, key: PRNGKeys, positions: Position) -> Chains:
        """:meth:`start` from a stack of positions that was checked before."""
        check_code(self.samplers[0], positions)
        with ambient(self.mesh):
            positions = place(self.mesh, positions, self.shape.chain_axis)
            key = _placed(self.mesh, key)
            return jax.block_until_ready(
                _start(self.sampler, self.potential, key, positions, self.shape)
            )

    def advance(self, chains: Chains, intervals: int, feed: Any = None) -> tuple[Chains, Chunk]:
        """Run ``intervals`` intervals of every chain, at most ``room``; zero only compiles.

        It returns before the computation has finished. ``feed`` has the batches of a streamed
        posterior, with leading axes (interval, step).
        """
        if intervals > self.shape.rows:
            raise ValueError(
                f"intervals is {intervals}, but the program has room for {self.shape.rows}: make it"
                " with more (room=…)"
            )
        limits = place(self.mesh, Limits(jnp.asarray(intervals), jnp.asarray(self.keep.after)))
        with ambient(self.mesh):
            return _advance(self.sampler, self.potential, chains, feed, limits, self.shape)

    def chunk_shapes(self, chains: Chains, feed: Any = None) -> Chunk:
        """The shapes of the result of :meth:`advance`, without running it."""
        none = jnp.zeros((), int)
        arguments = (self.sampler, self.potential, chains, feed, Limits(none, none), self.shape)
        with ambient(self.mesh):
            return eqx.filter_eval_shape(_advance, *arguments)[1]

    def start_shapes(self, key: PRNGKeys, positions: Any) -> Chains:
        """The shapes of the result of :meth:`start`, from positions or their shapes."""
        shape = self.shape._replace(chain_axis=None)
        return eqx.filter_eval_shape(_start, self.sampler, self.potential, key, positions, shape)

    def pack(self, chains: Chains) -> UInt32[Array, "c w"]:
        """The whole state of the chains as words, a row per chain; the last word is a checksum."""
        with ambient(self.mesh):
            return _pack(chains, self.axes, self.shape.chain_axis)

    def packed_shape(self, chains: Chains) -> jax.ShapeDtypeStruct:
        """The shape of the result of :meth:`pack`, from the shapes of the chains."""
        return packed_shape(chains, self.axes)

    def unpack(self, words: UInt32[Array, "c w"], like: Chains) -> Chains:
        """The inverse of :meth:`pack`, in the shapes of ``like``; a ValueError if damaged."""
        return unpacked(words, like, self.axes, self.mesh, self.shape.chain_axis)

    def pick(self, chains: Chains, numbers: Sequence[int]) -> Chains:
        """The chains with these numbers, in this order, for a program with as many chains."""
        chosen = jnp.asarray(numbers)

        def picked(axis: int | None, part: Any) -> Any:
            return part if axis is None else jax.tree.map(lambda x: x[chosen], part)

        return jax.tree.map(picked, self.axes, chains, is_leaf=lambda x: x is None)

    @property
    def axes(self) -> Chains:
        """How chains are mapped over a :class:`Chains`."""
        keys: Any = 0
        return Chains(_axes(self.potential), keys)

    @property
    def samplers(self) -> list[Sampler]:
        """The sampler of each chain."""
        return unstacked(self.sampler, self.num_chains, self.shape.sampler_per_chain)


def _axes(potential: Potential) -> Chain:
    """Everything has an axis of chains, except for the parts of the data that chains share."""
    each: Any = 0
    return Chain(each, potential.batches.axes, each, each, each)


def _placed(mesh: Mesh | None, tree: Any) -> Any:
    """The tree with its arrays on every device of the mesh."""
    if mesh is None:
        return tree
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(place(mesh, arrays), rest)


def _spread(axes: Any, tree: Any, name: str | None) -> Any:
    """The parts of the chains spread over the mesh axis of chains, and shared parts replicated."""

    def spread(axis: int | None, part: Any) -> Any:
        return constrained(part, None if axis is None else name)

    return jax.tree.map(spread, axes, tree, is_leaf=lambda x: x is None)


@partial(eqx.filter_jit, donate="none")
def _start(
    sampler: Sampler, potential: Potential, key: PRNGKeys, positions: Position, shape: Shape
) -> Chains:
    arrays, rest = eqx.partition(sampler, eqx.is_array)
    numbers = jnp.arange(jax.tree.leaves(positions)[0].shape[0])
    if key.shape == ():
        starts, steps = jax.vmap(chain_keys, in_axes=(None, 0))(key, numbers)
    else:
        starts, steps = jnp.moveaxis(jax.vmap(jax.random.split)(key), 1, 0)

    def one(arrays: Any, key: PRNGKey, position: Position, number: Array) -> Chain:
        own = eqx.combine(arrays, rest)
        return start_chain(key, own, potential.for_chain(number), position, shape)

    start = jax.vmap(
        one,
        in_axes=(0 if shape.sampler_per_chain else None, 0, 0, 0),
        out_axes=_axes(potential),
        spmd_axis_name=shape.chain_axis,
    )
    chains = start(arrays, starts, positions, numbers)
    chains = _spread(_axes(potential), chains, shape.chain_axis)
    return Chains(chains, constrained(steps, shape.chain_axis))


@async_jit
def _advance(
    sampler: Sampler,
    potential: Potential,
    chains: Chains,
    feed: Any,
    limits: Limits,
    shape: Shape,
) -> tuple[Chains, Chunk]:
    axes, per_chain = _axes(potential), shape.feed_per_chain
    arrays, rest = eqx.partition(sampler, eqx.is_array)
    common, whole = eqx.partition((potential, limits.after), eqx.is_array)
    numbers = jnp.arange(chains.keys.shape[0])
    placed = _placement(sampler, potential, chains.each, feed, per_chain)

    def one(
        common: Any, arrays: Any, number: Array, key: Array, chain: Chain, batches: Any, count: Any
    ) -> Any:
        potential, after = eqx.combine(common, whole)
        own, sampler = potential.for_chain(number), eqx.combine(arrays, rest)
        return run_interval(sampler, own, key, chain, batches, after, shape, placed.heavy, count)

    jumps = isinstance(sampler, Langevin) and sampler.jumps is not None
    every = over_chains(
        one,
        in_axes=(
            None,
            0 if shape.sampler_per_chain else None,
            0,
            0,
            axes,
            0 if per_chain else None,
            None,
        ),
        out_axes=(axes, 0, 0),
        spmd=shape.chain_axis,
        in_turn=placed.in_turn,
    )

    def interval(i: Array, each: Chain) -> tuple[Chain, Row, Kept]:
        batches = jax.tree.map(lambda x: x[:, i] if per_chain else x[i], feed)
        # All chains have made the same number of steps.
        count = each.state.step[0] // shape.every + 1 if jumps else None
        return every(common, arrays, numbers, chains.keys, each, batches, count)

    each, chunk = _intervals(interval, chains.each, limits.intervals, shape.rows)
    # Statistics are small, and every process reads them.
    rows, health = constrained((chunk.rows, chunk.health), None)
    chunk = Chunk(rows, constrained(chunk.kept, shape.chain_axis), health)
    return chains._replace(each=_spread(axes, each, shape.chain_axis)), chunk


def _intervals(
    interval: Any, chains: Chain, count: Int[Array, ""], room: int
) -> tuple[Chain, Chunk]:
    """Run ``count`` intervals of all chains; ``interval(i, chains)`` runs one of them."""
    zero = jnp.zeros((), int)
    # As one function it is traced once, for its shapes and for the loop.
    interval = jax.jit(interval, inline=True)
    _, row, draw = jax.eval_shape(interval, zero, chains)
    # The leading axis is that of intervals, so that a row is written at one place for all chains.
    rows = jax.tree.map(lambda s: jnp.zeros((room, *s.shape), s.dtype), row)
    kept = jax.tree.map(lambda s: jnp.zeros((s.shape[0], room, *s.shape[1:]), s.dtype), draw)

    def body(i: Array, carry: tuple[Chain, Row, Kept, Array]) -> tuple[Chain, Row, Kept, Array]:
        chains, rows, kept, used = carry
        chains, row, draw = interval(i, chains)
        rows = jax.tree.map(lambda f, r: jax.lax.dynamic_update_index_in_dim(f, r, i, 0), rows, row)
        # Draws that are not kept go past the end, where writes are dropped.
        at = jnp.where(row.keep, used, room)
        put = jax.vmap(lambda f, d, k: f.at[k].set(d, mode="drop"))
        kept = jax.tree.map(lambda f, d: put(f, d, at), kept, draw)
        return chains, rows, kept, used + row.keep.astype(used.dtype)

    start = (chains, rows, kept, jnp.zeros_like(row.step, dtype=int))
    chains, rows, kept, _ = jax.lax.fori_loop(0, count, body, start)
    return chains, Chunk(jax.tree.map(lambda f: f.swapaxes(0, 1), rows), kept, chains.health)


def _placement(
    sampler: Sampler, potential: Potential, chains: Chain, feed: Any, fed_per_chain: bool
) -> Placement:
    """How a device runs its chains, from the cost of a step of one chain."""
    numbers = dimension(chains.state.position) // chains.health.step.shape[0]
    if jax.default_backend() != "cpu" or numbers < MIN_LARGE_PARAMETERS:
        return Placement(in_turn=False, heavy=False)

    def one(tree: PyTree, axes: int) -> Any:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[axes:], x.dtype), tree)

    data = jax.tree.map(
        lambda axis, part: one(part, 0 if axis is None else 1),
        potential.batches.axes,
        chains.data,
        is_leaf=lambda x: x is None,
    )
    if feed is not None:
        # A feed has leading axes of intervals and steps.
        data = one(feed, 3 if fed_per_chain else 2)
    state = chains.state
    return placement(sampler, potential, data, one(state.position, 1), one(state.model, 1))


@partial(eqx.filter_jit, donate="none")
def _pack(chains: Chains, axes: Chains, name: str | None) -> UInt32[Array, "c w"]:
    bits = chains._replace(keys=jax.random.key_data(chains.keys))
    words = pack_words(bits, axes, chains.keys.shape[0])
    check = jnp.broadcast_to(fingerprint(words), (words.shape[0], 1))
    return constrained(jnp.concatenate([words, check], axis=1), name)


@partial(eqx.filter_jit, donate="none")
def _unpack(
    words: UInt32[Array, "c w"], like: Chains, axes: Chains, impl: str, name: str | None
) -> tuple[Chains, Array]:
    """The chains, and whether the checksum is right; ``like`` has shapes, with key data as keys."""
    bits = unpack_words(words[:, :-1], like, axes)
    chains = _spread(axes, bits, name)
    keys = jax.random.wrap_key_data(chains.keys, impl=impl)
    sound = fingerprint(words[:, :-1]) == words[0, -1]
    return chains._replace(keys=keys), sound


def packed_shape(chains: Chains, axes: Chains) -> jax.ShapeDtypeStruct:
    """The shape of packed chains, from their shapes and how they are mapped."""
    return eqx.filter_eval_shape(_pack, chains, axes, None)


def unpacked(
    words: UInt32[Array, "c w"],
    like: Chains,
    axes: Chains,
    mesh: Mesh | None = None,
    name: str | None = None,
) -> Chains:
    """The chains of packed words, in the shapes of ``like``; a ValueError if damaged."""
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), like.each)
    data, impl = _key_data_shape(like.keys)
    with ambient(mesh):
        chains, sound = _unpack(words, Chains(shapes, data), axes, impl, name)
    if not bool(sound):
        raise ValueError("the words of the chains are damaged: their checksum differs")
    return chains


def _key_data_shape(keys: Any) -> tuple[Any, str]:
    """The shape of the data of keys (or of a shape of keys), and the name of their generator."""
    found: list[str] = []

    def data(keys: Array) -> Array:
        found.append(str(jax.random.key_impl(keys)))
        return jax.random.key_data(keys)

    return jax.eval_shape(data, keys), found[0]


def one_sampler(sampler: Sampler | Sequence[Sampler], num_chains: int) -> tuple[Sampler, bool, int]:
    """One sampler for all chains, whether it has a leading chain axis, and the number of chains."""
    checks.whole("num_chains", num_chains, 1)
    if not isinstance(sampler, (list, tuple)):
        checks.instance("sampler", sampler, Sampler, "one of the package's samplers")
        assert isinstance(sampler, Sampler)
        return _traced(sampler), False, num_chains
    if not sampler:
        raise ValueError("sampler is an empty list; expected one sampler per chain")
    for number, one in enumerate(sampler):
        checks.instance(f"sampler[{number}]", one, Sampler, "one of the package's samplers")
    if num_chains not in (1, len(sampler)):
        raise ValueError(
            f"num_chains is {num_chains}, but there are {len(sampler)} samplers: give one per chain"
        )
    return _stacked(list(sampler)), True, len(sampler)


def _traced(sampler: Sampler) -> Sampler:
    """Numbers as (weakly typed) arrays, so that other numbers reuse the compiled program."""

    def leaf(value: Any) -> Any:
        if isinstance(value, (float, int, np.number)) and not isinstance(value, bool):
            return jnp.asarray(value)
        return value

    return jax.tree.map(leaf, sampler)


def _stacked(samplers: list[Sampler]) -> Sampler:
    """Samplers that differ only in their numbers, as one with a leading chain axis."""
    first, *others = (_traced(s) for s in samplers)
    arrays, rest = eqx.partition(first, eqx.is_array)
    stack = [arrays]
    for number, other in enumerate(others, start=1):
        theirs, their_rest = eqx.partition(other, eqx.is_array)
        if jax.tree.structure(other) != jax.tree.structure(first) or not eqx.tree_equal(
            rest, their_rest
        ):
            raise ValueError(
                f"sampler[{number}] differs from sampler[0] in more than its numbers: chains of one"
                " program must share parts, schedules and the like"
            )
        stack.append(theirs)

    def joined(*leaves: Array) -> Array:
        shapes = {leaf.shape for leaf in leaves}
        if len(shapes) > 1:
            raise ValueError(f"samplers of one program differ in an array's shape: {shapes}")
        return jnp.stack(leaves)

    return eqx.combine(jax.tree.map(joined, *stack), rest)


def unstacked(sampler: Sampler, num_chains: int, per_chain: bool) -> list[Sampler]:
    """The sampler of each chain."""
    if not per_chain:
        return [sampler] * num_chains
    return [
        jax.tree.map(lambda x, c=chain: x[c] if eqx.is_array(x) else x, sampler)
        for chain in range(num_chains)
    ]
