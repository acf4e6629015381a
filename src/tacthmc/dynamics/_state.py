"""What a chain carries from step to step, and what it reports."""

from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Int

from tacthmc._typing import Position, Scalar


class State(eqx.Module):
    """φ (θ itself in plain coordinates), r, z, and ξ's part; ``step`` counts the steps made."""

    position: Position
    momentum: Position
    thermostat: Any
    tempering: Any
    """A :class:`tacthmc.dynamics.TemperingState`; None without a tempering variable."""
    step: Int[Array, ""]
    model: Any = None
    """What the model itself carries from batch to batch (batch norm's averages), if anything."""
    mean_friction: Any = None
    """z̄, the mean of z over the past, which the splitting's thermostat counts with."""
    center: Any = None
    """μ, where θ widens with the temperature (:mod:`tacthmc.dynamics._coordinates`)."""


class Info(NamedTuple):
    """What a person wants to see of one step; None where the sampler has no such thing."""

    energy: Scalar
    """The estimate Ũ that moved the chain."""
    at_unit_temperature: Bool[Array, ""]
    """Whether the position is a draw from the posterior, unless ``is_draw`` says so itself."""
    kinetic_temperature: Scalar | None = None
    """⟨m·r̃²⟩/η, with the momentum r̃ that the thermostat reads: T in equilibrium. With the
    splitting it is the temperature of θ itself, as far as the energy is harmonic."""
    thermostat: Scalar | None = None
    """The mean friction z."""
    xi: Scalar | None = None
    temperature: Scalar | None = None
    """The effective temperature T/λ(ξ)."""
    xi_kinetic_temperature: Scalar | None = None
    """None where no force moves ξ, as its thermostat is."""
    xi_thermostat: Scalar | None = None
    hot: Bool[Array, ""] | None = None
    """Whether ξ is next to a wall."""
    xi_energy: Scalar | None = None
    """What pushes ξ, where that is not ``energy`` itself: the part of it that λ multiplies, or the
    virial-corrected energy of coordinates that widen."""
    is_draw: Bool[Array, ""] | None = None
    """Whether the position is a draw, where that is another question than whether what is watched
    is at unit temperature (one replica of several)."""
