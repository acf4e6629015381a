"""The compiled part of a run: many intervals of ``keep_every`` steps of one chain."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from tacthmc._positions import dimension
from tacthmc._typing import Position, PRNGKey, Scalar
from tacthmc.compiler._keys import start_keys, step_keys
from tacthmc.dynamics._sampler import Sampler
from tacthmc.dynamics._state import Info
from tacthmc.potentials._base import Potential
from tacthmc.run._interval_stats import Health, Watch, watch, watched

# Random numbers are drawn for a block of steps at a time: in low dimension that costs far
# less than one call a step. The numbers are the same as one call a step would give.
BLOCK_NUMBERS = 1 << 15
BLOCK_STEPS = 50


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
    felt_energy: Scalar | None


class Kept(NamedTuple):
    """A draw: the position, the model's state with it, and U(θ) where weights need it."""

    position: Position
    model: Any
    full_energy: Any
    tempered_energy: Any = None
    """U1(θ), where λ multiplies a part of U only."""

    @property
    def energies(self) -> dict[str, Any]:
        """Those that there are."""
        both = {"full_energy": self.full_energy, "tempered_energy": self.tempered_energy}
        return {name: value for name, value in both.items() if value is not None}


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
    """How many steps' random numbers are drawn at once; best a divisor of ``keep_every``."""
    most = max(1, min(keep_every, BLOCK_STEPS, BLOCK_NUMBERS // max(size, 1)))
    fitting = next(steps for steps in range(most, 0, -1) if keep_every % steps == 0)
    # Where no large number divides it, whole blocks and a shorter one after them.
    return fitting if 2 * fitting >= most else most


def run_intervals(
    interval: Callable[[Array, Chain], tuple[Chain, Row, Kept]],
    chains: Chain,
    limits: Limits,
    shape: Shape,
) -> tuple[Chain, Filled]:
    """Run ``limits.intervals`` intervals (at most ``shape.rows``) of all chains.

    ``interval`` runs the one of a given number, and its results have a leading axis of chains.
    Of the result only the first rows count, and of the draws as many as rows say ``keep``.
    """
    zero = jnp.zeros((), int)
    _, row, draw = jax.eval_shape(interval, zero, chains)
    # Rows are written for all chains at once, so that their place is one number.
    rows = jax.tree.map(lambda s: jnp.zeros((shape.rows, *s.shape), s.dtype), row)
    kept = jax.tree.map(lambda s: jnp.zeros((s.shape[0], shape.rows, *s.shape[1:]), s.dtype), draw)

    def body(i: Array, carry: tuple[Chain, Row, Kept, Array]) -> tuple[Chain, Row, Kept, Array]:
        chains, rows, kept, used = carry
        chains, row, draw = interval(i, chains)
        rows = jax.tree.map(lambda f, r: jax.lax.dynamic_update_index_in_dim(f, r, i, 0), rows, row)
        # A place past the end is none: what is not kept is not written.
        place = jnp.where(row.keep, used, shape.rows)
        put = jax.vmap(lambda f, d, k: f.at[k].set(d, mode="drop"))
        kept = jax.tree.map(lambda f, d: put(f, d, place), kept, draw)
        return chains, rows, kept, used + row.keep.astype(used.dtype)

    start = (chains, rows, kept, jnp.zeros_like(row.step, dtype=int))
    chains, rows, kept, _ = jax.lax.fori_loop(0, limits.intervals, body, start)
    return chains, Filled(jax.tree.map(lambda f: f.swapaxes(0, 1), rows), kept, chains.health)


def run_interval(
    sampler: Sampler,
    potential: Potential,
    key: PRNGKey,
    chain: Chain,
    fed: Any,
    limits: Limits,
    shape: Shape,
    heavy: bool = False,
) -> tuple[Chain, Row, Kept]:
    """One interval of one chain: a row, and a draw that counts if the row says ``keep``.

    ``fed`` has the batches of a streamed posterior, with leading steps, or is None; ``heavy`` says
    that a step's gradient takes far longer than the rest of it.
    """
    chain, row = _interval(sampler, potential, key, chain, fed, heavy)
    keep = (row.keep | shape.keep_all) & row.finite & (row.step > limits.num_warmup)
    return chain, row._replace(keep=keep), _kept(sampler, potential, chain, shape)


def _kept(sampler: Sampler, potential: Potential, chain: Chain, shape: Shape) -> Kept:
    state, model = chain.state, potential.kept_model(chain.state.model)
    if not shape.keep_all:
        # Only what is at unit temperature counts, where θ does not breathe.
        return Kept(sampler.unit_position(state), model, None)
    theta = sampler.drawn(state)
    if not potential.is_split:
        return Kept(theta, model, potential.energy(theta))
    fixed, tempered = potential.energy_parts(theta)
    return Kept(theta, model, fixed + tempered, tempered)


def _interval(
    sampler: Sampler, potential: Potential, key: PRNGKey, chain: Chain, fed: Any, heavy: bool
) -> tuple[Chain, Row]:
    block = block_steps(sampler.keep_every, dimension(chain.state.position))
    blocks, rest = divmod(sampler.keep_every, block)

    def part(start: int, *shape: int) -> Any:
        end = start + math.prod(shape)
        return jax.tree.map(lambda x: x[start:end].reshape(*shape, *x.shape[1:]), fed)

    def one_block(carry: _Carry, fed: Any, steps: int = block) -> tuple[_Carry, None]:
        return _steps(sampler, potential, key, carry, fed, steps, led), None

    example = jax.tree.map(lambda x: x[0], fed)
    info = _info_shape(sampler, potential, chain, example)
    # On a CPU a large position is written once a step, where the sampler can do so. (A GPU fuses
    # what it writes: on an H200 three networks took between 4% less and 6% more.)
    large = block == 1 and jax.default_backend() == "cpu"
    led = large and sampler.can_lead
    # Of others two steps at a time: momenta that are read after the new ones are written would be
    # copied at every turn of the loop, and so are exchanged with them instead. (Where the gradient
    # is most of a step, it would only take longer to compile.)
    pair = 2 if large and not led and not heavy else 1
    state = sampler.led(chain.state) if led else chain.state
    carry = _Carry(state, chain.data, watch(info, chain.out_hot, chain.health))
    carry, _ = jax.lax.scan(one_block, carry, part(0, blocks, block), length=blocks, unroll=pair)
    if rest:
        carry, _ = one_block(carry, part(blocks * block, rest), rest)
    (tally, last, out_hot, health), steps = carry.watch, sampler.keep_every
    row = Row(
        step=carry.state.step,
        keep=last.keep,
        finite=health.step == 0,
        energy=last.energy,
        plateau_share=tally.plateau / steps,
        kinetic_temperature=_mean(tally.kinetic, steps),
        thermostat=last.thermostat,
        xi=last.xi,
        temperature=last.temperature,
        xi_kinetic_temperature=_mean(tally.xi_kinetic, steps),
        xi_thermostat=last.xi_thermostat,
        round_trips=tally.trips,
        felt_energy=last.felt_energy,
    )
    return Chain(carry.state, carry.data, out_hot, health), row


class _Carry(NamedTuple):
    state: Any
    data: Any
    watch: Watch


def _steps(
    sampler: Sampler,
    potential: Potential,
    key: PRNGKey,
    carry: _Carry,
    fed: Any,
    count: int,
    led: bool,
) -> _Carry:
    """``count`` steps of a chain, on random numbers drawn for all of them at once."""
    position = carry.state.position
    advance = sampler.advance_led if led else sampler.advance

    def draw(data: Any, step: Array) -> tuple[Any, Any]:
        noise_key, data_key = step_keys(key, step)
        data, selection = potential.select(data, data_key, position)
        return data, (sampler.noise(noise_key, position), selection)

    def step(moving: tuple[Any, Watch], drawn: Any) -> tuple[tuple[Any, Watch], None]:
        state, seen = moving
        noise, selection = drawn
        state, info = advance(noise, state, potential, potential.fetch(selection))
        return (state, watched(seen, state, info)), None

    numbers, data = carry.state.step + jnp.arange(count), carry.data
    if count == 1:
        # Without an inner loop, whose carry would be copied.
        batch = data if fed is None else jax.tree.map(lambda x: x[0], fed)
        after, drawn = draw(batch, numbers[0])
        (state, seen), _ = step((carry.state, carry.watch), drawn)
        return _Carry(state, after if fed is None else data, seen)
    if fed is not None:
        drawn = jax.vmap(lambda batch, k: draw(batch, k)[1])(fed, numbers)
    elif jax.tree.leaves(data):
        data, drawn = jax.lax.scan(draw, data, numbers)
    else:
        drawn = jax.vmap(lambda k: draw(data, k)[1])(numbers)
    (state, seen), _ = jax.lax.scan(step, (carry.state, carry.watch), drawn, length=count)
    return _Carry(state, data, seen)


def _info_shape(sampler: Sampler, potential: Potential, chain: Chain, example: Any) -> Info:
    def step(key: PRNGKey) -> Info:
        data = chain.data if example is None else example
        _, selection = potential.select(data, key, chain.state.position)
        return sampler.step(key, chain.state, potential, potential.fetch(selection))[1]

    return jax.eval_shape(step, jax.random.key(0))


def _mean(total: Scalar | None, count: int) -> Scalar | None:
    return None if total is None else total / count
