"""``warmup``: a sampler's numbers, chosen by short runs."""

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
from tacthmc.tuning import _xi as slope
from tacthmc.tuning._bursts import Burst, quiet_run
from tacthmc.tuning._choices import Choice, Tuning, TuningError, shown
from tacthmc.tuning._ladder import Heat, ladder
from tacthmc.tuning._plateau import Plateau
from tacthmc.tuning._thermostats import thermostat_steps

XI_HOT = 1.15
"""ξ's kinetic temperature at most: above, its step is too large for what pushes it."""
CHAINS, FEWER, DEAR = 16, 4, 10_000
"""Chains that make the short runs, and how many in more dimensions than that."""
TRIALS = 8
TRIAL_BURSTS = 10
"""A trial of the whole sampler takes so many bursts' steps."""
XI_NOISE = 0.1
WIDENS = 0.8
"""θ widens with ξ where that makes ξ's way so much shorter."""
LONGEST_IDLE = 20.0
"""ξ's way in standard deviations of the energy where heat is of no use: some thousand steps."""
LONGEST_AT_REST = 1.0
"""The same in high dimension. Chains of a network have not settled: their mean energy drifts by
a few of those standard deviations σ (which mini-batches' noise makes, not θ). A bias over a way of
Λ of them is wrong by Λ·drift/σ in units of kT: a few for one, twenty times that for 20, which
would hold ξ off its plateau."""
NOISY, LARGEST_DIAGONAL = 0.1, 256
"""One thermostat a coordinate where the force's noise makes so much friction beside c, up to so
many dimensions: mini-batches' noise differs between coordinates and from place to place. (In more
it is one a tensor, :mod:`tacthmc.tuning._friction`.)"""
CLOSEST, FURTHEST = 5, 100
"""Steps between two draws, and never less than half of those between two rows of a burst."""


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
    r"""Choose a sampler's numbers by short runs; returns the tuned sampler.

    What is looked at, in this order:

    1. **Down to the plateau**: from ``init``, with steps of 0.1 over the largest curvature.
    2. **A linear map** (:class:`tacthmc.dynamics.LinearMap`) in which curvature and noise of the force are
       rounder: in up to 256 dimensions where chains relax faster in it, in more the few
       directions that mini-batches' noise heats most (:mod:`tacthmc.tuning._thin_preconditioner`).
    3. **Step size and friction**: stability, the force's noise and how unequal it is
       (:mod:`tacthmc.tuning._friction`), and the configurational temperature ⟨(θ − a)·∇U⟩/D, which
       an integrator's bias would raise. One thermostat for all coordinates; one for each where
       noise makes much of the friction, or in more than 256 dimensions one for each tensor where
       one would leave the noisiest tensor too hot.
    4. **How hot**: chains are heated up a ladder of temperatures and cooled again from each; the
       hottest is the first from which nearly as many come back elsewhere as from any. Where
       heat is not found to be of use it is 1.5 or less, and in more than 256 dimensions ξ is at
       rest for most of the time.
    5. **ξ**: how the energy fluctuates at each level gives the coupling's shape, whether θ widens
       with ξ, ξ's mass and the bias's bins (:mod:`tacthmc.tuning._xi`); a trial of the whole
       sampler says whether ξ's kinetic temperature is right.
    6. **K** from the energy's autocorrelation; in high dimension, where a draw is dear, 100.

    Nothing of it is adapted afterwards: the sampler that comes back is one of fixed numbers, whose
    bias alone goes on learning (``bias.frozen()`` ends that too).

    Args:
        key: a key.
        sampler: ``tacthmc.tact()``, or an :class:`tacthmc.samplers.Untuned` with some numbers fixed.
        potential: the energy to sample; a streamed posterior has to be tuned by hand.
        init: one position, from which all chains start.
        num_chains: how many chains make the short runs: 16, or 4 in more than 10,000 dimensions.
            Modes of a weight below one over this are not found.
        num_steps: steps of one short run at least; some thirty to sixty are made.
        progress: False says nothing; otherwise each choice is printed with its reason.

    ``tune(…).tuning`` has all choices with their reasons, ``.tuning.start`` a position of unit
    temperature for each of its chains, in as many modes as were found. Where nothing stable is
    found, a :class:`tacthmc.TuningError` says what
    was seen.

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
    return warmed(key, sampler, potential, starts, num_steps, progress)


def warmed(
    key: PRNGKey,
    sampler: Untuned,
    potential: Potential,
    starts: Position,
    num_steps: int = 500,
    progress: bool | None = None,
) -> Langevin:
    """:func:`tune` from a stack of starts, one for each chain."""
    check_tunable(potential)
    notes = _Notes(fixed_in(sampler), progress is not False and jax.process_index() == 0)
    linear = notes.fixed.get("linear")
    known = linear if isinstance(linear, LinearMap) else None
    plateau = Plateau(potential, starts, num_steps, known)
    if (given := notes.fixed.get("thermostat")) is not None:
        plateau.apart = isinstance(given, TensorThermostat | DiagonalThermostat)
    keys = jax.random.split(key, 5)
    heat = _heated(keys[0], plateau, notes)
    way = _way(keys[4], plateau, heat, notes)
    theta = _theta(keys[1], plateau, heat, way, notes)
    xi = _xi(plateau, way, theta, notes)
    made, positions = _tried(keys[3], plateau, theta, xi, notes, sampler)
    tuning = Tuning(tuple(notes.choices), plateau.bursts.gradients, positions)
    notes.say(f"chosen by {tuning.gradients:,} gradients")
    return eqx.tree_at(lambda s: s.tuning, made, tuning, is_leaf=lambda x: x is None)


def chains_for(position: Position) -> int:
    """Chains that make the short runs: few where each is dear.

    >>> chains_for(jnp.zeros(3)), chains_for({"w": jnp.zeros((784, 100))})
    (16, 4)
    """
    return FEWER if dimension(position) > DEAR else CHAINS


def check_tunable(potential: Potential) -> None:
    """Refuse potentials whose chains differ, or whose batches come from outside."""
    if isinstance(innermost(potential), StreamedPosterior):
        raise ValueError(
            "a warm-up draws batches as it needs them, and a streamed posterior's come from its"
            " loader: give numbers, tact(step_size, …), or tune on a part of the data"
        )
    if potential.traits.num_chains is not None:
        raise ValueError(
            "a warm-up is for one potential, and this one differs from chain to chain: tune on that"
            " of one chain, tacthmc.tune(key, sampler, potential.for_chain(0), init)"
        )
    if potential.traits.remembers:
        warnings.warn(
            "a warm-up sees the energy's noise without what a chain remembers (loss_table): it"
            " makes ξ heavier than it need be; try a larger step_size of the tempering",
            stacklevel=3,
        )


class _Notes:
    """What was chosen so far; what the user fixed goes before."""

    def __init__(self, fixed: dict[str, Any], aloud: bool):
        self.fixed, self.aloud = fixed, aloud
        self.choices: list[Choice] = []

    def choose(self, name: str, value: Any, reason: str) -> Any:
        # How to make coordinates is no coordinates.
        asked = name == "linear" and isinstance(self.fixed.get(name), str)
        if name in self.fixed and not asked:
            value, reason = self.fixed[name], "given"
        self.choices.append(Choice(name, value, reason))
        self.say(f"{name} = {shown(value)}: {reason}")
        return value

    def value(self, name: str) -> Any:
        """What was chosen under a name."""
        return next(choice.value for choice in self.choices if choice.name == name)

    def revise(self, name: str, value: Any, reason: str) -> None:
        """Put another value in the place of one chosen before."""
        self.choices = [
            Choice(name, value, f"{c.reason}; {reason}") if c.name == name else c
            for c in self.choices
        ]
        self.say(f"{name} = {shown(value)} instead: {reason}")

    def say(self, line: str) -> None:
        if self.aloud:
            print(f"warm-up: {line}", file=sys.stderr, flush=True)


class _Way(NamedTuple):
    """From unit temperature to the hottest."""

    seen: slope.Profile
    hottest: float
    why: str
    middle: Position
    """The plateau's mean, of θ."""
    far: bool
    """Whether it takes chains elsewhere, or was asked for."""
    idle: bool = False
    """Whether ξ is to be at rest for most of the time."""


class _Theta(NamedTuple):
    eta: float
    c: float
    friction: float
    """What the thermostat will settle on."""
    noisy: bool
    """Whether much of it is by the force's own noise."""
    uneven: float | None
    """How many times too hot the noisiest tensor would be with one friction for all, where each
    has its own for that."""


class _Xi(NamedTuple):
    parts: dict[str, Any]
    """The parts, by name."""
    step_size: float
    why: str


def _heated(key: PRNGKey, plateau: Plateau, notes: _Notes) -> Heat:
    """Down, a first map and first numbers, and up the ladder with them."""
    fixed, keys = notes.fixed, jax.random.split(key, 6)
    eta, c = fixed.get("step_size"), fixed.get("noise")
    curvature = plateau.settled(keys[0])
    if _is(fixed.get("linear"), "diagonal"):
        plateau.use(plateau.diagonal_map(keys[1], curvature))
        curvature = plateau.settled(keys[2])
    elif "linear" not in fixed:
        curvature = plateau.rounded(keys[2], curvature, eta, c)
    first = plateau.numbers(keys[3], curvature, eta, c)
    plateau.longer(first.relaxation)
    steps = plateau.verified(keys[4], first.steps, "step_size" in fixed)
    top = float(fixed["coupling"].hottest) if "coupling" in fixed else None
    return ladder(keys[5], plateau.bursts, plateau.burst, steps.eta, steps.c, top)


def _way(key: PRNGKey, plateau: Plateau, heat: Heat, notes: _Notes) -> _Way:
    """How hot, and what the energy does on the way."""
    seen, mean = slope.profile(key, heat.potential, heat, plateau.like)
    inside = unflatten(jnp.asarray(mean, scalar_dtype(plateau.like)), plateau.like)
    middle = inside if heat.linear is None else heat.linear.forward(inside)
    if heat.given:
        return _Way(seen, float(notes.fixed["coupling"].hottest), "given", middle, True)
    hottest, why = heat.hottest
    longest = LONGEST_AT_REST if heat.idle else LONGEST_IDLE
    if not heat.useful and (near := seen.within(longest)) < hottest:
        hottest = near
        many = "one standard deviation" if longest == 1 else f"{longest:g} standard deviations"
        why += f", and to be hotter would take ξ more than {many} of the energy"
    if heat.idle:
        why += f"; at unit temperature for {slope.AT_REST:.0%} of the time"
    return _Way(seen.up_to(hottest), hottest, why, middle, heat.useful, heat.idle)


def _theta(key: PRNGKey, plateau: Plateau, heat: Heat, way: _Way, notes: _Notes) -> _Theta:
    """The numbers once more, now that chains are in as many modes as were found."""
    fixed, keys = notes.fixed, jax.random.split(key, 4)
    hot = [
        (level.temperature, plateau.outside(level.burst.positions))
        for level in heat.levels[1:]
        if level.temperature <= 1.001 * way.hottest
    ]
    plateau.positions = heat.widest.positions
    if "linear" not in fixed:
        found = plateau.better_map(keys[0], fixed.get("step_size"), fixed.get("noise"))
        plateau.use(found.linear)
        reason = found.why
    else:
        reason = "each coordinate's standard deviation"
    notes.choose("linear", plateau.linear, reason)
    curvature, where = plateau.steepest(keys[1], hot)
    eta = fixed.get("step_size")
    numbers = plateau.numbers(keys[2], curvature, eta, fixed.get("noise"))
    steps = plateau.verified(keys[3], numbers.steps, eta is not None)
    reason = steps.why_eta if where == "1" else f"{steps.why_eta} (at T = {where}, times λ)"
    eta = notes.choose("step_size", steps.eta, reason)
    c = notes.choose("noise", steps.c, steps.why_c)
    own = eta * numbers.noise.mean / 2
    uneven = numbers.whole.uneven(eta, c) if steps.apart else None
    return _Theta(eta, c, c + own, own > NOISY * c, uneven)


def _xi(plateau: Plateau, way: _Way, theta: _Theta, notes: _Notes) -> _Xi:
    """Coupling, form, bias and ξ's mass, from the fluctuations on the ladder."""
    seen = way.seen
    lengths = seen.length(False), seen.length(True)
    damps = notes.fixed.get("thermostat", ScalarThermostat())
    widens = lengths[1] < WIDENS * lengths[0] and isinstance(damps, SeparableThermostat)
    center = notes.choose(
        "center",
        way.middle if widens else None,
        f"ξ's way is {lengths[0]:.3g} standard deviations of the energy long, {lengths[1]:.3g} if θ"
        " widens with it",
    )
    widens = center is not None
    reason = f"up to {way.hottest:g}: {way.why}"
    coupling = notes.choose("coupling", seen.coupling(widens, way.idle), reason)
    count = slope.bins(seen, widens, coupling)
    bias = notes.choose(
        "bias",
        AdaptiveBiasingForce(count),
        f"{count} bins, {slope.BINS_PER_SD} to a standard deviation of the energy",
    )
    size = dimension(plateau.like)
    thermostat = notes.choose("thermostat", *_thermostat(plateau.like, way, theta))
    if plateau.many:
        # Mini-batches' noise hides how long the energy remembers, and a draw is dear.
        kept = FURTHEST, f"a draw has {size:,} numbers"
    else:
        kept = spacing(plateau.burst), "half the energy's autocorrelation time"
    parts = {
        "thermostat": thermostat,
        "coupling": coupling,
        "bias": bias,
        "center": center,
        "xi_noise": notes.choose("xi_noise", XI_NOISE, "as for θ"),
        "xi_thermostat": notes.choose("xi_thermostat", ScalarThermostat(), "Γ = 100 steps"),
    }
    notes.choose("keep_every", *kept)
    return _Xi(parts, *slope.xi_step_size(seen, coupling, widens))


def _thermostat(like: Position, way: _Way, theta: _Theta) -> tuple[SeparableThermostat, str]:
    """Which coordinates share a friction, and how fast it adapts."""
    sizes = [leaf.size for leaf in jax.tree.leaves(like) if leaf.size]
    few = sum(sizes) <= LARGEST_DIAGONAL
    kind, sharing, noisy, reason = ScalarThermostat, sum(sizes), theta.noisy, ""
    if theta.noisy and few:
        kind, sharing = DiagonalThermostat, 1
        reason = "noise need not be alike in all coordinates; "
    elif theta.uneven is not None:
        kind, sharing, noisy = TensorThermostat, min(sizes), True
        reason = f"one friction would leave the noisiest tensor {theta.uneven:.3g} times too hot"
        reason += " or more; "
    inertia, why = thermostat_steps(theta.friction, sharing, noisy=noisy, far=way.far)
    return kind(steps=inertia), (
        f"{reason}Γ = {inertia:.3g} steps: {why}, fluctuates less than the friction"
        f" {theta.friction:.3g}"
    )


def _tried(
    key: PRNGKey, plateau: Plateau, theta: _Theta, xi: _Xi, notes: _Notes, untuned: Untuned
) -> tuple[Langevin, Position]:
    """The whole sampler, with a heavier ξ until its kinetic temperature is right.

    And with half the step size for θ after each divergence.
    """
    eta = theta.eta
    positions, seen = plateau.outside(plateau.burst.positions), []
    eta_xi = notes.fixed.get("xi_step_size", xi.step_size)
    steps, why = TRIAL_BURSTS * plateau.bursts.steps, xi.why
    for number in range(TRIALS):
        made = _made(eta, eta_xi, plateau, theta, xi, untuned)
        now = jax.random.fold_in(key, number)
        every = notes.value("keep_every")
        keep = Keep(every=every, after=steps // 2, forget=True)
        run = quiet_run(now, made, plateau.potential, positions, steps, keep)
        plateau.bursts.gradients += plateau.bursts.chains * steps
        if run.failures:
            seen.append(f"η = {eta:.3g}, η_ξ = {eta_xi:.3g}: {run.failures[0]}")
            if "step_size" not in notes.fixed:
                eta /= 2
        else:
            hot = float(np.mean(run.after_warmup("xi_kinetic_temperature")))
            trips = float(np.mean(run.round_trips)) * 1e5 / steps
            told = f"kinetic temperature {hot:.3g}, {trips:.3g} round trips in 10⁵ steps"
            seen.append(f"η_ξ = {eta_xi:.3g}: {told}")
            if hot <= XI_HOT or "xi_step_size" in notes.fixed:
                if eta < theta.eta:
                    notes.revise("step_size", eta, "halved since whole trials diverged")
                notes.choose("xi_step_size", eta_xi, f"{why}; {told}")
                # Not where the trial ended, at any temperature, but where it began.
                return made, positions
        if "xi_step_size" in notes.fixed:
            if "step_size" in notes.fixed:
                break
            continue
        eta_xi, why = eta_xi / 3, f"{xi.why}; then lighter was too light ({'; '.join(seen)})"
    raise TuningError("ξ was not stable with any mass. Seen: " + "; ".join(seen))


def _made(
    eta: float, eta_xi: float, plateau: Plateau, theta: _Theta, xi: _Xi, untuned: Untuned
) -> Langevin:
    """The sampler of what was chosen, with the parts that were given."""
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
    """What is given, by the names under which things are chosen.

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
    return int(np.clip(burst.every * time / 2, CLOSEST, FURTHEST))
