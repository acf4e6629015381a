"""The steps of a run alone: what the device computes, without the host's part."""

import time
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.speed.clock import Lap, Completion, enough
from tacthmc.dynamics._sampler import Sampler
from tacthmc.potentials._base import Potential
from tacthmc.run._chains import run_chunk, start_chains, traced
from tacthmc.run._chunk import Limits, Shape

ROWS = 4
"""Intervals in a chunk."""


class Steps:
    """Chains from ``positions`` on, with all that a run computes of them, in its chunks.

    What is left out is the host's: draws copied from the device, progress, callbacks.
    """

    def __init__(self, sampler: Sampler, potential: Potential, positions: Any, seed: int):
        self._sampler, self._potential = traced(sampler), potential
        self.chains, self._keys = start_chains(
            self._sampler, potential, jax.random.key(seed), positions, False, None
        )
        self.keep_every = self._sampler.keep_every
        self.count = jax.tree.leaves(positions)[0].shape[0]

    def run(self, intervals: int, rows: int = ROWS) -> None:
        """Move all chains on by so many intervals, in one chunk of room for ``rows``."""
        limits = Limits(jnp.asarray(intervals), jnp.asarray(0))
        self.chains, filled = run_chunk(
            self._sampler,
            self._potential,
            self._keys,
            self.chains,
            None,
            limits,
            Shape(rows),
            False,
            False,
            None,
        )
        if bool((filled.health.step != 0).any()):
            # A chain that stands still would count as one that moves.
            raise FloatingPointError("a chain is no longer finite")
        jax.block_until_ready((self.chains, filled))

    def _timed(self, steps: int) -> float:
        begun = time.perf_counter()
        intervals = steps // self.keep_every
        for done in range(0, intervals, ROWS):
            self.run(min(ROWS, intervals - done))
        return time.perf_counter() - begun

    def ready(self, seconds: float) -> Completion:
        """Compile, then find how many steps take about so long."""
        begun = time.perf_counter()
        self.run(0)
        compile_seconds = time.perf_counter() - begun
        steps = enough(self._timed, seconds, self.keep_every)

        def go() -> Lap:
            return Lap(self._timed(steps), steps * self.count)

        facts = {"steps": steps, "chains": self.count, "keep_every": self.keep_every}
        return Completion(go, compile_seconds, facts)
