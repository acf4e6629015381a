"""The way without ξ: chains at unit temperature, with jumps if there are several modes."""

from typing import Any, NamedTuple

import jax
import numpy as np

from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics import Adjusted, Coordinates, Langevin, ModeJumps, Modes, NoThermostat
from tacthmc.samplers import Untuned
from tacthmc.tuning._acceptance import MAX_HALVINGS, accepted_step
from tacthmc.tuning._bursts import flat_draws, stacked
from tacthmc.tuning._finite_starts import finite_starts
from tacthmc.tuning._jump_numbers import OFTEN, Tried, tried_jumps
from tacthmc.tuning._mode_search import Search
from tacthmc.tuning._mode_shapes import fitted_modes
from tacthmc.tuning._notes import Notes
from tacthmc.tuning._objective import objective
from tacthmc.tuning._plateau import Plateau
from tacthmc.tuning._theta_numbers import (
    MIN_SPACING,
    Theta,
    draw_spacing,
    final_numbers,
    first_numbers,
    thermostat_for,
)

MIN_NOTABLE_WEIGHT = 1e-3
"""The weight of a mode, by Laplace's approximation, from which steps have to be stable in it."""
LONGEST = 64.0
"""The longest step that is tried, relative to the one for a splitting, which the largest curvature
limits. A sharp peak has a large curvature, and adjusted steps may be long there all the same."""
JUMP_SHARE = 0.1
"""The gradients of the trial of jumps, relative to those of the search and the steps so far."""


class AtUnitTemperature(NamedTuple):
    """Numbers of θ at unit temperature, and a trial of jumps."""

    theta: Theta
    tried: Tried
    parts: dict[str, Any]
    positions: Position
    """A position for each chain."""


def tune_at_unit_temperature(
    key: PRNGKey, plateau: Plateau, notes: Notes, modes: Modes
) -> AtUnitTemperature:
    """Choose the numbers of θ with chains in all modes, and try jumps."""
    keys = jax.random.split(key, 5)
    starts = starts_in(keys[0], modes, plateau.like, plateau.bursts.chains)
    plateau.positions = plateau.from_theta(finite_starts(plateau.potential, starts))
    plateau.use_modes(_centers(modes, plateau.like))
    first_numbers(keys[1], plateau, notes)
    theta = final_numbers(keys[2], plateau, [], notes)
    several = modes.count > 1
    notes.begin("trying jumps")
    tried = _tried(keys[3], plateau, modes)
    plateau.bursts.gradients += tried.gradients
    if plateau.is_exact and "thermostat" not in notes.fixed:
        theta, parts = _adjusted(keys[4], plateau, theta, notes)
    else:
        chosen = thermostat_for(plateau.like, theta, several)
        parts = {"thermostat": notes.choose("thermostat", *chosen), "integrator": None}
    notes.choose("keep_every", *_spacing(plateau, tried))
    ends = finite_starts(plateau.potential, plateau.to_theta(plateau.burst.positions))
    return AtUnitTemperature(theta, tried, parts, ends)


def _adjusted(
    key: PRNGKey, plateau: Plateau, theta: Theta, notes: Notes
) -> tuple[Theta, dict[str, Any]]:
    """Steps with a Metropolis test, which have no bias, and the step size for them."""
    draws = plateau.burst.draws
    positions = stacked(draws.reshape(-1, draws.shape[-1]), plateau.like)
    halvings = 0 if "step_size" in notes.fixed else MAX_HALVINGS
    longest = theta.eta * (LONGEST if halvings else 1.0)
    eta, mean, spent = accepted_step(
        key,
        plateau.mapped_potential,
        positions,
        len(draws),
        longest,
        halvings,
    )
    plateau.bursts.gradients += spent
    if halvings:
        notes.revise("step_size", eta, f"the longest of which {mean:.0%} are accepted")
    reason = f"energies are exact: {mean:.0%} of steps are accepted, and have no bias"
    integrator = notes.choose("integrator", Adjusted(), reason)
    none = notes.choose("thermostat", NoThermostat(), "there is no noise to absorb")
    return theta._replace(eta=eta), {"thermostat": none, "integrator": integrator}


def _centers(modes: Modes, like: Position) -> Position:
    """The centers of modes that matter, from the heaviest."""
    weights = np.exp(np.asarray(modes.log_weights, float))
    heavy = np.argsort(-weights)[: max(1, int(np.sum(weights > MIN_NOTABLE_WEIGHT)))]
    return stacked(np.asarray(modes.centers, float)[heavy], like)


def _spacing(plateau: Plateau, tried: Tried) -> tuple[int, str]:
    """The number of steps between draws, which is small if each jump makes a new draw."""
    every, reason = draw_spacing(plateau, plateau.burst)
    due = max(MIN_SPACING, tried.jumps.every)
    if plateau.is_high_dimensional or not (
        tried.useful and tried.accepted >= OFTEN and due < every
    ):
        return every, reason
    return due, f"{tried.accepted:.0%} of jumps are accepted, each for a draw nearly independent"


def _tried(key: PRNGKey, plateau: Plateau, modes: Modes) -> Tried:
    energies = objective(key, plateau.potential, plateau.like)
    vectors = plateau.burst.draws.reshape(-1, plateau.burst.draws.shape[-1])
    positions = plateau.to_theta(stacked(vectors, plateau.like))
    draws = flat_draws(jax.tree.map(lambda x: x[None], positions))[0]
    modes = fitted_modes(modes, draws.reshape(plateau.burst.draws.shape).astype(float))
    return tried_jumps(key, energies, modes, draws, JUMP_SHARE * plateau.bursts.gradients)


def made_at_unit_temperature(
    found: AtUnitTemperature, plateau: Plateau, untuned: Untuned, jumps: ModeJumps | None
) -> Langevin:
    """The sampler without ξ."""
    return Langevin(
        found.theta.eta,
        noise=found.theta.c,
        thermostat=found.parts["thermostat"],
        integrator=found.parts["integrator"],
        coordinates=Coordinates(plateau.linear),
        refresh=untuned.refresh,
        jumps=jumps,
    )


def starts_in(key: PRNGKey, modes: Modes, like: Position, count: int) -> Position:
    """A stack of positions from the Gaussians of the modes, the heaviest modes first.

    Each mode has a position before any has two. The others go to modes by their weights.
    """
    # NumPy, because a few single numbers are not worth compiling for.
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    weights = np.exp(np.asarray(modes.log_weights, float))
    order = np.argsort(-weights)[:count]
    more = rng.choice(len(weights), count - len(order), p=weights / weights.sum())
    which = np.concatenate([order, more]).astype(int)
    normal = rng.normal(size=(count, modes.centers.shape[1]))
    centers, scales = (np.asarray(x, float) for x in (modes.centers, modes.scales))
    vectors = centers[which] + np.einsum("nij,nj->ni", scales[which], normal)
    return stacked(vectors, like)


def reasons(search: Search) -> str:
    """What a search found, in words."""
    if search.why_not and not search.found:
        return search.why_not
    many = f"{len(search.found)} mode{'s' if len(search.found) != 1 else ''}"
    return f"{search.starts} minimizations from over-dispersed starts found {many}" + (
        f"; {search.why_not}" if search.why_not else ""
    )


def jump_reason(search: Search, tried: Tried) -> str:
    """What a trial of jumps gave, in words."""
    text = f"{reasons(search)}; {tried.accepted:.0%} of jumps are accepted"
    if tried.jumps.modes.count == 1:
        return text + ("" if tried.useful else ", which does not pay")
    return f"{text}, and each leaves a mode with a probability of {tried.leaving:.2g} or more"
