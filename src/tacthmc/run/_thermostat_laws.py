"""Thermostats and momenta of a run against Theorem 1."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tacthmc.diagnostics._laws import Law, thermostat_laws
from tacthmc.dynamics import Langevin, Splitting
from tacthmc.potentials._noisy import NoiseLevels
from tacthmc.run._draw_noise import mean_force

if TYPE_CHECKING:
    from tacthmc.run._result import Run


def measured_laws(run: "Run") -> list[Law]:
    """The laws, with the noise measured at a few draws of the run.

    The expected means have errors from the differences between these draws.
    """
    assert isinstance(run.sampler, Langevin)
    sampler, (draws, levels) = run.sampler, run.draw_noise
    # The law of z_ξ does not apply to a table of losses, whose noise is smaller in a chain than
    # measured here, nor if the covariance correction supplies the friction.
    traits = run.potential.traits
    corrected = traits.independent_batches and isinstance(sampler.integrator, Splitting)
    known = not traits.remembers and not corrected

    def laws(some: list[NoiseLevels], column: Callable[[str], np.ndarray]) -> list[Law]:
        energy = float(np.mean([level.energy for level in some])) if known else None
        return thermostat_laws(sampler, draws[0], mean_force(some), energy, column)

    whole = laws(levels, run.after_warmup)
    nothing = np.zeros((1, 1))
    alone = [laws([level], lambda _: nothing) for level in levels]
    means = np.array([[law.expected_mean for law in each] for each in alone])
    errors = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    return [law._replace(expected_error=float(e)) for law, e in zip(whole, errors, strict=True)]
