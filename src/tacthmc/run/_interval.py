"""The compiled inner loop: one interval of one chain, with ``keep.every`` steps, a row and a draw.

The units of a run are step < block < interval < chunk. A block is a group of steps whose random
numbers are drawn together. A chunk is a call of the compiled program.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from tacthmc._positions import dimension, scalar_dtype
from tacthmc._typing import Position, PRNGKey, Scalar
from tacthmc.compiler._random import start_keys, step_keys
from tacthmc.dynamics import Info, Sampler
from tacthmc.potentials import Potential
from tacthmc.run._jumps import jump_if_due
from tacthmc.run._relaxation import Window, after_step, new_visit

# Random numbers are drawn for a block of steps at a time. In low dimension that costs far less than
# one call per step, and gives the same numbers.
MAX_BLOCK_NUMBERS = 1 << 15
MAX_BLOCK_STEPS = 50

QUANTITIES = ("energy", "theta", "thermostat", "xi", "xi_thermostat", "step")
"""The monitored quantities, causes before effects: a bad energy spoils the others in one step."""


class Shape(NamedTuple):
    """The static parameters of the program of a chunk."""

    rows: int
    """The largest number of intervals."""
    every: int
    """The number of steps in an interval."""
    keep_all: bool = False
    """Whether draws of all temperatures are kept, with their full-data energy."""
    relaxation_window: int | None = None
    """As :class:`tacthmc.Keep` has it."""
    sampler_per_chain: bool = False
    """Whether the sampler has a leading chain axis."""
    feed_per_chain: bool = False
    """Whether batches that are fed in have a leading chain axis."""
    chain_axis: str | None = None
    """The name of the mesh axis for chains."""


class Row(NamedTuple):
    """The statistics of an interval and its last step."""

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
    xi_energy: Scalar | None
    mode: Int[Array, ""] | None = None
    """The known mode that the position is in, of a sampler that jumps between modes."""
    jumped: Bool[Array, ""] | None = None
    """Whether a jump was accepted, perhaps to another place in the same mode."""


class Kept(NamedTuple):
    """A draw: the position, the model state, and the energies if weights need them."""

    position: Position
    model: Any
    full_energy: Any
    """U(θ)."""
    tempered_energy: Any = None
    """U1(θ), where λ multiplies only a part of U."""

    @property
    def energies(self) -> dict[str, Any]:
        """The energies that are not None, by name."""
        both = {"full_energy": self.full_energy, "tempered_energy": self.tempered_energy}
        return {name: value for name, value in both.items() if value is not None}


class Health(NamedTuple):
    """Whether a chain is still finite."""

    step: Int[Array, ""]
    """The first step after which a quantity was not finite, or 0."""
    what: Int[Array, ""]
    """A bit for each of ``QUANTITIES`` that was not finite."""


class Chain(NamedTuple):
    """Everything that a chain carries from step to step."""

    state: Any
    """The state of the sampler."""
    data: Any
    """The memory of the batches."""
    was_hot: Bool[Array, ""]
    """Whether ξ has been next to a wall since it was last at unit temperature."""
    health: Health
    relaxation: Window | None
    """The window of the relaxation test, if there is one."""


class Sums(NamedTuple):
    """Sums over the steps of one interval."""

    plateau: Scalar
    kinetic: Scalar | None
    xi_kinetic: Scalar | None
    trips: Int[Array, ""] | None


class _Carry(NamedTuple):
    """The carry of the loop over steps."""

    chain: Chain
    sums: Sums
    last: Info


def start_chain(
    key: PRNGKey, sampler: Sampler, potential: Potential, position: Position, shape: Shape
) -> Chain:
    """A chain that has made no step."""
    state_key, data_key = start_keys(key)
    zero, window = jnp.zeros((), int), shape.relaxation_window
    return Chain(
        sampler.init(state_key, position, potential.init_model()),
        potential.batches.init(data_key),
        jnp.zeros((), bool),
        Health(zero, zero),
        None if window is None else new_visit(scalar_dtype(position)),
    )


def run_interval(
    sampler: Sampler,
    potential: Potential,
    key: PRNGKey,
    chain: Chain,
    batches: Any,
    after: Int[Array, ""],
    shape: Shape,
    heavy: bool = False,
    number: Int[Array, ""] | None = None,
) -> tuple[Chain, Row, Kept]:
    """One interval of one chain: a row, and a draw that counts if the row says ``keep``.

    ``batches`` has the batches of a streamed posterior with a leading axis of steps, or is None.
    ``heavy`` says that the gradient dominates the cost of a step. ``number`` counts the intervals
    of the run, the same for all chains, where the sampler jumps between modes.
    """
    block = block_steps(shape.every, dimension(chain.state.position))
    blocks, rest = divmod(shape.every, block)

    def part(start: int, *sizes: int) -> Any:
        end = start + math.prod(sizes)
        return jax.tree.map(lambda x: x[start:end].reshape(*sizes, *x.shape[1:]), batches)

    def one_block(carry: _Carry, batches: Any, steps: int = block) -> tuple[_Carry, None]:
        return _steps(sampler, potential, key, carry, batches, steps, shape), None

    first = jax.tree.map(lambda x: x[0], batches)
    carry = _new_carry(chain, _info_shape(sampler, potential, chain, first))
    # For large positions the loop makes two steps per iteration. With one, the momenta are still
    # read after the new ones are written, and would be copied in each iteration. With two, old and
    # new momenta swap their memory. (If the gradient dominates, this would only add compile time.)
    pair = 2 if block == 1 and jax.default_backend() == "cpu" and not heavy else 1
    carry, _ = jax.lax.scan(one_block, carry, part(0, blocks, block), length=blocks, unroll=pair)
    if rest:
        carry, _ = one_block(carry, part(blocks * block, rest), rest)
    carry = carry._replace(chain=_with_counted_steps(carry.chain))
    if number is None:
        row = _row(carry, after, shape)
        return carry.chain, row, _kept(sampler, potential, carry.chain, shape)
    state, last, mode, jumped = jump_if_due(
        sampler, potential, key, (carry.chain.state, carry.last), number, shape.every
    )
    carry = carry._replace(chain=carry.chain._replace(state=state), last=last)
    row = _row(carry, after, shape)._replace(mode=mode, jumped=jumped)
    return carry.chain, row, _kept(sampler, potential, carry.chain, shape)


def _with_counted_steps(chain: Chain) -> Chain:
    """The chain, which has failed if its step count went over the largest integer.

    Runs refuse so many steps beforehand. This is for loops of one's own.
    """
    step, health = chain.state.step, chain.health
    first = (step < 0) & (health.step == 0)
    largest = jnp.full_like(step, jnp.iinfo(step.dtype).max)
    what = jnp.full_like(health.what, 1 << QUANTITIES.index("step"))
    health = Health(jnp.where(first, largest, health.step), jnp.where(first, what, health.what))
    return chain._replace(health=health)


def block_steps(every: int, size: int) -> int:
    """The number of steps in a block, preferably a divisor of ``every``."""
    most = max(1, min(every, MAX_BLOCK_STEPS, MAX_BLOCK_NUMBERS // max(size, 1)))
    fitting = next(steps for steps in range(most, 0, -1) if every % steps == 0)
    # If no large number divides ``every``, the last block is shorter.
    return fitting if 2 * fitting >= most else most


def _row(carry: _Carry, after: Int[Array, ""], shape: Shape) -> Row:
    chain, sums, last = carry
    step, finite = chain.state.step, chain.health.step == 0
    draw = last.at_unit_temperature if last.is_draw is None else last.is_draw
    # Without its temperature a draw cannot be weighed.
    keep = draw | (shape.keep_all and last.temperature is not None)
    if chain.relaxation is not None and not shape.keep_all:
        keep = keep & chain.relaxation.relaxed
    return Row(
        step=step,
        keep=keep & finite & (step > after),
        finite=finite,
        energy=last.energy,
        plateau_share=sums.plateau / shape.every,
        kinetic_temperature=_mean(sums.kinetic, shape.every),
        thermostat=last.thermostat,
        xi=last.xi,
        temperature=last.temperature,
        xi_kinetic_temperature=_mean(sums.xi_kinetic, shape.every),
        xi_thermostat=last.xi_thermostat,
        round_trips=sums.trips,
        xi_energy=last.xi_energy,
    )


def _kept(sampler: Sampler, potential: Potential, chain: Chain, shape: Shape) -> Kept:
    theta, model = sampler.position(chain.state), potential.kept_model(chain.state.model)
    if not shape.keep_all:
        return Kept(theta, model, None)
    if not potential.traits.is_split:
        return Kept(theta, model, potential.energy(theta))
    energy = potential.full(theta)
    return Kept(theta, model, energy.total, energy.tempered)


def _steps(
    sampler: Sampler,
    potential: Potential,
    key: PRNGKey,
    carry: _Carry,
    batches: Any,
    count: int,
    shape: Shape,
) -> _Carry:
    """``count`` steps of a chain, with random numbers drawn for all of them at once."""
    position, data = carry.chain.state.position, carry.chain.data
    numbers = carry.chain.state.step + jnp.arange(count)

    def draw(data: Any, step: Array) -> tuple[Any, Any]:
        noise_key, data_key = step_keys(key, step)
        data, selection = potential.batches.select(data, data_key, position)
        return data, (sampler.noise(noise_key, position), selection)

    def step(carry: _Carry, drawn: Any) -> tuple[_Carry, None]:
        noise, selection = drawn
        batch = potential.batches.fetch(selection)
        state, info = sampler.advance(noise, carry.chain.state, potential, batch)
        return _after_step(carry, state, info, shape.relaxation_window), None

    def with_data(carry: _Carry, data: Any) -> _Carry:
        return carry._replace(chain=carry.chain._replace(data=data))

    if count == 1:
        # No inner loop, because its carry would be copied.
        batch = data if batches is None else jax.tree.map(lambda x: x[0], batches)
        after, drawn = draw(batch, numbers[0])
        carry, _ = step(carry, drawn)
        return with_data(carry, after if batches is None else data)
    if batches is not None:
        drawn = jax.vmap(lambda batch, k: draw(batch, k)[1])(batches, numbers)
    elif jax.tree.leaves(data):
        data, drawn = jax.lax.scan(draw, data, numbers)
    else:
        drawn = jax.vmap(lambda k: draw(data, k)[1])(numbers)
    carry, _ = jax.lax.scan(step, carry, drawn, length=count)
    return with_data(carry, data)


def _info_shape(sampler: Sampler, potential: Potential, chain: Chain, example: Any) -> Info:
    def step(key: PRNGKey) -> Info:
        data = chain.data if example is None else example
        _, selection = potential.batches.select(data, key, chain.state.position)
        noise, batch = sampler.noise(key, chain.state.position), potential.batches.fetch(selection)
        return sampler.advance(noise, chain.state, potential, batch)[1]

    return jax.eval_shape(step, jax.random.key(0))


def _new_carry(chain: Chain, info: Info) -> _Carry:
    """The carry with empty sums; ``info`` has the shapes of the information on a step."""
    info = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), info)
    sums = Sums(
        jnp.zeros_like(info.energy),
        info.kinetic_temperature,
        info.xi_kinetic_temperature,
        None if info.hot is None else jnp.zeros((), int),
    )
    return _Carry(chain, sums, info)


def _after_step(carry: _Carry, state: Any, info: Info, window: int | None) -> _Carry:
    """The carry after one more step, which ended in ``state``."""
    chain, sums = carry.chain, carry.sums
    trips, was_hot, relaxation = sums.trips, chain.was_hot, chain.relaxation
    if trips is not None and info.hot is not None:
        # A round trip plateau → next to a wall → plateau ends.
        home = was_hot & info.at_unit_temperature
        trips, was_hot = trips + home.astype(trips.dtype), (was_hot | info.hot) & ~home
    if relaxation is not None and window is not None:
        relaxation = after_step(relaxation, info.energy, info.at_unit_temperature, window)
    sums = Sums(
        sums.plateau + info.at_unit_temperature.astype(sums.plateau.dtype),
        _plus(sums.kinetic, info.kinetic_temperature),
        _plus(sums.xi_kinetic, info.xi_kinetic_temperature),
        trips,
    )
    health = _checked_health(chain.health, state, info)
    return _Carry(Chain(state, chain.data, was_hot, health, relaxation), sums, info)


def _checked_health(health: Health, state: Any, info: Info) -> Health:
    theta = info.kinetic_temperature
    if theta is None:
        # Without the kinetic temperature, which contains all momenta, θ itself is summed.
        leaves = jax.tree.leaves(state.position)
        theta = sum((jnp.sum(x).astype(info.energy.dtype) for x in leaves), 0 * info.energy)
    values = (info.energy, theta, info.thermostat, info.xi, info.xi_thermostat)
    what = jnp.zeros((), int)
    for bit, value in enumerate(values):
        if value is not None:
            what = what + jnp.where(jnp.isfinite(value), 0, 1 << bit)
    first = (health.step == 0) & (what > 0)
    return Health(jnp.where(first, state.step, health.step), jnp.where(first, what, health.what))


def _plus(total: Scalar | None, value: Scalar | None) -> Scalar | None:
    return None if total is None or value is None else total + value


def _mean(total: Scalar | None, count: int) -> Scalar | None:
    return None if total is None else total / count
