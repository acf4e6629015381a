r"""Choosing the numbers of :func:`tacthmc.replica_exchange`: base, ladder, step sizes.

1. **Modes** are searched for (:mod:`tacthmc.tuning._mode_search`).
2. **The base** is the one of the potential, the prior, or a Gaussian that covers the modes
   (:mod:`tacthmc.tuning._replica_base`).
3. **Rounds** of all replicas follow, which get longer. After each of them, step sizes are changed
   toward the intended acceptance, and the ladder is made anew so that all pairs would reject alike
   (:mod:`tacthmc.samplers._replica_ladder`). Where draws are wider than the base, it is widened.
4. **The number of replicas** is about 2Λ + 1, with the barrier Λ that these rounds measured. Some
   last rounds have this number.

All that takes at most a fifth of the gradients of the run, if it is not a very short one
(:mod:`tacthmc.tuning._replica_budget`). A given ladder on which replicas would not travel is
refused (:mod:`tacthmc.tuning._replica_travel`).

With mini-batches, the step size, friction and thermostat of the target are those of
:func:`tacthmc.tact` (:mod:`tacthmc.tuning._noisy_replicas`), and the rounds choose the ladder.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacthmc._positions import dimension, flatten, scalar_dtype, unflatten
from tacthmc._typing import Position, PRNGKey
from tacthmc.diagnostics import autocorrelation
from tacthmc.potentials import Potential
from tacthmc.potentials._exact import has_exact_energies
from tacthmc.samplers._replica_ladder import Barrier, rungs_for
from tacthmc.samplers._replica_path import ReplicaPath
from tacthmc.samplers._untuned_replicas import UntunedReplicas
from tacthmc.tuning._choices import Tuning, TuningError
from tacthmc.tuning._descend import first_curvature
from tacthmc.tuning._finite_starts import finite_starts
from tacthmc.tuning._mode_search import Search, search_modes
from tacthmc.tuning._noisy_replicas import noisy_numbers
from tacthmc.tuning._notes import Notes
from tacthmc.tuning._plateau import Plateau
from tacthmc.tuning._replica_base import (
    Base,
    base_around,
    known_base,
    places_of,
    shapes_of,
    starts_in_modes,
)
from tacthmc.tuning._replica_budget import FEW_GRADIENTS, FIRST_RUNGS, WarmUp
from tacthmc.tuning._replica_moves import ExactMoves, LocalMoves
from tacthmc.tuning._replica_rounds import Round, Rounds
from tacthmc.tuning._replica_travel import check_given_ladder, is_frozen, modes_of_replicas
from tacthmc.tuning._unit_temperature import reasons

NUM_CHAINS, FEW_CHAINS, MAX_LOW_DIMENSION = 8, 2, 10_000
"""The number of chains in the rounds, that in high dimension, and where that begins."""
MAX_RUNGS = 80
"""The largest number of replicas."""
LAST_LAMBDA = 1e-3
"""The smallest λ besides 0 of the first ladder."""
FIRST_ROUNDS, LAST_ROUNDS = (16, 16, 32, 64, 64), (64, 128)
"""The number of tries of swaps in each round."""
MAX_REJECTION = 0.6
"""The mean rejection rate above which the number of replicas is doubled."""
MAX_PAIR_REJECTION = 0.9
"""The rejection rate of two neighbors above which the ladder is made anew by more rounds."""
MAX_GROWTHS, MAX_WIDENINGS = 4, 12
"""The largest number of times that the number of replicas is doubled or such rounds follow, and
that the base is widened after the first rounds. More rounds follow each of them."""
DRAWS_PER_INDEPENDENT = 10.0
"""The number of draws in a round that are worth an independent one."""
CURVATURE_GRADIENTS = 60
"""The gradients that the largest curvature at the start takes."""
MAX_SHOWN_RUNGS = 12
"""The largest number of inverse temperatures in a reason."""
MAX_SPACING = 100
"""The largest number of swaps between draws."""


class _Replicas:
    """The numbers of replicas while they are found."""

    def __init__(
        self,
        key: PRNGKey,
        untuned: UntunedReplicas,
        rounds: Rounds,
        base: Base,
        moves: LocalMoves,
        warm_up: WarmUp,
    ):
        self.warm_up, self.before = warm_up, 0
        """The limit of gradients, and how many were spent before the rounds."""
        self.length = 1.0
        """The length of rounds relative to that without a limit."""
        self.key, self.untuned, self.rounds = key, untuned, rounds
        self.base, self.moves = base, moves
        self.ladder = first_ladder(untuned, base, warm_up.first_rungs)

    def next_key(self) -> PRNGKey:
        """A key that has not been used."""
        self.key, now = jax.random.split(self.key)
        return now

    def sampler(self, tuning: Tuning | None = None) -> ReplicaPath:
        """The replicas with the numbers so far."""
        return ReplicaPath(
            self.ladder,
            self.moves.at(self.ladder),
            base=self.untuned.base if self.base.of_potential else self.base.gaussian,
            reference=self.base.gaussian,
            energy_noise=self.moves.energy_noise(len(self.ladder)),
            swap_every=self.moves.swap_every,
            tuning=tuning,
        )

    def begin(self, positions: Position) -> None:
        """Start chains of replicas at positions, by chain and rung."""
        self.rounds.start(self.next_key(), self.sampler(), positions)

    def positions(self) -> Position:
        """The positions of all replicas by chain and rung."""
        return self.rounds.positions(self.sampler())

    def limit(self, swaps: int, rungs: int, later: int = 0) -> None:
        """Make rounds of so many swaps with so many replicas, and later ones, short enough."""
        each = self.rounds.chains * self.moves.swap_every * self.moves.at(self.ladder).gradients
        planned = each * (swaps * rungs + later * FEW_GRADIENTS)
        self.length = self.warm_up.length(float(self.before + self.rounds.gradients), planned)

    def round(self, swaps: int) -> Round:
        """A round, after which step sizes and the ladder are better."""
        found = self.rounds.run(self.sampler(), int(np.ceil(self.length * swaps)))
        if not found.finite:
            raise TuningError(
                "replicas diverged in short runs: give step_size and inverse_temperatures"
            )
        self.moves.learn(found)
        if self.untuned.inverse_temperatures is None:
            self.climb(found.barrier, len(self.ladder))
        return found

    def climb(self, barrier: Barrier, rungs: int) -> None:
        """Use a ladder of so many rungs on which all pairs would reject alike."""
        old, self.ladder = self.ladder, barrier.equalized(rungs)
        self.moves.move_to(old, self.ladder)

    def resize(self, barrier: Barrier, rungs: int) -> None:
        """Go on with another number of replicas."""
        positions, before = self.positions(), len(self.ladder)
        source = np.rint(np.linspace(0, before - 1, rungs)).astype(int)
        self.climb(barrier, rungs)
        self.begin(jax.tree.map(lambda x: x[:, source], positions))

    def is_too_short(self, barrier: Barrier) -> bool:
        """Whether it takes more replicas to measure the barrier."""
        rungs = len(self.ladder)
        if self.untuned.inverse_temperatures is not None or rungs >= MAX_RUNGS:
            return False
        return barrier.total > MAX_REJECTION * (rungs - 1)

    def is_uneven(self, barrier: Barrier) -> bool:
        """Whether the ladder has yet to close a gap between two neighbors."""
        given = self.untuned.inverse_temperatures is not None
        return not given and bool(barrier.rejections.max() > MAX_PAIR_REJECTION)

    def widen(self, found: Round, search: Search, like: Position) -> bool:
        """Widen the base where draws of the target are wider; returns whether it was."""
        vectors = found.draws.reshape(-1, found.draws.shape[-1])
        wider = self.base.covering(vectors, len(vectors) / DRAWS_PER_INDEPENDENT)
        if wider is self.base:
            return False
        positions, self.base = self.positions(), wider
        self.moves.use_shapes(shapes_of(wider, search, like))
        # Energies relative to the base are other ones now.
        self.begin(positions)
        return True


class Before(NamedTuple):
    """What is known before replicas are tuned."""

    search: Search
    gradients: int = 0
    """The gradients that were spent, without those of the search."""
    advice: str = ""
    """What to do if the run mixes badly."""
    list_is_sound: bool = True
    """Whether the modes that were found describe the places of draws."""


def tune_replicas(
    key: PRNGKey,
    untuned: UntunedReplicas,
    potential: Potential,
    starts: Position,
    num_steps: int = 500,
    progress: bool | None = None,
    budget: float | None = None,
    before: Before | None = None,
) -> ReplicaPath:
    """Choose the numbers of replicas, from a stack of starting positions.

    ``budget`` is the number of steps of the run that follows, over all chains.
    """
    with Notes(untuned.given, progress is not False and jax.process_index() == 0) as notes:
        first, second = jax.random.split(key)
        warm_up = WarmUp(budget)
        own = before is None
        if before is None:
            notes.begin("searching for modes")
            notes.say("searching for modes")
            before = Before(search_modes(first, potential, starts, warm_up.search))
            notes.say(reasons(before.search))
        search = before.search
        plateau = Plateau(potential, starts, num_steps)
        replicas, spent = _begun(second, untuned, plateau, search, notes, warm_up)
        notes.begin("measuring the barrier")
        # A search that was made for another purpose leaves the rounds their gradients.
        replicas.before = spent = spent + (search.gradients if own else 0)
        found = _measured(replicas, search, plateau.like)
        if untuned.inverse_temperatures is not None:
            swaps = None if budget is None else budget / replicas.moves.swap_every
            check_given_ladder(found.barrier, swaps)
        doubt = _doubt(replicas, search, plateau.like)
        _choose(replicas, found, notes)
        spent += replicas.rounds.gradients + before.gradients + (0 if own else search.gradients)
        dtype = scalar_dtype(plateau.like)
        # A list that jumps do not connect may not be one of all places.
        modes = search.modes(dtype) if search.exhaustive and before.list_is_sound else None
        ends = jax.tree.map(lambda x: x[:, 0], replicas.positions())
        tuning = Tuning(tuple(notes.choices), spent, ends, modes, before.advice, doubt)
        notes.say(f"chosen by {spent:,} gradients")
    return replicas.sampler(tuning)


def _begun(
    key: PRNGKey,
    untuned: UntunedReplicas,
    plateau: Plateau,
    search: Search,
    notes: Notes,
    warm_up: WarmUp,
) -> tuple[_Replicas, int]:
    """Replicas with a base and first numbers, at their start, and the gradients that took."""
    potential, like, spent = plateau.potential, plateau.like, 0
    chains = FEW_CHAINS if dimension(like) > MAX_LOW_DIMENSION else NUM_CHAINS
    starts, (first, second) = plateau.positions, jax.random.split(key)
    base = known_base(potential, untuned.base, search, like)
    if has_exact_energies(potential):
        if base is None:
            vector = np.asarray(flatten(like, scalar_dtype(like)), float)
            base = base_around(vector, 1 / _curvature_near(first, potential, starts))
            base = base.covering_places(places_of(search))
            spent = CURVATURE_GRADIENTS
        shapes = shapes_of(base, search, like)
        rungs = len(first_ladder(untuned, base, warm_up.first_rungs))
        moves: LocalMoves = ExactMoves(shapes, rungs, untuned.num_leapfrog)
    else:
        noisy = noisy_numbers(first, plateau, search, base, notes)
        moves, base, spent, starts = noisy.moves, noisy.base, noisy.gradients, noisy.positions
    replicas = _Replicas(second, untuned, Rounds(potential, chains), base, moves, warm_up)
    replicas.begin(_first_positions(replicas, search, starts))
    return replicas, spent


def _curvature_near(key: PRNGKey, potential: Potential, starts: Position) -> float:
    """The largest curvature at a start or near it."""
    found = first_curvature(key, potential, starts)
    if not (np.isfinite(found) and found > 0):
        raise TuningError(
            f"no base can be found: the curvature at init is {found}, and no mode was found. Start"
            " elsewhere, or give base"
        )
    return found


def first_ladder(
    untuned: UntunedReplicas, base: Base, rungs: int = FIRST_RUNGS
) -> Float[np.ndarray, " k"]:
    """The given ladder, or a geometric one."""
    if (given := untuned.inverse_temperatures) is not None:
        if given[-1] == 0 and base.last > 0:
            raise ValueError(
                "inverse_temperatures must end at λ > 0, such as 1/9, because the part of the"
                f" energy that is not tempered cannot be normalized alone; got {given.tolist()}"
            )
        return given
    if base.last > 0:
        return np.geomspace(1.0, base.last, rungs)
    return np.append(np.geomspace(1.0, LAST_LAMBDA, rungs - 1), 0.0)


def _first_positions(replicas: _Replicas, search: Search, starts: Position) -> Position:
    """Positions of all replicas, in modes or where chains start."""
    chains, rungs = replicas.rounds.chains, len(replicas.ladder)
    like = jax.tree.map(lambda x: x[0], starts)
    if search.found:
        rng = np.random.default_rng(np.asarray(jax.random.key_data(replicas.next_key())).ravel())
        scales = replicas.moves.scales(replicas.ladder)
        vectors = starts_in_modes(rng, search.found, scales, chains)
        size, dtype = vectors.shape[2], scalar_dtype(like)
        one = jax.vmap(lambda x: unflatten(x, like))
        flat = one(jnp.asarray(vectors.reshape(-1, size), dtype))
        flat = finite_starts(replicas.rounds.potential, flat)
        return jax.tree.map(lambda x: x.reshape(*vectors.shape[:2], *x.shape[1:]), flat)
    some = jax.tree.map(lambda x: x[jnp.arange(chains) % x.shape[0]], starts)
    return jax.tree.map(lambda x: jnp.broadcast_to(x[:, None], (chains, rungs, *x.shape[1:])), some)


def _measured(replicas: _Replicas, search: Search, like: Position) -> Round:
    """All rounds; returns the last one."""
    barrier = _first_rounds(replicas, search, like)
    for _ in range(MAX_WIDENINGS):
        found = _last_rounds(replicas, barrier)
        # The longest rounds see most of the width of the target.
        if not replicas.widen(found, search, like):
            return found
        barrier = replicas.round(FIRST_ROUNDS[-1]).barrier
    return _last_rounds(replicas, barrier)


def _first_rounds(replicas: _Replicas, search: Search, like: Position) -> Barrier:
    """The barrier, with as many replicas as it takes to measure it."""
    rounds, growths, widenings = list(FIRST_ROUNDS), MAX_GROWTHS, MAX_WIDENINGS
    replicas.limit(sum(FIRST_ROUNDS), len(replicas.ladder), sum(LAST_ROUNDS))
    while True:
        found = replicas.round(rounds.pop(0))
        wider = replicas.widen(found, search, like)
        if rounds:
            continue
        if wider and widenings:
            widenings, rounds = widenings - 1, list(FIRST_ROUNDS[-1:])
        elif growths and replicas.is_too_short(found.barrier):
            growths, rounds = growths - 1, list(FIRST_ROUNDS[-2:])
            replicas.resize(found.barrier, min(2 * len(replicas.ladder), MAX_RUNGS))
        elif growths and replicas.is_uneven(found.barrier):
            growths, rounds = growths - 1, list(FIRST_ROUNDS[-2:])
        else:
            return found.barrier


def _last_rounds(replicas: _Replicas, barrier: Barrier) -> Round:
    """The last rounds, with the final number of replicas."""
    replicas.moves.lengthen()
    if replicas.untuned.inverse_temperatures is None:
        replicas.resize(barrier, rungs_for(barrier.total, MAX_RUNGS))
    replicas.warm_up.gradients_per_step = replicas.sampler().gradients_per_step
    replicas.limit(sum(LAST_ROUNDS), len(replicas.ladder))
    *before, last = LAST_ROUNDS
    for swaps in before:
        replicas.round(swaps)
    return replicas.round(last)


def _doubt(replicas: _Replicas, search: Search, like: Position) -> str:
    """That replicas do not get from mode to mode, if they do not on a ladder without a drawn base.

    On a given ladder that is an error.
    """
    sampler, given = replicas.sampler(), replicas.untuned.inverse_temperatures
    if len(search.found) < 2 or (sampler.ends_at_base and sampler.reference is not None):
        return ""
    modes = search.modes(scalar_dtype(like))
    before = modes_of_replicas(replicas.positions(), modes)
    replicas.round(LAST_ROUNDS[-1])
    if modes.count < 2 or not is_frozen(before, modes_of_replicas(replicas.positions(), modes)):
        return ""
    what = (
        f"no replica got from mode to mode on a ladder that ends at λ = {replicas.ladder[-1]:.3g}"
    )
    if given is not None:
        raise TuningError(
            f"inverse_temperatures must end where barriers are low: in short runs {what}. End it at"
            " a smaller λ, or leave out inverse_temperatures"
        )
    return f"in short runs {what}: weights of modes are those of the starts"


def _choose(replicas: _Replicas, found: Round, notes: Notes) -> None:
    """Note the choices of the last rounds."""
    barrier, rungs = found.barrier.total, len(replicas.ladder)
    few = len(replicas.ladder) <= MAX_SHOWN_RUNGS
    shown = ", ".join(f"{lam:.3g}" for lam in replicas.ladder[:MAX_SHOWN_RUNGS])
    shown += "" if few else ", …"
    notes.choose("base", replicas.base.gaussian, replicas.base.reason)
    notes.choose("barrier", barrier, "Λ, the sum of the rejection rates of neighbors")
    why = "about 2Λ + 1" if rungs < MAX_RUNGS else f"the most; 2Λ + 1 is {2 * barrier + 1:.0f}"
    notes.choose("replicas", rungs, why)
    low, high = found.barrier.rejections.min(), found.barrier.rejections.max()
    notes.choose(
        "inverse_temperatures",
        replicas.ladder,
        f"λ = {shown}; {low:.0%} to {high:.0%} of swaps were rejected",
    )
    for choice in replicas.moves.choices(found):
        notes.choose(*choice)
    notes.choose("keep_every", *_spacing(found.energies, replicas.moves.swap_every))


def _spacing(energies: Float[np.ndarray, "c n"], swap_every: int) -> tuple[int, str]:
    """The number of steps between draws, and the reason."""
    rho = autocorrelation(energies, energies.shape[1] // 2)
    below = np.flatnonzero(rho < 0.05)
    time = 1 + 2 * float(rho[1 : below[0] if len(below) else None].sum())
    swaps = int(np.clip(time / 2, 1, MAX_SPACING))
    return swaps * swap_every, "half the autocorrelation time of the energy"
