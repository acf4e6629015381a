"""A constant friction in place of a thermostat."""

import equinox as eqx
import jax

from tacthmc._typing import Position, Scalar
from tacthmc.dynamics._noise_levels import NoiseLevels
from tacthmc.dynamics._step_rates import StepRates
from tacthmc.dynamics._thermostat import KineticExcess, SeparableThermostat, Shape, checked_shape


class NoThermostat(SeparableThermostat):
    """A constant friction c/T, which is right only if the gradient has no noise.

    >>> import jax.numpy as jnp
    >>> round(float(NoThermostat().init(jnp.zeros(3), jnp.array(0.1))), 3)
    0.1
    """

    shape: Shape = eqx.field(static=True)

    def __init__(self, shape: Shape = "isotropic"):
        """Use a constant friction of a shape, "isotropic" or "mass"."""
        self.shape = checked_shape(shape)

    def init(self, position: Position, friction: Scalar) -> Scalar:
        """The constant."""
        return friction

    def respond(self, z: Scalar, excess: KineticExcess, weight: Scalar) -> Scalar:
        return z

    def per_leaf(self, z: Scalar, like: Position) -> Position:
        return jax.tree.map(lambda leaf: z.astype(leaf.dtype), like)

    def level(self, z: Scalar) -> Scalar:
        return z

    def level_law(
        self, position: Position, noise: NoiseLevels, rates: StepRates
    ) -> tuple[float, float]:
        """Mean c/T, variance 0."""
        return float(noise.injected / rates.bath), 0.0
