"""The way of ξ: the range of temperatures, and the numbers of ξ that moves in it."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc._positions import scalar_dtype, unflatten
from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    ContinuousTempering,
    Coordinates,
    Langevin,
    ModeJumps,
    ScalarThermostat,
)
from tacthmc.dynamics._thermostat import SeparableThermostat
from tacthmc.run._keep import Keep
from tacthmc.samplers import Untuned, tact
from tacthmc.tuning import _xi as xi_numbers
from tacthmc.tuning._bursts import quiet_run
from tacthmc.tuning._choices import TuningError
from tacthmc.tuning._ladder import Ladder, climb_ladder
from tacthmc.tuning._notes import Notes
from tacthmc.tuning._plateau import Plateau
from tacthmc.tuning._theta_numbers import (
    Theta,
    draw_spacing,
    final_numbers,
    first_numbers,
    thermostat_for,
)

MAX_XI_TEMPERATURE = 1.15
"""The largest kinetic temperature of ξ. A higher one means that its step is too large."""
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


class _Xi(NamedTuple):
    """The numbers and parts of ξ, and other parts that depend on them."""

    parts: dict[str, Any]
    """The parts by name."""
    step_size: float
    why: str


def tune_moving_xi(
    key: PRNGKey, plateau: Plateau, notes: Notes, untuned: Untuned, jumps: ModeJumps | None
) -> tuple[Langevin, Position]:
    """A sampler whose ξ moves, and a start at unit temperature for each chain.

    If heat turns out not to help, and ξ was not asked for, chains stay at unit temperature.
    """
    keys = jax.random.split(key, 5)
    ladder = _climbed(keys[0], plateau, notes)
    if untuned.tempering is None and not ladder.given and not ladder.is_useful:
        plateau.positions = ladder.widest.positions
        return _without_xi(keys[1], plateau, ladder, notes, untuned, jumps)
    temperatures = _range(keys[4], plateau, ladder, notes)
    hot = [
        (level.temperature, plateau.to_theta(level.burst.positions))
        for level in ladder.levels[1:]
        if level.temperature <= 1.001 * temperatures.hottest
    ]
    plateau.positions = ladder.widest.positions
    theta = final_numbers(keys[1], plateau, hot, notes)
    xi = _xi(plateau, temperatures, theta, notes)
    notes.begin("trying ξ")
    made, positions = _tried(keys[3], plateau, theta, xi, notes, untuned)
    if jumps is not None:
        made = eqx.tree_at(lambda s: s.jumps, made, jumps, is_leaf=lambda x: x is None)
    return made, positions


def _without_xi(
    key: PRNGKey,
    plateau: Plateau,
    ladder: Ladder,
    notes: Notes,
    untuned: Untuned,
    jumps: ModeJumps | None,
) -> tuple[Langevin, Position]:
    """A sampler at unit temperature, for a ladder that showed no use of heat."""
    theta = final_numbers(key, plateau, [], notes)
    chosen = thermostat_for(plateau.like, theta, changes_modes=False)
    thermostat = notes.choose("thermostat", *chosen)
    notes.choose("keep_every", *draw_spacing(plateau, plateau.burst))
    notes.choose("tempering", None, ladder.hottest[1])
    made = Langevin(
        theta.eta,
        noise=theta.c,
        thermostat=thermostat,
        coordinates=Coordinates(plateau.linear),
        refresh=untuned.refresh,
        jumps=jumps,
    )
    return made, plateau.to_theta(plateau.burst.positions)


def _climbed(key: PRNGKey, plateau: Plateau, notes: Notes) -> Ladder:
    """Find first numbers, and climb the ladder with them."""
    first, second = jax.random.split(key)
    steps = first_numbers(first, plateau, notes)
    notes.begin("climbing a ladder of temperatures")
    top = float(notes.fixed["coupling"].hottest) if "coupling" in notes.fixed else None
    return climb_ladder(second, plateau.bursts, plateau.burst, steps.eta, steps.c, top)


def _range(key: PRNGKey, plateau: Plateau, ladder: Ladder, notes: Notes) -> _Range:
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


def _xi(plateau: Plateau, temperatures: _Range, theta: Theta, notes: Notes) -> _Xi:
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
    thermostat = notes.choose(
        "thermostat", *thermostat_for(plateau.like, theta, temperatures.changes_modes)
    )
    parts = {
        "thermostat": thermostat,
        "coupling": coupling,
        "bias": bias,
        "center": center,
        "xi_noise": notes.choose("xi_noise", XI_NOISE, "as for θ"),
        "xi_thermostat": notes.choose("xi_thermostat", ScalarThermostat(), "Γ = 100 steps"),
    }
    notes.choose("keep_every", *draw_spacing(plateau, plateau.burst))
    return _Xi(parts, *xi_numbers.xi_step_size(profile, coupling, widens))


def _tried(
    key: PRNGKey, plateau: Plateau, theta: Theta, xi: _Xi, notes: Notes, untuned: Untuned
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
    eta: float, eta_xi: float, plateau: Plateau, theta: Theta, xi: _Xi, untuned: Untuned
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
