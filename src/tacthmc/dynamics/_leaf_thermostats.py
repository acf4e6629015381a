"""Thermostats with one friction for each leaf of the position, or for each coordinate."""

from tacthmc.dynamics._thermostat import AdaptiveThermostat, LeafThermostat


class TensorThermostat(LeafThermostat):
    """One friction for each leaf of the position, such as each weight matrix and bias vector.

    >>> import jax.numpy as jnp
    >>> network = {"weight": jnp.zeros((3, 2)), "bias": jnp.zeros(2)}
    >>> z = TensorThermostat().init(network, jnp.array(0.1))
    >>> z["weight"].shape, z["bias"].shape
    ((), ())
    """

    __init__ = AdaptiveThermostat.__init__

    def is_shared(self, size: int) -> bool:
        return True


class DiagonalThermostat(LeafThermostat):
    """One friction for each coordinate, for noise of unequal variances.

    >>> import jax.numpy as jnp
    >>> DiagonalThermostat(steps=200).init(jnp.zeros((3, 2)), jnp.array(0.1)).shape
    (3, 2)
    """

    __init__ = AdaptiveThermostat.__init__

    def is_shared(self, size: int) -> bool:
        return False
