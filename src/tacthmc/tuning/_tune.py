"""``tune``: choose the numbers of a sampler by short runs."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._positions import checked, dimension, scalar_dtype
from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics import Langevin, LinearMap, Modes
from tacthmc.dynamics._thermostat import LeafThermostat
from tacthmc.potentials import Potential
from tacthmc.run._plan import check_progress
from tacthmc.run._start import trace_once
from tacthmc.samplers import Untuned, UntunedReplicas
from tacthmc.samplers._replica_path import ReplicaPath
from tacthmc.samplers._untuned import NAMES
from tacthmc.tuning._choices import Tuning, TuningError
from tacthmc.tuning._jump_numbers import OFTEN
from tacthmc.tuning._mode_search import MIN_ENDED, Search, search_modes
from tacthmc.tuning._moving_xi import tune_moving_xi
from tacthmc.tuning._notes import Notes, fixed_in
from tacthmc.tuning._plateau import Plateau
from tacthmc.tuning._replicas import Before, tune_replicas
from tacthmc.tuning._search_budget import search_budget
from tacthmc.tuning._trial import effective_rate
from tacthmc.tuning._tunable import tunable
from tacthmc.tuning._unit_temperature import (
    AtUnitTemperature,
    jump_reason,
    made_at_unit_temperature,
    reasons,
    tune_at_unit_temperature,
)

NUM_CHAINS, FEW_CHAINS, MAX_LOW_DIMENSION = 16, 4, 10_000
"""The number of chains in the short runs, that in high dimension, and where that begins."""

MAX_UNSEEN_FOR_NOTES = 0.1
"""The probability of a new mode in the next start up to which a summary speaks of missed modes."""
MAX_UNSEEN_FOR_JUMPS = 0.3
"""The same up to which chains jump between the modes that were found."""
MAX_REPLICA_DIMENSION = 256
"""The largest dimension in which replicas take the place of ξ. Their number grows as √D."""
MAX_UNEVENNESS = 100.0
"""The ratio of the largest curvatures at different places from which there is advice."""


def tune(
    key: Array,
    sampler: Untuned | UntunedReplicas,
    potential: Potential,
    init: Any,
    *,
    num_chains: int | None = None,
    num_steps: int = 500,
    progress: bool | None = None,
) -> Langevin | ReplicaPath:
    r"""Choose the numbers of a sampler by short runs; returns the tuned sampler.

    For ``tacthmc.replica_exchange()``, :mod:`tacthmc.tuning._replicas` has the steps. For
    ``tacthmc.tact()`` they are:

    1. **Search**: minimizations from over-dispersed starts and many single places list the modes
       (:mod:`tacthmc.tuning._mode_search`). If they seem to have found all, chains start in these
       modes, and a trial says whether jumps connect them (:mod:`tacthmc.tuning._jump_numbers`).
       Then step 5 is left out. If they do not and energies are exact, replicas take the place of
       all other steps (:mod:`tacthmc.tuning._replicas`).
    2. **Descent**: to typical energies, with steps of 0.1 over the largest curvature.
    3. **A linear map** (:class:`tacthmc.dynamics.LinearMap`) to coordinates in which the curvature
       and the noise of the force are rounder. In up to 256 dimensions it is a matrix, if chains
       relax faster with it. In higher dimension it shortens the few directions that mini-batch
       noise heats most (:mod:`tacthmc.tuning._low_rank_map`).
    4. **Step size and friction**, from stability, the noise of the force and its differences
       between directions (:mod:`tacthmc.tuning._friction`), and the configurational temperature
       ⟨(θ − a)·∇U⟩/D, which a bias of the integrator would raise. There is one thermostat for all
       coordinates; one for each if noise makes much of the friction; or, in more than 256
       dimensions, one for each tensor if a shared one would leave the noisiest tensor too hot.
    5. **ξ**: chains are heated up a ladder of temperatures and cooled again from each level. The
       hottest temperature is the first from which nearly as many chains come back elsewhere as from
       any. If heat is not found to help, there is no ξ, unless it was asked for. The fluctuations
       of the energy at each level determine the shape of the coupling, whether θ widens with ξ, the
       mass of ξ and the number of bins (:mod:`tacthmc.tuning._xi`). A trial of the whole sampler
       tests the kinetic temperature of ξ.
    6. **K**, from the autocorrelation of the energy, as often as jumps make new draws, or 100 in
       high dimension, where draws are large.

    Nothing is adapted afterward: the returned sampler has fixed numbers. Only its bias keeps
    learning (``bias.frozen()`` stops that too).

    Args:
        key: a key.
        sampler: ``tacthmc.tact()`` or ``tacthmc.replica_exchange()``, perhaps with some numbers
            fixed.
        potential: the energy to sample. Of a streamed posterior, examples are gathered first
            (:mod:`tacthmc.tuning._tunable`).
        init: one position, from which all chains start.
        num_chains: the number of chains in the short runs; by default 16, or 4 in more than 10,000
            dimensions. Modes with a weight below one over this number are not found.
        num_steps: the smallest length of a short run. There are some thirty to sixty runs.
        progress: False prints nothing. Otherwise each choice is printed with its reason.

    ``tune(…).tuning`` has all choices with their reasons. ``.tuning.start`` is a position at unit
    temperature for each of its chains, in as many modes as were found. If nothing stable is found,
    a :class:`tacthmc.TuningError` lists what was tried.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 50.0 * jnp.sum(x**2))
    >>> sampler = tune(jax.random.key(0), tacthmc.tact(noise=0.2), target, jnp.ones(2),
    ...                num_chains=4, num_steps=200, progress=False)
    >>> round(sampler.step_size, 5), sampler.tuning["noise"]
    (0.008, 0.2)
    """
    kinds = (Untuned, UntunedReplicas)
    checks.instance("sampler", sampler, kinds, "tacthmc.tact() or tacthmc.replica_exchange()")
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.whole("num_steps", num_steps, 20)
    check_progress(progress)
    potential = tunable(potential, progress)
    one = checked(init)
    trace_once(potential, one)
    num_chains = chains_for(one) if num_chains is None else num_chains
    checks.whole("num_chains", num_chains, 2)
    starts = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_chains, *x.shape)), one)
    return tune_from(checks.key("key", key), sampler, potential, starts, num_steps, progress)


def tune_from(
    key: PRNGKey,
    sampler: Untuned | UntunedReplicas,
    potential: Potential,
    starts: Position,
    num_steps: int = 500,
    progress: bool | None = None,
    budget: float | None = None,
) -> Langevin | ReplicaPath:
    """:func:`tune` from a stack of starting positions, one for each chain.

    ``budget`` is the number of steps of the run that follows, over all chains.
    """
    if isinstance(sampler, UntunedReplicas):
        return tune_replicas(key, sampler, potential, starts, num_steps, progress, budget)
    return tune_tact(key, sampler, potential, starts, num_steps, progress, budget)


def tune_tact(
    key: PRNGKey,
    sampler: Untuned,
    potential: Potential,
    starts: Position,
    num_steps: int = 500,
    progress: bool | None = None,
    budget: float | None = None,
) -> Langevin | ReplicaPath:
    """Choose the numbers of :func:`tacthmc.tact` from a stack of starting positions.

    ``budget`` is the number of gradients of the run that follows.
    """
    first, second, third, fourth = jax.random.split(key, 4)
    with Notes(fixed_in(sampler), progress is not False and jax.process_index() == 0) as notes:
        notes.begin("searching for modes")
        notes.say("searching for modes")
        linear = notes.fixed.get("linear")
        known = linear if isinstance(linear, LinearMap) else None
        plateau = Plateau(potential, starts, num_steps, known)
        if (given := notes.fixed.get("thermostat")) is not None:
            plateau.per_tensor = isinstance(given, LeafThermostat)
        search = _searched(first, sampler, potential, starts, budget)
        notes.say(reasons(search))
        way = _way_or_reason(second, plateau, notes, sampler, search)
        made = _finished(third, plateau, notes, search, way) if isinstance(way, Way) else None
        if isinstance(way, Way) and made is not None and not _is_doubtful(way, sampler, plateau):
            return made
        reason = way if isinstance(way, str) else "few jumps are accepted"
        notes.say(f"{reason}, so replicas at several temperatures swap")
    before = Before(search, plateau.bursts.gradients, _advice(1.0, search), made is not None)
    untuned = UntunedReplicas()
    try:
        replicas = tune_replicas(
            second, untuned, potential, starts, num_steps, progress, budget, before
        )
    except TuningError as error:
        if made is None:
            raise
        notes.say(f"replicas cannot be compared: {error}")
        return made
    return replicas if made is None else _faster(fourth, potential, made, replicas, notes)


def _is_doubtful(way: "Way", sampler: Untuned, plateau: Plateau) -> bool:
    """Whether chains at unit temperature may not reach all of the target, and replicas may.

    Rare jumps mean that Gaussians do not describe the modes. A trial that begins where these chains
    are would not show the places that they never reach.
    """
    return way.jumps_accepted < OFTEN and _replicas_work(sampler, plateau)


def _faster(
    key: PRNGKey, potential: Potential, made: Langevin, replicas: ReplicaPath, notes: Notes
) -> Langevin | ReplicaPath:
    """The sampler with more effective draws per gradient in a trial.

    Both begin where replicas ended, which is all over the target. Slow chains that began together
    would look as if they mixed.
    """
    of_replicas, of_made = replicas.tuning, made.tuning
    assert of_replicas is not None
    assert of_made is not None
    found, spent = [], 0
    for sampler, tuning in ((made, of_made), (replicas, of_replicas)):
        every = tuning["keep_every"]
        rate, cost = effective_rate(key, sampler, potential, of_replicas.start, every)
        found.append(rate)
        spent += cost
    best, tuning = (replicas, of_replicas) if found[1] > found[0] else (made, of_made)
    notes.say(
        f"effective draws in 10⁶ gradients of a trial: {1e6 * found[0]:,.0f} at unit temperature,"
        f" {1e6 * found[1]:,.0f} with replicas, which are {'' if best is replicas else 'not '}taken"
    )
    tuning.gradients = of_replicas.gradients + spent
    return best


def _finished(key: PRNGKey, plateau: Plateau, notes: Notes, search: Search, way: "Way") -> Langevin:
    """The tuned sampler, with all choices."""
    advice = _advice(plateau.unevenness(key), search)
    spent = plateau.bursts.gradients + search.gradients
    doubt = _doubt(search)
    tuning = Tuning(tuple(notes.choices), spent, way.positions, way.modes, advice, doubt)
    notes.say(f"chosen by {spent:,} gradients")
    return eqx.tree_at(lambda s: s.tuning, way.made, tuning, is_leaf=lambda x: x is None)


def _advice(unevenness: float, search: Search) -> str:
    """What to do if a run with one step size mixes badly."""
    if search.starts and not search.found:
        reason = "minimizations found no isolated minimum, as in a funnel or on a ridge"
    elif unevenness > MAX_UNEVENNESS:
        reason = f"the largest curvature differs by a factor of {unevenness:,.0f} between places"
    else:
        return ""
    return (
        f"{reason}, and one step size has to do for all places: change to parameters in which the"
        " curvature is more even, or compare with a sampler that adapts its trajectories, such as"
        " NUTS"
    )


def _doubt(search: Search) -> str:
    """Why the modes that were found may not be all, if some are known and the rest is not."""
    if not search.found or search.ended >= MIN_ENDED:
        return ""
    return (
        f"{1 - search.ended:.0%} of the minimizations ended on ridges or flat places, which the"
        " list of modes does not have: chains may miss them, so compare runs from several starts"
    )


def _searched(
    key: PRNGKey, sampler: Untuned, potential: Potential, starts: Position, budget: float | None
) -> Search:
    """The modes, unless the user has decided how chains get from mode to mode."""
    center = None if sampler.coordinates is None else sampler.coordinates.center
    if sampler.tempering is not None or center not in (None, "auto"):
        return Search([], [], 0, 0, 0, "ξ moves, as given")
    if sampler.jumps is not None:
        return Search([], [], 0, 0, 0, "jumps are given")
    one = jax.tree.map(lambda x: x[0], starts)
    return search_modes(key, potential, starts, search_budget(potential, one, budget or 0.0))


class Way(NamedTuple):
    """A sampler and its starts."""

    made: Langevin
    positions: Position
    modes: Modes | None
    """The modes, if they are known to be nearly all."""
    jumps_accepted: float = 1.0
    """The share of jumps that are accepted, where chains stay at unit temperature."""


def _way_or_reason(
    key: PRNGKey, plateau: Plateau, notes: Notes, sampler: Untuned, search: Search
) -> Way | str:
    """:func:`_way`; if no step size works at unit temperature, replicas may still do."""
    try:
        return _way(key, plateau, notes, sampler, search)
    except TuningError as error:
        if not _replicas_work(sampler, plateau):
            raise
        return str(error)


def _way(
    key: PRNGKey, plateau: Plateau, notes: Notes, sampler: Untuned, search: Search
) -> Way | str:
    """The way from mode to mode: none for one mode, jumps if they connect all modes, or ξ.

    Instead of ξ, the reason for replicas is returned if they can be used.
    """
    dtype, replicas = scalar_dtype(plateau.like), _replicas_work(sampler, plateau)
    if replicas and not search.exhaustive and search.starts:
        return search.why_not or f"{1 - search.ended:.0%} of minimizations ended in no mode"
    if not _has_list(search):
        return Way(*tune_moving_xi(key, plateau, notes, sampler, sampler.jumps), None)
    found = tune_at_unit_temperature(key, plateau, notes, search.modes(dtype))
    if search.exhaustive and found.tried.connected:
        return _jumping(plateau, notes, sampler, search, found)
    why = "too few" if search.exhaustive else "there may be more modes"
    reason = f"{jump_reason(search, found.tried)}: {why}"
    if replicas:
        return reason
    notes.say(f"{reason}, so ξ moves as well")
    notes.choices.clear()
    modes = found.tried.modes
    jumps = found.tried.jumps if modes.count > 1 else None
    made, positions = tune_moving_xi(key, plateau, notes, sampler, jumps)
    return Way(made, positions, modes if search.unseen <= MAX_UNSEEN_FOR_NOTES else None)


def _jumping(
    plateau: Plateau, notes: Notes, sampler: Untuned, search: Search, found: AtUnitTemperature
) -> Way:
    """Chains at unit temperature that jump between the modes, if there are several."""
    tried = found.tried
    jumps = tried.jumps if tried.useful else None
    notes.choose("jumps", jumps, jump_reason(search, tried))
    several = tried.modes.count > 1
    where = "jumps reach all modes that were found" if several else "there is one mode"
    notes.choose("tempering", None, where)
    made = made_at_unit_temperature(found, plateau, sampler, jumps)
    return Way(made, found.positions, tried.modes, tried.accepted)


def _replicas_work(sampler: Untuned, plateau: Plateau) -> bool:
    """Whether replicas may take the place of ξ: nothing is given, and energies are exact."""
    given = (getattr(sampler, name) for name in NAMES)
    few = dimension(plateau.like) <= MAX_REPLICA_DIMENSION
    return few and plateau.is_exact and all(one is None for one in given)


def _has_list(search: Search) -> bool:
    """Whether a search ended with modes that are worth jumps, if not with all of them."""
    return bool(search.found) and search.unseen <= MAX_UNSEEN_FOR_JUMPS


def chains_for(position: Position) -> int:
    """The number of chains in the short runs, which is smaller in high dimension.

    >>> chains_for(jnp.zeros(3)), chains_for({"w": jnp.zeros((784, 100))})
    (16, 4)
    """
    return FEW_CHAINS if dimension(position) > MAX_LOW_DIMENSION else NUM_CHAINS
