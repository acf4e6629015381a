"""The networks' posteriors on random images: the speed of a step does not depend on the data."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import tacthmc
from benchmarks.speed.ours import Driven
from tacthmc.paper import networks as models
from tacthmc.potentials import Potential
from tacthmc.samplers import per_datum

SHAPES = {"mlp": ((28, 28), 47), "cnn": ((32, 32, 3), 10), "lstm": ((28, 28), 10)}
"""An image's shape, and how many classes there are."""

PRIOR_SD, LEARNING_RATE = 1.0, 1e-4
PRECISION = 1 / PRIOR_SD**2


@dataclass(frozen=True)
class Problem:
    """A network's posterior, and its data as they lie in memory."""

    name: str
    potential: Potential
    init: Any
    images: np.ndarray
    labels: np.ndarray
    batch_size: int

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.init))

    def driven(self, chains: int, seed: int, cores: int = 1) -> Driven:
        """``tact`` with its defaults on it, through ``tacthmc.sample``."""
        sampler = tacthmc.tact(per_datum(LEARNING_RATE, len(self.labels)))
        return Driven(sampler, self.potential, self.init, chains, seed, cores=cores)


def problem(name: str, num_data: int, batch_size: int, seed: int) -> Problem:
    """The posterior of ``mlp``, ``cnn`` or ``lstm`` with bytes as images and any labels."""
    shape, classes = SHAPES[name]
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (num_data, *shape), dtype=np.uint8)
    labels = rng.integers(0, classes, num_data, dtype=np.int32)
    model = getattr(models, name)()
    potential = tacthmc.posterior(
        models.gaussian_prior(scale=PRIOR_SD),
        models.categorical(model),
        (images, labels),
        batch_size,
        batched=True,
    )
    init = model.init(jax.random.key(seed))
    return Problem(name, potential, init, images, labels, batch_size)
