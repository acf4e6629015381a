"""Thermostats and momenta of a run against Theorem 1."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import numpy as np

from tacthmc.diagnostics._laws import Law, thermostat_laws
from tacthmc.dynamics import Langevin, Splitting
from tacthmc.potentials import measure_noise
from tacthmc.potentials._noisy import NoiseLevels

if TYPE_CHECKING:
    from tacthmc.run._result import Run


DRAWS, BATCHES = 16, 64
"""The number of draws at which the noise is measured, and the number of batches at each."""
NOISE_GRADIENTS = DRAWS * BATCHES
"""The number of gradients that this takes."""


def measured_laws(run: "Run") -> list[Law]:
    """The laws, with the noise measured at a few draws of the run.

    The expected means have errors from the differences between these draws.
    """
    assert isinstance(run.sampler, Langevin)
    # A key of its own: chains fold their numbers into the same key.
    key = jax.random.fold_in(run.key, 2**31)
    sampler, inner = run.sampler, run.sampler.coordinates
    places = [(i % run.num_chains, (i + 0.5) / DRAWS) for i in range(DRAWS)]
    draws = [inner.from_theta(run.cold_draw(*place)) for place in places]
    own = [run.potential.for_chain(chain) for chain, _ in places]
    levels = [
        measure_noise(jax.random.fold_in(key, i), inner.potential(own[i]), draw, BATCHES)
        for i, draw in enumerate(draws)
    ]
    # The law of z_ξ does not apply to a table of losses, whose noise is smaller in a chain than
    # measured here, nor if the covariance correction supplies the friction.
    traits = run.potential.traits
    corrected = traits.independent_batches and isinstance(sampler.integrator, Splitting)
    known = not traits.remembers and not corrected

    def laws(some: list[NoiseLevels], column: Callable[[str], np.ndarray]) -> list[Law]:
        force = jax.tree.map(
            lambda *v: np.asarray(np.mean(v, axis=0)), *(level.force for level in some)
        )
        energy = float(np.mean([level.energy for level in some])) if known else None
        return thermostat_laws(sampler, draws[0], force, energy, column)

    whole = laws(levels, run.after_warmup)
    nothing = np.zeros((1, 1))
    alone = [laws([level], lambda _: nothing) for level in levels]
    means = np.array([[law.expected_mean for law in each] for each in alone])
    errors = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    return [law._replace(expected_error=float(e)) for law, e in zip(whole, errors, strict=True)]
