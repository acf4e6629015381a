"""The noise of the force and of the energy, measured at a few draws of a run."""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from tacthmc.dynamics import Langevin
from tacthmc.potentials import NoiseLevels, measure_noise

if TYPE_CHECKING:
    from tacthmc.run._result import Run

DRAWS, BATCHES = 16, 64
"""The number of draws at which the noise is measured, and the number of batches at each."""
NOISE_GRADIENTS = DRAWS * BATCHES
"""The number of gradients that this takes."""


class DrawNoise(NamedTuple):
    """Draws in the coordinates of the sampler, and the noise at each of them."""

    draws: list[Any]
    levels: list[NoiseLevels]

    @property
    def force(self) -> Any:
        """The variance of each component of the force, as a mean over draws."""
        return mean_force(self.levels)


def mean_force(levels: list[NoiseLevels]) -> Any:
    """The mean variance of each component of the force."""
    return jax.tree.map(
        lambda *v: np.asarray(np.mean(v, axis=0)), *(level.force for level in levels)
    )


def measured_noise(run: "Run") -> DrawNoise:
    """The noise at draws of all chains, spread over the run."""
    # A key of its own: chains fold their numbers into the same key.
    key = jax.random.fold_in(run.key, 2**31)
    assert isinstance(run.sampler, Langevin)
    inner = run.sampler.coordinates
    places = [(i % run.num_chains, (i + 0.5) / DRAWS) for i in range(DRAWS)]
    with jax.enable_x64(run.x64):
        draws = [inner.from_theta(run.cold_draw(*place)) for place in places]
        own = [run.potential.for_chain(chain) for chain, _ in places]
        levels = [
            measure_noise(jax.random.fold_in(key, i), inner.potential(own[i]), draw, BATCHES)
            for i, draw in enumerate(draws)
        ]
    return DrawNoise(draws, levels)
