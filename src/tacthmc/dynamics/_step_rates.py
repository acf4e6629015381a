"""What a step hands to a thermostat: its rates and its momenta."""

from typing import Any, NamedTuple

from jaxtyping import Array

from tacthmc._typing import Number, Position, Scalar


class StepRates(NamedTuple):
    """The rates of one step: η, c, the bath's temperature T, and the step count."""

    eta: Scalar
    c: Scalar
    bath: Number
    step: Array


class StepMomenta(NamedTuple):
    """The momenta of one step of the splitting, from which a thermostat is driven."""

    after: Position
    """r′, the momenta after the kick."""
    mean: Position
    """(r + r′)/2, the mean of the momenta before and after the kick."""
    mass: Position
    rates: StepRates
    weight: Scalar
    """λ²."""
    mean_friction: Any
    """z̄."""
