"""The methods of ``mobility``, each in its settings.

Names are those of the records: where θ widens with ξ, a method is called "breathing" there.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.dynamics import ContinuousTempering, Coordinates


def paper(eta: float, xi: float) -> Any:
    """``tact`` as in the paper, where θ does not widen with ξ."""
    return tacthmc.tact(eta, tempering=ContinuousTempering(step_size=xi))


def widening(eta: float, xi: float) -> Any:
    """``tact`` in coordinates that widen with the temperature about the plateau's mean."""
    return tacthmc.tact(
        eta, tempering=ContinuousTempering(step_size=xi), coordinates=Coordinates(center="mean")
    )


def methods(dimension: int, start: Any, variance: float, eta: float) -> dict[str, Any]:
    """Each method in its settings; the paper's form with ξ lighter in proportion to 1/D."""
    scaled = min(1.0, 16 / dimension)
    found: dict[str, Any] = {}
    for xi in (1e-2, 1e-1):
        sampler = paper(eta, xi * scaled)
        found[f"tact, the paper's form: xi_step_size {xi:g}·min(1, 16/D)"] = sampler
    for xi in (1e-3, 1e-2, 3e-2, 1e-1):
        found[f"tact, breathing: xi_step_size {xi:g}"] = widening(eta, xi)
    for count in (4, 8, 16, 32):
        ladder = tuple(float(t) for t in np.geomspace(1, 9, count))
        # It has no thermostat: it is told its force's noise, and injects the rest of 2cη.
        found[f"replica exchange: {count} replicas"] = tacthmc.replica_exchange(
            eta,
            temperatures=ladder,
            swap_every=5,
            energy_noise="measured",
            noise=0.3,
            noise_estimate=variance,
        )
    for cycle in (1000, 5000):
        found[f"cyclical SGHMC: cycles of {cycle}"] = tacthmc.cyclical(
            eta, cycle_steps=cycle, noise=0.3, noise_estimate=variance
        )
    for spread in (2.0, 5.0):
        # Somebody who restarts knows a start, and not how far off the other modes are.
        again = Restart(start, jnp.asarray(spread))
        found[f"SGNHT with restarts: sd {spread:g} about the start"] = tacthmc.restarted(
            tacthmc.sgnht(eta), every=1000, start=again, burn=200
        )
    return found


class Restart(eqx.Module):
    """A draw about the first start."""

    center: Any
    spread: Any

    def __call__(self, key: Any) -> Any:
        """A draw of a start."""
        return self.center + self.spread * jax.random.normal(key, self.center.shape)


def of_parts(dimension: int, effective: int, eta: float) -> dict[str, tuple[Any, bool]]:
    """``tact`` with λ on everything or on the likelihood alone (True), widening and not.

    The paper's form has ξ lighter in proportion to 1 over the dimension of what λ multiplies.
    """
    found: dict[str, tuple[Any, bool]] = {}
    for part, counted, name in (
        (False, dimension, "everything tempered"),
        (True, effective, "likelihood tempered"),
    ):
        for xi in (1e-3, 1e-2):
            lighter = xi * min(1.0, 16 / counted)
            form = f"tact, {name}, the paper's form: xi_step_size {lighter:.3g}"
            found[form] = paper(eta, lighter), part
            found[f"tact, {name}, breathing: xi_step_size {xi:g}"] = widening(eta, xi), part
    return found
