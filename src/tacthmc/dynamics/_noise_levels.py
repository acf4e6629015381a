"""The sources of heat for θ, from which Theorem 1 gives the mean of a thermostat."""

from typing import NamedTuple

import jax
import numpy as np

from tacthmc._typing import Draws
from tacthmc.dynamics._step_rates import StepRates


class NoiseLevels(NamedTuple):
    """The sources of heat for θ: the injected noise c, and the noise of the force."""

    injected: float
    force_variance: Draws
    """v_i/(m_i·g_i) of each coordinate, the ratio that a friction of shape g balances. With the
    shape "isotropic" it is the variance v_i itself."""

    def friction(self, rates: StepRates, values: np.ndarray) -> float:
        """(c + η·v/2)/T with v the mean of ``values``."""
        heat = self.injected + float(rates.eta) * float(np.mean(values)) / 2
        return heat / float(rates.bath)

    def all_coordinates(self) -> np.ndarray:
        """The ratios of all coordinates in one vector."""
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(self.force_variance)])
