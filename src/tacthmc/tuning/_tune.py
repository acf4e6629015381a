"""``tune``: choose the numbers of a sampler by short runs."""

import sys
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._positions import checked, dimension, scalar_dtype, unflatten
from tacthmc._typing import Position, PRNGKey
from tacthmc.diagnostics._laws import autocorrelation
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    ContinuousTempering,
    Coordinates,
    DiagonalThermostat,
    Langevin,
    LinearMap,
    ScalarThermostat,
    TensorThermostat,
)
from tacthmc.dynamics._thermostat import SeparableThermostat
from tacthmc.potentials import Potential, StreamedPosterior
from tacthmc.potentials._base import innermost
from tacthmc.run._keep import Keep
from tacthmc.samplers import Untuned, tact
from tacthmc.tuning import _xi as xi_numbers
from tacthmc.tuning._bursts import Burst, quiet_run
from tacthmc.tuning._choices import Choice, Tuning, TuningError, shown
from tacthmc.tuning._ladder import Ladder, climb_ladder
from tacthmc.tuning._plateau import Plateau
from tacthmc.tuning._thermostats import thermostat_steps

MAX_XI_TEMPERATURE = 1.15
"""The largest kinetic temperature of ξ. A higher one means that its step is too large."""
NUM_CHAINS, FEW_CHAINS, MAX_LOW_DIMENSION = 16, 4, 10_000
"""The number of chains in the short runs, that in high dimension, and where that begins."""
MAX_TRIALS = 8
"""The largest number of trials of the whole sampler."""
TRIAL_BURSTS = 10
"""The length of a trial in bursts."""
XI_NOISE = 0.1
"""c_ξ."""
MAX_WIDENING_RATIO = 0.8
"""The largest Λ with widening, relative to that without, for which θ widens with ξ."""
MAX_USELESS_LENGTH = 20.0
"""The largest Λ, in standard deviations of the energy, if heat does not help: some 1,000 steps."""
MAX_RESTING_LENGTH = 1.0
"""The same in high dimension. There the mean energy of a network drifts by a few of those standard
deviations σ, which come from mini-batch noise. A bias over the length Λ is then wrong by Λ·drift/σ
in units of kT. That is a few for Λ = 1. For Λ = 20 it would keep ξ off its plateau."""
MIN_NOISE_SHARE, MAX_DIAGONAL_DIMENSION = 0.1, 256
"""The smallest friction from the noise of the force, relative to c, for one thermostat per
coordinate, and the largest dimension for that. Mini-batch noise differs between coordinates and
places. (In higher dimension there may be one per tensor, :mod:`tacthmc.tuning._friction`.)"""
MIN_SPACING, MAX_SPACING = 5, 100
"""The limits of the number of steps between draws."""


def tune(
    key: Array,
    sampler: Untuned,
    potential: Potential,
    init: Any,
    *,
    num_chains: int | None = None,
    num_steps: int = 500,
    progress: bool | None = None,
) -> Langevin:
    r"""Choose the numbers of a sampler by short runs; returns the tuned sampler.

    The steps of tuning are:

    1. **Descent**: from ``init`` to typical energies, with steps of 0.1 over the largest curvature.
    2. **A linear map** (:class:`tacthmc.dynamics.LinearMap`) to coordinates in which the curvature
       and the noise of the force are rounder. In up to 256 dimensions it is a matrix, if chains
       relax faster with it. In higher dimension it shortens the few directions that mini-batch
       noise heats most (:mod:`tacthmc.tuning._low_rank_map`).
    3. **Step size and friction**, from stability, the noise of the force and its differences
       between directions (:mod:`tacthmc.tuning._friction`), and the configurational temperature
       ⟨(θ − a)·∇U⟩/D, which a bias of the integrator would raise. There is one thermostat for all
       coordinates; one for each if noise makes much of the friction; or, in more than 256
       dimensions, one for each tensor if a shared one would leave the noisiest tensor too hot.
    4. **The hottest temperature**: chains are heated up a ladder of temperatures and cooled again
       from each level. The hottest temperature is the first from which nearly as many chains come
       back elsewhere as from any. If heat is not found to help, it is 1.5 or less, and in more than
       256 dimensions ξ rests for most of the time.
    5. **ξ**: the fluctuations of the energy at each level determine the shape of the coupling,
       whether θ widens with ξ, the mass of ξ and the number of bins (:mod:`tacthmc.tuning._xi`). A
       trial of the whole sampler tests the kinetic temperature of ξ.
    6. **K**, from the autocorrelation of the energy, or 100 in high dimension, where draws are
       large.

    Nothing is adapted afterward: the returned sampler has fixed numbers. Only its bias keeps
    learning (``bias.frozen()`` stops that too).

    Args:
        key: a key.
        sampler: ``tacthmc.tact()``, or :class:`tacthmc.samplers.Untuned` with some fixed numbers.
        potential: the energy to sample. A streamed posterior has to be tuned by hand.
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
    (0.004, 0.2)
    """
    checks.instance("sampler", sampler, Untuned, "tacthmc.tact() or a tacthmc.samplers.Untuned")
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.whole("num_steps", num_steps, 20)
    one = checked(init)
    num_chains = chains_for(one) if num_chains is None else num_chains
    checks.whole("num_chains", num_chains, 2)
    starts = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_chains, *x.shape)), one)
    if not jnp.issubdtype(jnp.asarray(key).dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(jnp.asarray(key))
    return tune_from(key, sampler, potential, starts, num_steps, progress)


def tune_from(
    key: PRNGKey,
    sampler: Untuned,
    potential: Potential,
    starts: Position,
    num_steps: int = 500,
    progress: bool | None = None,
) -> Langevin:
    """:func:`tune` from a stack of starting positions, one for each chain."""
    check_tunable(potential)
    notes = _Notes(fixed_in(sampler), progress is not False and jax.process_index() == 0)
    linear = notes.fixed.get("linear")
    known = linear if isinstance(linear, LinearMap) else None
    plateau = Plateau(potential, starts, num_steps, known)
    if (given := notes.fixed.get("thermostat")) is not None:
        plateau.per_tensor = isinstance(given, TensorThermostat | DiagonalThermostat)
    keys = jax.random.split(key, 5)
    ladder = _climbed(keys[0], plateau, notes)
    temperatures = _range(keys[4], plateau, ladder, notes)
    theta = _theta(keys[1], plateau, ladder, temperatures, notes)
    xi = _xi(plateau, temperatures, theta, notes)
    made, positions = _tried(keys[3], plateau, theta, xi, notes, sampler)
    tuning = Tuning(tuple(notes.choices), plateau.bursts.gradients, positions)
    notes.say(f"chosen by {tuning.gradients:,} gradients")
    return eqx.tree_at(lambda s: s.tuning, made, tuning, is_leaf=lambda x: x is None)


def chains_for(position: Position) -> int:
    """The number of chains in the short runs, which is smaller in high dimension.

    >>> chains_for(jnp.zeros(3)), chains_for({"w": jnp.zeros((784, 100))})
    (16, 4)
    """
    return FEW_CHAINS if dimension(position) > MAX_LOW_DIMENSION else NUM_CHAINS


def check_tunable(potential: Potential) -> None:
    """Raise an error for potentials that tuning cannot use."""
    if isinstance(innermost(potential), StreamedPosterior):
        raise ValueError(
            "tuning draws its own batches, and those of a streamed posterior come from its loader:"
            " give numbers, tact(step_size, …), or tune on a part of the data"
        )
    if potential.traits.num_chains is not None:
        raise ValueError(
            "tuning is for one potential, and this one differs from chain to chain: tune on that of"
            " one chain, tacthmc.tune(key, sampler, potential.for_chain(0), init)"
        )
    if potential.traits.remembers:
        warnings.warn(
            "tuning measures the noise of the energy without the table of losses of a chain"
            " (loss_table), so ξ gets heavier than necessary: try a larger step_size of the"
            " tempering",
            stacklevel=3,
        )


class _Notes:
    """The choices so far. Values that the user fixed take precedence."""

    def __init__(self, fixed: dict[str, Any], verbose: bool):
        self.fixed, self.verbose = fixed, verbose
        self.choices: list[Choice] = []

    def choose(self, name: str, value: Any, reason: str) -> Any:
        # "diagonal" says how to make coordinates, but does not fix them.
        is_method = name == "linear" and isinstance(self.fixed.get(name), str)
        if name in self.fixed and not is_method:
            value, reason = self.fixed[name], "given"
        self.choices.append(Choice(name, value, reason))
        self.say(f"{name} = {shown(value)}: {reason}")
        return value

    def value(self, name: str) -> Any:
        """The value chosen under a name."""
        return next(choice.value for choice in self.choices if choice.name == name)

    def revise(self, name: str, value: Any, reason: str) -> None:
        """Replace an earlier choice."""
        self.choices = [
            Choice(name, value, f"{c.reason}; {reason}") if c.name == name else c
            for c in self.choices
        ]
        self.say(f"{name} = {shown(value)} instead: {reason}")

    def say(self, line: str) -> None:
        if self.verbose:
            print(f"tuning: {line}", file=sys.stderr, flush=True)


class _Range(NamedTuple):
    """The range of temperatures, with the fluctuations of the energy in it."""

    profile: xi_numbers.EnergyProfile
    hottest: float
    why: str
    mean: Position
    """The mean of θ on the plateau."""
    changes_modes: bool
    """Whether heat moves chains between modes, or the hottest temperature was given."""
    rests: bool = False
    """Whether ξ rests for most of the time."""


class _Theta(NamedTuple):
    """The numbers of θ."""

    eta: float
    c: float
    friction: float
    """The friction at which the thermostat will settle."""
    noisy: bool
    """Whether the noise of the force makes much of it."""
    shared_friction_heat: float | None
    """The relative temperature of the noisiest tensor with one friction for all, if each tensor has
    its own friction for that reason."""


class _Xi(NamedTuple):
    """The numbers and parts of ξ, and other parts that depend on them."""

    parts: dict[str, Any]
    """The parts by name."""
    step_size: float
    why: str


def _climbed(key: PRNGKey, plateau: Plateau, notes: _Notes) -> Ladder:
    """Descend, find a first map and first numbers, and climb the ladder with them."""
    fixed, keys = notes.fixed, jax.random.split(key, 6)
    eta, c = fixed.get("step_size"), fixed.get("noise")
    curvature = plateau.descend(keys[0])
    if _is(fixed.get("linear"), "diagonal"):
        plateau.use_map(plateau.diagonal_map(keys[1], curvature))
        curvature = plateau.descend(keys[2])
    elif "linear" not in fixed:
        curvature = plateau.find_map(keys[2], curvature, eta, c)
    first = plateau.numbers(keys[3], curvature, eta, c)
    plateau.lengthen_bursts(first.relaxation)
    steps = plateau.verified(keys[4], first.steps, "step_size" in fixed)
    top = float(fixed["coupling"].hottest) if "coupling" in fixed else None
    return climb_ladder(keys[5], plateau.bursts, plateau.burst, steps.eta, steps.c, top)


def _range(key: PRNGKey, plateau: Plateau, ladder: Ladder, notes: _Notes) -> _Range:
    """The hottest temperature, and the fluctuations of the energy up to it."""
    profile, center = xi_numbers.energy_profile(key, ladder.potential, ladder, plateau.like)
    mean = unflatten(jnp.asarray(center, scalar_dtype(plateau.like)), plateau.like)
    mean = mean if ladder.linear is None else ladder.linear.forward(mean)
    if ladder.given:
        return _Range(profile, float(notes.fixed["coupling"].hottest), "given", mean, True)
    hottest, why = ladder.hottest
    longest = MAX_RESTING_LENGTH if ladder.should_rest else MAX_USELESS_LENGTH
    if not ladder.is_useful and (near := profile.hottest_within(longest)) < hottest:
        hottest = near
        many = "one standard deviation" if longest == 1 else f"{longest:g} standard deviations"
        why += f"; a hotter one would be more than {many} of the energy away"
    if ladder.should_rest:
        why += f"; at unit temperature for {xi_numbers.REST_SHARE:.0%} of the time"
    return _Range(profile.up_to(hottest), hottest, why, mean, ladder.is_useful, ladder.should_rest)


def _theta(
    key: PRNGKey, plateau: Plateau, ladder: Ladder, temperatures: _Range, notes: _Notes
) -> _Theta:
    """The final numbers of θ, with chains in as many modes as were found."""
    fixed, keys = notes.fixed, jax.random.split(key, 4)
    hot = [
        (level.temperature, plateau.to_theta(level.burst.positions))
        for level in ladder.levels[1:]
        if level.temperature <= 1.001 * temperatures.hottest
    ]
    plateau.positions = ladder.widest.positions
    if "linear" not in fixed:
        found = plateau.better_map(keys[0], fixed.get("step_size"), fixed.get("noise"))
        plateau.use_map(found.linear)
        reason = found.why
    else:
        reason = "the standard deviation of each coordinate"
    notes.choose("linear", plateau.linear, reason)
    curvature, where = plateau.largest_curvature(keys[1], hot)
    eta = fixed.get("step_size")
    numbers = plateau.numbers(keys[2], curvature, eta, fixed.get("noise"))
    steps = plateau.verified(keys[3], numbers.steps, eta is not None)
    reason = steps.why_eta if where == "1" else f"{steps.why_eta} (at T = {where}, times λ)"
    eta = notes.choose("step_size", steps.eta, reason)
    c = notes.choose("noise", steps.c, steps.why_c)
    from_noise = eta * numbers.noise.mean / 2
    heat = numbers.whole.shared_friction_heat(eta, c) if steps.per_tensor else None
    return _Theta(eta, c, c + from_noise, from_noise > MIN_NOISE_SHARE * c, heat)


def _xi(plateau: Plateau, temperatures: _Range, theta: _Theta, notes: _Notes) -> _Xi:
    """Coupling, center, bias, thermostats and the mass of ξ, from the energy fluctuations."""
    profile = temperatures.profile
    lengths = profile.length(False), profile.length(True)
    given = notes.fixed.get("thermostat", ScalarThermostat())
    widens = lengths[1] < MAX_WIDENING_RATIO * lengths[0] and isinstance(given, SeparableThermostat)
    center = notes.choose(
        "center",
        temperatures.mean if widens else None,
        f"the way of ξ has {lengths[0]:.3g} standard deviations of the energy, {lengths[1]:.3g} if"
        " θ widens with it",
    )
    widens = center is not None
    reason = f"up to {temperatures.hottest:g}: {temperatures.why}"
    coupling = notes.choose("coupling", profile.coupling(widens, temperatures.rests), reason)
    count = xi_numbers.bins(profile, widens, coupling)
    bias = notes.choose(
        "bias",
        AdaptiveBiasingForce(count),
        f"{count} bins, {xi_numbers.BINS_PER_SD} per standard deviation of the energy",
    )
    size = dimension(plateau.like)
    thermostat = notes.choose("thermostat", *_thermostat(plateau.like, temperatures, theta))
    if plateau.is_high_dimensional:
        # Mini-batch noise hides the autocorrelation of the energy, and draws are large.
        kept = MAX_SPACING, f"a draw has {size:,} numbers"
    else:
        kept = spacing(plateau.burst), "half the autocorrelation time of the energy"
    parts = {
        "thermostat": thermostat,
        "coupling": coupling,
        "bias": bias,
        "center": center,
        "xi_noise": notes.choose("xi_noise", XI_NOISE, "as for θ"),
        "xi_thermostat": notes.choose("xi_thermostat", ScalarThermostat(), "Γ = 100 steps"),
    }
    notes.choose("keep_every", *kept)
    return _Xi(parts, *xi_numbers.xi_step_size(profile, coupling, widens))


def _thermostat(
    like: Position, temperatures: _Range, theta: _Theta
) -> tuple[SeparableThermostat, str]:
    """The thermostat of θ: which coordinates share a friction, and its inertia."""
    sizes = [leaf.size for leaf in jax.tree.leaves(like) if leaf.size]
    few = sum(sizes) <= MAX_DIAGONAL_DIMENSION
    kind, sharing, noisy, reason = ScalarThermostat, sum(sizes), theta.noisy, ""
    if theta.noisy and few:
        kind, sharing = DiagonalThermostat, 1
        reason = "noise may differ between coordinates; "
    elif theta.shared_friction_heat is not None:
        kind, sharing, noisy = TensorThermostat, min(sizes), True
        heat = theta.shared_friction_heat
        reason = f"one friction would leave the noisiest tensor {heat:.3g} times too hot or more; "
    inertia, why = thermostat_steps(
        theta.friction, sharing, noisy=noisy, changes_modes=temperatures.changes_modes
    )
    return kind(steps=inertia), (
        f"{reason}Γ = {inertia:.3g} steps: {why}, fluctuates less than the friction"
        f" {theta.friction:.3g}"
    )


def _tried(
    key: PRNGKey, plateau: Plateau, theta: _Theta, xi: _Xi, notes: _Notes, untuned: Untuned
) -> tuple[Langevin, Position]:
    """The whole sampler after trials, and the starting positions.

    ξ is made heavier until its kinetic temperature is right, and the step size of θ is halved after
    each divergence.
    """
    eta = theta.eta
    positions, tried = plateau.to_theta(plateau.burst.positions), []
    eta_xi = notes.fixed.get("xi_step_size", xi.step_size)
    steps, why = TRIAL_BURSTS * plateau.bursts.steps, xi.why
    for number in range(MAX_TRIALS):
        made = _made(eta, eta_xi, plateau, theta, xi, untuned)
        now = jax.random.fold_in(key, number)
        every = notes.value("keep_every")
        keep = Keep(every=every, after=steps // 2, forget=True)
        run = quiet_run(now, made, plateau.potential, positions, steps, keep)
        plateau.bursts.gradients += plateau.bursts.chains * steps
        if run.failures:
            tried.append(f"η = {eta:.3g}, η_ξ = {eta_xi:.3g}: {run.failures[0]}")
            if "step_size" not in notes.fixed:
                eta /= 2
        else:
            hot = float(np.mean(run.after_warmup("xi_kinetic_temperature")))
            trips = float(np.mean(run.round_trips)) * 1e5 / steps
            result = f"kinetic temperature {hot:.3g}, {trips:.3g} round trips in 10⁵ steps"
            tried.append(f"η_ξ = {eta_xi:.3g}: {result}")
            if hot <= MAX_XI_TEMPERATURE or "xi_step_size" in notes.fixed:
                if eta < theta.eta:
                    notes.revise("step_size", eta, "halved because whole trials diverged")
                notes.choose("xi_step_size", eta_xi, f"{why}; {result}")
                # The start of the trial, because its end may be at any temperature.
                return made, positions
        if "xi_step_size" in notes.fixed:
            if "step_size" in notes.fixed:
                break
            continue
        eta_xi, why = eta_xi / 3, f"{xi.why}; a lighter ξ was too light ({'; '.join(tried)})"
    raise TuningError("ξ was not stable with any mass. Tried: " + "; ".join(tried))


def _made(
    eta: float, eta_xi: float, plateau: Plateau, theta: _Theta, xi: _Xi, untuned: Untuned
) -> Langevin:
    """The sampler with the chosen numbers and the given parts."""
    own = untuned.tempering or ContinuousTempering()
    tempering = ContinuousTempering(
        xi.parts["coupling"],
        xi.parts["bias"],
        step_size=eta_xi,
        noise=xi.parts["xi_noise"],
        thermostat=xi.parts["xi_thermostat"],
        refresh=own.refresh,
        max_speed=own.max_speed,
        keep_within=own.keep_within,
        batch_noise=own.batch_noise,
    )
    return tact(
        eta,
        noise=theta.c,
        tempering=tempering,
        thermostat=xi.parts["thermostat"],
        coordinates=Coordinates(plateau.linear, xi.parts["center"]),
        refresh=untuned.refresh,
    )


def fixed_in(sampler: Untuned) -> dict[str, Any]:
    """The given numbers and parts, by the names of choices.

    >>> import tacthmc
    >>> given = tacthmc.dynamics.ContinuousTempering(noise=0.3)
    >>> fixed_in(tacthmc.tact(noise=0.2, tempering=given))
    {'noise': 0.2, 'xi_noise': 0.3}
    """
    names = ("step_size", "noise", "thermostat")
    fixed = {name: getattr(sampler, name) for name in names if getattr(sampler, name) is not None}
    if sampler.tempering is not None:
        for name in sorted(sampler.tempering.given):
            chosen = name if name in ("coupling", "bias") else f"xi_{name}"
            fixed[chosen] = getattr(sampler.tempering, name)
    if sampler.coordinates is not None:
        both = {"linear": sampler.coordinates.linear, "center": sampler.coordinates.center}
        fixed |= {name: part for name, part in both.items() if not _is(part, "auto")}
    return fixed


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def spacing(burst: Burst) -> int:
    """Half the integrated autocorrelation time of the energy in steps, within limits."""
    rows = burst.energies.shape[1]
    rho = autocorrelation(burst.energies, rows // 2)
    below = np.flatnonzero(rho < 0.05)
    time = 1 + 2 * float(rho[1 : below[0] if len(below) else None].sum())
    return int(np.clip(burst.every * time / 2, MIN_SPACING, MAX_SPACING))
