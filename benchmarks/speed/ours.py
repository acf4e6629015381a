"""This library as a contestant: whole runs through ``tacthmc.sample``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import tacthmc
from benchmarks.speed.clock import Lap, Ready, enough
from benchmarks.speed.steps import EVERY, Steps
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential


@contextmanager
def spread_over(cores: int) -> Iterator[None]:
    """Let runs use ``cores`` CPU cores, and one core again afterwards."""
    if cores == 1:
        yield
        return
    tacthmc.use_cpu_devices(cores)
    try:
        yield
    finally:
        tacthmc.use_cpu_devices(1)


@dataclass(frozen=True)
class Driven:
    """A run that every lap repeats, with driver, statistics and draws in memory."""

    sampler: Sampler
    potential: Potential
    init: Any
    chains: int
    seed: int
    every: int = EVERY
    """Steps from one draw to the next."""
    cores: int = 1
    """CPU cores that it is spread over, one device each."""

    def run(self, steps: int) -> tacthmc.Run:
        """A run of ``steps`` steps per chain."""
        with spread_over(self.cores):
            run = tacthmc.sample(
                jax.random.key(self.seed),
                self.sampler,
                self.potential,
                self.init,
                steps,
                self.chains,
                keep=tacthmc.Keep(every=self.every, after=0),
                progress=False,
            )
        if run.failures:
            # It stopped early, so its time is not that of all steps.
            raise FloatingPointError(f"a chain is no longer finite: {run.failures[0]}")
        return run

    def steps(self) -> Steps:
        """The steps of the same run, without the work of the host."""
        if self.cores != 1:
            raise ValueError(f"steps are timed on one core only; got cores={self.cores}")
        positions = jax.tree.map(lambda x: jnp.stack([x] * self.chains), self.init)
        return Steps(self.sampler, self.potential, positions, self.seed, every=self.every)

    def ready(self, seconds: float) -> Ready:
        """Compile, then find the number of steps that takes about ``seconds``."""
        compile_seconds = self.run(self.every).compile_seconds
        steps = enough(lambda count: self.run(count).seconds, seconds, self.every)

        def go() -> Lap:
            run = self.run(steps)
            return Lap(run.seconds, run.num_steps * self.chains)

        facts = {"steps": steps, "chains": self.chains, "keep_every": self.every}
        return Ready(go, compile_seconds, facts)
