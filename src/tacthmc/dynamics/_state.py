"""The state of a chain, and the information that a step reports."""

from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Int

from tacthmc._typing import Position, Scalar


class State(eqx.Module):
    """The state of a chain between two steps."""

    position: Position
    """φ, which is θ itself in plain coordinates."""
    momentum: Position
    """r."""
    thermostat: Any
    """z."""
    tempering: Any
    """A :class:`tacthmc.dynamics.TemperingState`, or None without a tempering variable."""
    step: Int[Array, ""]
    """The number of steps made."""
    model: Any = None
    """The state of the model (such as the averages of batch norm), if it has one."""
    mean_friction: Any = None
    """z̄, the running mean of z, which the thermostat of the splitting uses."""
    center: Any = None
    """μ, where θ widens with the temperature (:mod:`tacthmc.dynamics._coordinates`)."""
    memory: Any = None
    """What the integrator keeps from step to step, if anything."""


class Info(NamedTuple):
    """Information on one step. Fields that the sampler does not have are None."""

    energy: Scalar
    """The estimate Ũ that moved the chain."""
    at_unit_temperature: Bool[Array, ""]
    """Whether the position is a draw from the posterior, unless ``is_draw`` is given."""
    kinetic_temperature: Scalar | None = None
    """⟨m·r̃²⟩/η with the momentum r̃ that the thermostat reads; it is T in equilibrium. With the
    splitting it is the temperature of θ itself, as far as the energy is harmonic."""
    thermostat: Scalar | None = None
    """The mean friction z."""
    xi: Scalar | None = None
    temperature: Scalar | None = None
    """The effective temperature T/λ(ξ)."""
    xi_kinetic_temperature: Scalar | None = None
    """The kinetic temperature of ξ. It is None where no force moves ξ, as is ``xi_thermostat``."""
    xi_thermostat: Scalar | None = None
    hot: Bool[Array, ""] | None = None
    """Whether ξ is next to a wall."""
    xi_energy: Scalar | None = None
    """The energy that acts on ξ, where it is not ``energy``: the part that λ multiplies, or the
    virial-corrected energy of coordinates that widen."""
    is_draw: Bool[Array, ""] | None = None
    """Whether the position is a draw, for samplers whose position and reported temperature belong
    to different replicas."""
