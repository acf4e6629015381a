"""Thermostats and momenta of a run against Theorem 1."""

from typing import TYPE_CHECKING

import jax
import numpy as np

from tacthmc.diagnostics._laws import Law, thermostat_laws
from tacthmc.dynamics import Langevin, Splitting
from tacthmc.potentials import measure_noise

if TYPE_CHECKING:
    from tacthmc.run._result import Run


def measured_laws(run: "Run") -> list[Law]:
    """The laws, with the noise measured at a few draws of the run."""
    assert isinstance(run.sampler, Langevin)
    # A key of its own: chains fold their numbers into the same key.
    key = jax.random.fold_in(run.key, 2**31)
    sampler, inner = run.sampler, run.sampler.coordinates
    draws = [inner.from_theta(run.cold_draw(i % run.num_chains, (i + 1) / 5)) for i in range(4)]
    own = [run.potential.for_chain(i % run.num_chains) for i in range(len(draws))]
    levels = [
        measure_noise(jax.random.fold_in(key, i), inner.potential(own[i]), draw, 256)
        for i, draw in enumerate(draws)
    ]
    force = jax.tree.map(
        lambda *v: np.asarray(np.mean(v, axis=0)), *(level.force for level in levels)
    )
    # The law of z_ξ does not apply to a table of losses, whose noise is smaller in a chain than
    # measured here, nor if the covariance correction supplies the friction.
    traits = run.potential.traits
    corrected = traits.independent_batches and isinstance(sampler.integrator, Splitting)
    known = not traits.remembers and not corrected
    energy = float(np.mean([level.energy for level in levels])) if known else None
    return thermostat_laws(sampler, draws[0], force, energy, run.after_warmup)
