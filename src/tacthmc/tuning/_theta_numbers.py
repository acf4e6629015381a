"""The numbers of θ: linear map, step size, friction, thermostat and the spacing of draws."""

from typing import NamedTuple

import jax
import numpy as np

from tacthmc._positions import dimension
from tacthmc._typing import Position, PRNGKey
from tacthmc.diagnostics._laws import autocorrelation
from tacthmc.dynamics import DiagonalThermostat, ScalarThermostat, TensorThermostat
from tacthmc.dynamics._thermostat import SeparableThermostat
from tacthmc.tuning import _friction as friction
from tacthmc.tuning._bursts import Burst
from tacthmc.tuning._notes import Notes, is_word
from tacthmc.tuning._plateau import Plateau
from tacthmc.tuning._thermostats import thermostat_steps

MIN_NOISE_SHARE, MAX_DIAGONAL_DIMENSION = 0.1, 256
"""The smallest friction from the noise of the force, relative to c, for one thermostat per
coordinate, and the largest dimension for that. Mini-batch noise differs between coordinates and
places. (In higher dimension there may be one per tensor, :mod:`tacthmc.tuning._friction`.)"""
MIN_SPACING, MAX_SPACING = 5, 100
"""The limits of the number of steps between draws."""


class Theta(NamedTuple):
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


def first_numbers(key: PRNGKey, plateau: Plateau, notes: Notes) -> friction.Steps:
    """Descend, and find a first map and first numbers."""
    notes.begin("descending")
    fixed, keys = notes.fixed, jax.random.split(key, 6)
    eta, c = fixed.get("step_size"), fixed.get("noise")
    curvature = plateau.descend(keys[0])
    if is_word(fixed.get("linear"), "diagonal"):
        plateau.use_map(plateau.diagonal_map(keys[1], curvature))
        curvature = plateau.descend(keys[2])
    elif "linear" not in fixed:
        curvature = plateau.find_map(keys[2], curvature, eta, c)
    first = plateau.numbers(keys[3], curvature, eta, c)
    plateau.lengthen_bursts(first.relaxation)
    return plateau.verified(keys[4], first.steps, "step_size" in fixed)


def final_numbers(
    key: PRNGKey, plateau: Plateau, hot: list[tuple[float, Position]], notes: Notes
) -> Theta:
    """The final numbers, with chains in as many modes as were found, and some ``hot`` ones.

    ``hot`` has temperatures with positions θ.
    """
    notes.begin("choosing the step size")
    fixed, keys = notes.fixed, jax.random.split(key, 4)
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
    steps = plateau.verified(keys[3], numbers.steps, eta is not None, settled=True)
    reason = steps.why_eta if where == "1" else f"{steps.why_eta} (at T = {where}, times λ)"
    eta = notes.choose("step_size", steps.eta, reason)
    c = notes.choose("noise", steps.c, steps.why_c)
    from_noise = eta * numbers.noise.mean / 2
    heat = numbers.whole.shared_friction_heat(eta, c) if steps.per_tensor else None
    return Theta(eta, c, c + from_noise, from_noise > MIN_NOISE_SHARE * c, heat)


def thermostat_for(
    like: Position, theta: Theta, changes_modes: bool
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
        theta.friction, sharing, noisy=noisy, changes_modes=changes_modes
    )
    return kind(steps=inertia), (
        f"{reason}Γ = {inertia:.3g} steps: {why}, fluctuates less than the friction"
        f" {theta.friction:.3g}"
    )


def draw_spacing(plateau: Plateau, burst: Burst) -> tuple[int, str]:
    """The number of steps between draws, and the reason."""
    if plateau.is_high_dimensional:
        # Mini-batch noise hides the autocorrelation of the energy, and draws are large.
        return MAX_SPACING, f"a draw has {dimension(plateau.like):,} numbers"
    return spacing(burst), "half the autocorrelation time of the energy"


def spacing(burst: Burst) -> int:
    """Half the integrated autocorrelation time of the energy in steps, within limits."""
    rows = burst.energies.shape[1]
    rho = autocorrelation(burst.energies, rows // 2)
    below = np.flatnonzero(rho < 0.05)
    time = 1 + 2 * float(rho[1 : below[0] if len(below) else None].sum())
    return int(np.clip(burst.every * time / 2, MIN_SPACING, MAX_SPACING))
