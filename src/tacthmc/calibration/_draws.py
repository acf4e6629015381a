"""The draws of every simulation: all chains in one program, or one run after the other."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc._positions import dimension, scalar_names
from tacthmc._typing import Position, PRNGKey
from tacthmc.calibration._each_data import EachData
from tacthmc.calibration._simulations import NOT_TRACEABLE, Simulations
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential, StreamedPosterior
from tacthmc.potentials._base import innermost
from tacthmc.run._failure import DivergedWarning
from tacthmc.run._keep import Keep
from tacthmc.run._program import Program
from tacthmc.run._result import Run
from tacthmc.run._sample import drive, run_chains
from tacthmc.run._start import PerChain, check_start
from tacthmc.samplers import Untuned, UntunedReplicas
from tacthmc.tuning._first import tuned_first

MAX_QUANTITIES = 200
"""Scalars of a position that are ranked without being asked for."""
NO_DRAWS = "no simulation has a draw: take more steps, or keep them more often (keep=Keep(every=…))"
DRAWS_AT_ONCE = 64
"""Draws of a simulation whose energies are computed together."""
RUNS_BETWEEN_CLEARING = 8
"""The number of runs, one after the other, between which compiled programs are forgotten."""

AnySampler = Sampler | Untuned | UntunedReplicas


class Values(NamedTuple):
    """Every quantity of the truths and of the draws, of the chains that stayed finite."""

    names: tuple[str, ...]
    truth: np.ndarray
    """(simulation, quantity)"""
    draws: list[np.ndarray]
    """(draw, quantity) of each simulation."""
    diverged: int
    with_energy: bool
    """Whether the last quantity is the energy."""


class Quantities(NamedTuple):
    """What is ranked: functions of the position and the data, and the energy where there is one."""

    function: Callable[[Any, Any], Any] | None

    def names(self, made: Simulations, with_energy: bool) -> tuple[str, ...]:
        """The names of the scalars."""
        one, data = (jax.tree.map(lambda x: x[0], tree) for tree in (made.truth, made.data))
        values = one if self.function is None else jax.eval_shape(self.function, one, data)
        count = dimension(values)
        if count > MAX_QUANTITIES:
            raise ValueError(
                f"there are {count} scalars to rank: choose at most {MAX_QUANTITIES}, or sums of"
                " them, with quantities="
            )
        if not count:
            raise ValueError("quantities must return at least one number")
        names = [name for _, _, name in scalar_names(values, count)]
        energy = "energy" if "energy" not in names else "energy of the data"
        return (*names, energy) if with_energy else tuple(names)

    def of(self, position: Position, data: Any, potential: Potential, with_energy: bool) -> Array:
        """All quantities of one position, as a vector."""
        values = position if self.function is None else self.function(position, data)
        parts = [jnp.ravel(jnp.asarray(x)).astype(float) for x in jax.tree.leaves(values)]
        if with_energy:
            parts.append(potential.energy(position).astype(float)[None])
        return jnp.concatenate(parts)


def together(
    key: PRNGKey,
    sampler: Sampler,
    made: Simulations,
    make_potential: Callable[[Any], Potential],
    quantities: Quantities,
    num_steps: int,
    keep: Keep,
    progress: bool | None,
) -> Values:
    """The draws of all simulations from one compiled program, with a chain for each."""
    count = len(jax.tree.leaves(made.start)[0])
    potential = EachData(make_potential, made.data, count)
    check_start(potential, made.start, key)
    program = Program(sampler, potential, keep, num_chains=count)
    chains = program.start(key, PerChain(made.start))
    with warnings.catch_warnings():
        # The calibration says it.
        warnings.simplefilter("ignore", DivergedWarning)
        run = drive(program, chains, num_steps, key=key, progress=progress, keep_going=True)
    failed = {failure.chain for failure in run.failures}
    sound = np.array([c for c in range(count) if c not in failed], int)
    return _values_together(run, sound, made, potential, quantities)


def _values_together(
    run: Run, sound: np.ndarray, made: Simulations, potential: EachData, quantities: Quantities
) -> Values:
    with_energy = potential.traits.has_energy
    names = quantities.names(made, with_energy)
    if not sound.size:
        return Values(names, np.zeros((0, len(names))), [], len(run.counts), with_energy)
    counts, draws = run.counts[sound], run.all_draws
    longest = int(counts.max())
    if not longest:
        raise ValueError(NO_DRAWS)

    def padded(*leaves: np.ndarray) -> np.ndarray:
        return np.stack([np.resize(x, (longest, *x.shape[1:])) for x in leaves])

    stacked = jax.tree.map(padded, *(draws[c] for c in sound))

    @eqx.filter_jit
    def values(
        potential: EachData, numbers: Array, positions: Position, truth: Position
    ) -> tuple[Array, Array]:
        def one(this: tuple[Array, Position, Position]) -> tuple[Array, Array]:
            number, draws, truth = this
            own, data = potential.for_chain(number), potential.data_of(number)

            def of(position: Position) -> Array:
                return quantities.of(position, data, own, with_energy)

            return of(truth), jax.lax.map(of, draws, batch_size=DRAWS_AT_ONCE)

        return jax.lax.map(one, (numbers, positions, truth))

    truth = jax.tree.map(lambda x: x[sound], made.truth)
    positions = jax.tree.map(jnp.asarray, stacked)
    of_truth, of_draws = values(potential, jnp.asarray(sound), positions, truth)
    of_draws = np.asarray(of_draws)
    each = [of_draws[i, :n] for i, n in enumerate(counts)]
    diverged = len(run.counts) - len(sound)
    return Values(names, np.asarray(of_truth), each, diverged, with_energy)


def one_by_one(
    key: PRNGKey,
    sampler: AnySampler,
    made: Simulations,
    make_potential: Callable[[Any], Potential],
    quantities: Quantities,
    num_steps: int,
    keep: Keep,
    progress: bool | None,
) -> Values:
    """The draws of one run of one chain after the other, each with its own warm-up."""
    count = len(jax.tree.leaves(made.start)[0])
    truths, draws, names, diverged, with_energy = [], [], (), 0, False
    for i in range(count):
        truth, data, start = (jax.tree.map(lambda x, i=i: x[i], tree) for tree in made)
        potential = make_potential(data)
        own = jax.random.fold_in(key, i)
        if i % RUNS_BETWEEN_CLEARING == RUNS_BETWEEN_CLEARING - 1:
            # Each potential has functions and programs of its own. A process can hold so many only.
            jax.clear_caches()
        run = _one(own, sampler, potential, start, num_steps, keep, progress)
        with_energy = potential.traits.has_energy
        names = names or quantities.names(made, with_energy)
        if run.failures:
            diverged += 1
            continue
        with_truth = jax.tree.map(
            lambda x, y: jnp.concatenate([x[None], jnp.asarray(y[0])]), truth, run.draws
        )
        found = np.asarray(_values_of_one(quantities, with_truth, data, potential))
        truths.append(found[0])
        draws.append(found[1:])
    return Values(names, np.reshape(truths, (-1, len(names))), draws, diverged, with_energy)


@eqx.filter_jit
def _values_of_one(
    quantities: Quantities, positions: Position, data: Any, potential: Potential
) -> Array:
    with_energy = potential.traits.has_energy

    def of(position: Position) -> Array:
        return quantities.of(position, data, potential, with_energy)

    return jax.lax.map(of, positions, batch_size=DRAWS_AT_ONCE)


def _one(
    key: PRNGKey,
    sampler: AnySampler,
    potential: Potential,
    start: Position,
    num_steps: int,
    keep: Keep,
    progress: bool | None,
) -> Run:
    starts = jax.tree.map(lambda x: x[None], start)
    if isinstance(sampler, (Untuned, UntunedReplicas)):
        check_start(potential, starts, key)
        sampler, starts = tuned_first(key, sampler, potential, starts, num_steps, progress)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)
        return run_chains(
            key, sampler, potential, PerChain(starts), num_steps, keep=keep, progress=progress
        )


def is_traceable(make_potential: Callable[[Any], Potential], made: Simulations) -> bool:
    """Whether JAX can trace ``make_potential``, and chains need no batches from the host."""
    data, position = (jax.tree.map(lambda x: x[0], tree) for tree in (made.data, made.start))

    def first(data: Any, position: Any) -> Any:
        potential = make_potential(data)
        return potential.value_and_grad(position, potential.batch(jax.random.key(0), position))

    potential = make_potential(data)
    if not isinstance(potential, Potential):
        raise TypeError(
            "make_potential must return a potential, made by tacthmc.potential or .posterior; it"
            f" returned {potential!r}"
        )
    if isinstance(innermost(potential), StreamedPosterior):
        return False
    try:
        jax.eval_shape(first, data, position)
    except NOT_TRACEABLE:
        return False
    return True
