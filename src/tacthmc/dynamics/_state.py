"""What a chain carries from step to step, and what it reports."""

from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Int

from tacthmc._typing import Position, Scalar


class Tempering(eqx.Module):
    """The tempering variable: ξ, its momentum r_ξ, its thermostat z_ξ, the bias's table."""

    xi: Scalar
    momentum: Scalar
    thermostat: Any
    bias: Any
    centre: Any = None
    """μ, where coordinates breathe (:mod:`tacthmc.dynamics._temperature_scaled`): then ``position`` is φ."""
    visits: Any = None
    """Steps on the plateau that μ was learnt from; None where it is fixed."""
    relaxing: Any = None
    """The window of a test for relaxation (:mod:`tacthmc.dynamics._relaxation`); None where there is none."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As stored, also before all of the fields were there: a loop wants the same structure."""
        vars(self).update({"centre": None, "visits": None, "relaxing": None} | state)


class State(eqx.Module):
    """θ, r_θ, z_θ, and ξ's part where there is one; ``step`` counts the steps made."""

    position: Position
    momentum: Position
    thermostat: Any
    tempering: Tempering | None
    step: Int[Array, ""]
    model: Any = None
    """What the model itself carries from batch to batch (batch norm's averages), if anything."""
    settled: Any = None
    """The mean of z_θ over the past, which the splitting's thermostat counts with."""


class Info(NamedTuple):
    """What a person wants to see of one step; None where the sampler has no such thing.

    ``keep`` says whether this step's position is a draw from the posterior that is due:
    at unit temperature, relaxed where that is tested, and at a multiple of ``keep_every`` steps.
    """

    energy: Scalar
    """The estimate Ũ that moved the chain."""
    at_unit_temperature: Bool[Array, ""]
    keep: Bool[Array, ""]
    kinetic_temperature: Scalar | None = None
    """⟨m·r̃²⟩/η, with the momentum r̃ that the thermostat feels: T in equilibrium. With the
    splitting it is the temperature of θ itself, as far as the energy is harmonic."""
    thermostat: Scalar | None = None
    """The mean friction z_θ."""
    xi: Scalar | None = None
    temperature: Scalar | None = None
    """The effective temperature T/λ(ξ)."""
    xi_kinetic_temperature: Scalar | None = None
    """None where ξ is led (:mod:`tacthmc.dynamics._schedule`), as its thermostat is."""
    xi_thermostat: Scalar | None = None
    hot: Bool[Array, ""] | None = None
    """Whether ξ is next to a wall."""
    felt_energy: Scalar | None = None
    """What ξ feels of this batch, where it is not ``energy`` itself: the part of it that is
    tempered (:mod:`tacthmc.potentials._energy_terms`), calmed (:mod:`tacthmc.dynamics._temperature_scaled`)."""
