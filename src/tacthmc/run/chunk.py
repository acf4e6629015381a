"""The compiled part of a run: many intervals of ``keep_every`` steps of one chain."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from tacthmc._typing import Position, PRNGKey, Scalar
from tacthmc.keys import start_keys, step_keys
from tacthmc.positions import dimension
from tacthmc.potential import Potential
from tacthmc.samplers.base import Sampler
from tacthmc.state import Info

# Random numbers are drawn for a block of steps at a time: in low dimension that costs far
# less than one call a step. The numbers are the same as one call a step would give.
BLOCK_NUMBERS = 1 << 15


class Health(NamedTuple):
    """The first step after which something was not finite (0: none yet), and what it was."""

    step: Int[Array, ""]
    what: Int[Array, ""]


class Row(NamedTuple):
    """Statistics of an interval and its last step."""

    step: Int[Array, ""]
    keep: Bool[Array, ""]
    finite: Bool[Array, ""]
    energy: Scalar
    plateau_share: Scalar
    kinetic_temperature: Scalar | None
    thermostat: Scalar | None
    xi: Scalar | None
    temperature: Scalar | None
    xi_kinetic_temperature: Scalar | None
    xi_thermostat: Scalar | None
    round_trips: Int[Array, ""] | None


class Kept(NamedTuple):
    """A draw: the position, the model's state with it, and U(θ) where weights need it."""

    position: Position
    model: Any
    full_energy: Any


class Filled(NamedTuple):
    """What a chunk leaves: a row for every interval, and the draws, packed without gaps."""

    rows: PyTree
    kept: PyTree
    health: Any


class Limits(NamedTuple):
    """How many intervals to run, and the last step of warm-up (traced, so free to change)."""

    intervals: Int[Array, ""]
    num_warmup: Int[Array, ""]


class Shape(NamedTuple):
    """What a chunk's program is made for."""

    rows: int
    """Intervals it has room for."""
    keep_all: bool = False
    """Whether draws of all temperatures are kept, with their full-data energy."""


class Chain(NamedTuple):
    """All that a chain carries: its state, its place in the data, and what is watched."""

    state: Any
    data: Any
    out_hot: Any
    health: Any


class _Tally(NamedTuple):
    """Sums over the steps of one interval."""

    plateau: Scalar
    kinetic: Scalar | None
    xi_kinetic: Scalar | None
    trips: Int[Array, ""] | None


# The order is that in which a cause shows: a bad energy spoils all else in the same step.
QUANTITIES = ("energy", "theta", "thermostat", "xi", "xi_thermostat")


def start_chain(key: PRNGKey, sampler: Sampler, potential: Potential, position: Position) -> Chain:
    """A chain that has made no step."""
    state_key, data_key = start_keys(key)
    zero = jnp.zeros((), int)
    return Chain(
        sampler.init(state_key, position, potential.init_model()),
        potential.init_data(data_key),
        jnp.zeros((), bool),
        Health(zero, zero),
    )


def chain_axes(potential: Potential) -> Chain:
    """How chains are mapped over a :class:`Chain`."""
    return Chain(0, potential.data_axes, 0, 0)


def block_steps(keep_every: int, size: int) -> int:
    """The largest divisor of ``keep_every`` whose block of random numbers is small enough."""
    most = max(1, min(keep_every, BLOCK_NUMBERS // max(size, 1)))
    return next(steps for steps in range(most, 0, -1) if keep_every % steps == 0)


def run_intervals(
    sampler: Sampler,
    potential: Potential,
    key: PRNGKey,
    chain: Chain,
    feed: Any,
    limits: Limits,
    shape: Shape,
) -> tuple[Chain, Filled]:
    """Run ``limits.intervals`` intervals (at most ``shape.rows``) of one chain.

    ``feed`` has the batches of a streamed posterior, with leading (row, step), or is None.
    Of the result only the first rows count, and of the draws as many as rows say ``keep``.
    """
    example = None if feed is None else jax.tree.map(lambda x: x[0, 0], feed)
    info = _info_shape(sampler, potential, chain, example)
    rows, kept = jax.tree.map(
        lambda s: jnp.zeros((shape.rows, *s.shape), s.dtype),
        (_row_shape(info), jax.eval_shape(lambda c: _kept(potential, c, shape), chain)),
    )

    def body(i: Array, carry: tuple[Chain, Row, Kept, Array]) -> tuple[Chain, Row, Kept, Array]:
        chain, rows, kept, used = carry
        fed = None if feed is None else jax.tree.map(lambda x: x[i], feed)
        chain, row = _interval(sampler, potential, key, chain, fed, info)
        keep = (row.keep | shape.keep_all) & row.finite & (row.step > limits.num_warmup)
        rows = jax.tree.map(lambda f, r: f.at[i].set(r), rows, row._replace(keep=keep))
        # A place past the end is none: what is not kept is not written.
        place = jnp.where(keep, used, shape.rows)
        draw = _kept(potential, chain, shape)
        kept = jax.tree.map(lambda f, d: f.at[place].set(d, mode="drop"), kept, draw)
        return chain, rows, kept, used + keep.astype(used.dtype)

    start = (chain, rows, kept, jnp.zeros((), int))
    chain, rows, kept, _ = jax.lax.fori_loop(0, limits.intervals, body, start)
    return chain, Filled(rows, kept, chain.health)


def _kept(potential: Potential, chain: Chain, shape: Shape) -> Kept:
    state = chain.state
    energy = potential.energy(state.position) if shape.keep_all else None
    return Kept(state.position, state.model, energy)


def _interval(
    sampler: Sampler, potential: Potential, key: PRNGKey, chain: Chain, fed: Any, like: Info
) -> tuple[Chain, Row]:
    position = chain.state.position
    block = block_steps(sampler.keep_every, dimension(position))
    blocks = sampler.keep_every // block

    def draw(data: Any, step: Array) -> tuple[Any, Any]:
        noise_key, data_key = step_keys(key, step)
        data, selection = potential.select(data, data_key, position)
        return data, (sampler.noise(noise_key, position), selection)

    def drawn_step(carry: tuple[Chain, _Tally, Info], fed: Any) -> tuple[Any, None]:
        """A block of one step: without the inner loop, whose carry would be copied."""
        chain, tally, info = carry
        data = chain.data if fed is None else fed
        data, drawn = draw(data, chain.state.step)
        if fed is None:
            chain = chain._replace(data=data)
        return one_step((chain, tally, info), drawn)

    def one_block(carry: tuple[Chain, _Tally, Info], fed: Any) -> tuple[Any, None]:
        chain, tally, info = carry
        steps = chain.state.step + jnp.arange(block)
        if fed is not None:
            drawn = jax.vmap(lambda batch, k: draw(batch, k)[1])(fed, steps)
        elif jax.tree.leaves(chain.data):
            data, drawn = jax.lax.scan(draw, chain.data, steps)
            chain = chain._replace(data=data)
        else:
            drawn = jax.vmap(lambda k: draw(chain.data, k)[1])(steps)
        carry, _ = jax.lax.scan(one_step, (chain, tally, info), drawn, length=block)
        return carry, None

    def one_step(carry: tuple[Chain, _Tally, Info], drawn: Any) -> tuple[Any, None]:
        chain, tally, _ = carry
        noise, selection = drawn
        state, info = sampler.advance(noise, chain.state, potential, potential.fetch(selection))
        health = _examined(chain.health, info, state)
        trips, out_hot = _round_trips(tally.trips, chain.out_hot, info)
        tally = _Tally(
            tally.plateau + info.at_unit_temperature.astype(tally.plateau.dtype),
            _plus(tally.kinetic, info.kinetic_temperature),
            _plus(tally.xi_kinetic, info.xi_kinetic_temperature),
            trips,
        )
        return (Chain(state, chain.data, out_hot, health), tally, info), None

    info = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), like)
    tally = _Tally(
        jnp.zeros_like(info.energy),
        _zero(info.kinetic_temperature),
        _zero(info.xi_kinetic_temperature),
        None if info.hot is None else jnp.zeros((), int),
    )
    body = drawn_step if block == 1 else one_block
    if fed is not None and block > 1:
        fed = jax.tree.map(lambda x: x.reshape(blocks, block, *x.shape[1:]), fed)
    (chain, tally, info), _ = jax.lax.scan(body, (chain, tally, info), fed, length=blocks)
    row = Row(
        step=chain.state.step,
        keep=info.keep,
        finite=chain.health.step == 0,
        energy=info.energy,
        plateau_share=tally.plateau / sampler.keep_every,
        kinetic_temperature=_mean(tally.kinetic, sampler.keep_every),
        thermostat=info.thermostat,
        xi=info.xi,
        temperature=info.temperature,
        xi_kinetic_temperature=_mean(tally.xi_kinetic, sampler.keep_every),
        xi_thermostat=info.xi_thermostat,
        round_trips=tally.trips,
    )
    return chain, row


def _info_shape(sampler: Sampler, potential: Potential, chain: Chain, example: Any) -> Info:
    def step(key: PRNGKey) -> Info:
        data = chain.data if example is None else example
        _, selection = potential.select(data, key, chain.state.position)
        return sampler.step(key, chain.state, potential, potential.fetch(selection))[1]

    return jax.eval_shape(step, jax.random.key(0))


def _row_shape(info: Info) -> Row:
    """What a row looks like, from what a step reports."""
    integer = jax.eval_shape(lambda: jnp.zeros((), int))
    return Row(
        step=integer,
        keep=info.keep,
        finite=info.keep,
        energy=info.energy,
        plateau_share=info.energy,
        kinetic_temperature=info.kinetic_temperature,
        thermostat=info.thermostat,
        xi=info.xi,
        temperature=info.temperature,
        xi_kinetic_temperature=info.xi_kinetic_temperature,
        xi_thermostat=info.xi_thermostat,
        round_trips=None if info.hot is None else integer,
    )


def _examined(health: Health, info: Info, state: Any) -> Health:
    moved = info.kinetic_temperature
    if moved is None:
        # Without momenta, whose sum of squares is at hand, θ itself has to be summed up.
        leaves = jax.tree.leaves(state.position)
        moved = sum((jnp.sum(x).astype(info.energy.dtype) for x in leaves), 0 * info.energy)
    watched = (
        info.energy,
        moved,
        info.thermostat,
        info.xi,
        info.xi_thermostat,
    )
    what = jnp.zeros((), int)
    for bit, value in enumerate(watched):
        if value is not None:
            what = what + jnp.where(jnp.isfinite(value), 0, 1 << bit)
    first = (health.step == 0) & (what > 0)
    return Health(jnp.where(first, state.step, health.step), jnp.where(first, what, health.what))


def _round_trips(trips: Array | None, out_hot: Array, info: Info) -> tuple[Array | None, Array]:
    """Count journeys plateau → next to a wall → plateau."""
    if trips is None or info.hot is None:
        return trips, out_hot
    home = out_hot & info.at_unit_temperature
    return trips + home.astype(trips.dtype), (out_hot | info.hot) & ~home


def _zero(value: Scalar | None) -> Scalar | None:
    return None if value is None else jnp.zeros_like(value)


def _plus(total: Scalar | None, value: Scalar | None) -> Scalar | None:
    return None if total is None or value is None else total + value


def _mean(total: Scalar | None, count: int) -> Scalar | None:
    return None if total is None else total / count
