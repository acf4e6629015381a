"""This library as a contestant: whole runs through ``tacthmc.sample``."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

import tacthmc
from benchmarks.speed.clock import Lap, Completion, enough
from benchmarks.speed.steps import Steps
from tacthmc.dynamics._sampler import Sampler
from tacthmc.potentials._base import Potential
from tacthmc.run._result import Run


@dataclass(frozen=True)
class Driven:
    """What to run; every lap is the same run, with driver, statistics and draws in memory."""

    sampler: Sampler
    potential: Potential
    init: Any
    chains: int
    seed: int
    mesh: Mesh | None = None
    """The cores that it runs on; None: one device, as JAX has it."""

    def run(self, steps: int) -> Run:
        """A run of so many steps a chain."""
        run = tacthmc.sample(
            jax.random.key(self.seed),
            self.sampler,
            self.potential,
            self.init,
            steps,
            self.chains,
            num_warmup=0,
            progress=False,
            mesh=self.mesh,
        )
        if run.failures:
            # It stopped early, so that its time is not that of the steps asked for.
            raise FloatingPointError(f"a chain is no longer finite: {run.failures[0]}")
        return run

    def steps(self) -> Steps:
        """The same run's steps, without the host's part of it."""
        if self.mesh is not None:
            raise ValueError(f"steps alone are those of one device; got mesh={self.mesh}")
        positions = jax.tree.map(lambda x: jnp.stack([x] * self.chains), self.init)
        return Steps(self.sampler, self.potential, positions, self.seed)

    def ready(self, seconds: float) -> Completion:
        """Compile, then find how many steps take about so long."""
        unit = self.sampler.keep_every
        compile_seconds = self.run(unit).compile_seconds
        steps = enough(lambda count: self.run(count).seconds, seconds, unit)

        def go() -> Lap:
            run = self.run(steps)
            return Lap(run.seconds, run.num_steps * self.chains)

        facts = {"steps": steps, "chains": self.chains, "keep_every": unit}
        return Completion(go, compile_seconds, facts)
