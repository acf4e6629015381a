"""The steps of a run: what the device computes, without the work of the host."""

import time
from typing import Any

import jax

import tacthmc
from benchmarks.speed.clock import Lap, Ready, enough
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential

ROOM = 4
"""Intervals in a chunk."""
EVERY = 50
"""Steps in an interval."""


class Steps:
    """Chains that start at ``positions`` and move in chunks, as in a run.

    The work of the host is left out: copies of draws from the device, progress, callbacks.
    """

    def __init__(
        self,
        sampler: Sampler,
        potential: Potential,
        positions: Any,
        seed: int,
        *,
        every: int = EVERY,
        room: int = ROOM,
    ):
        self.count = jax.tree.leaves(positions)[0].shape[0]
        keep = tacthmc.Keep(every=every, after=0)
        self._program = tacthmc.Program(sampler, potential, keep, num_chains=self.count, room=room)
        self.chains = self._program.start(jax.random.key(seed), tacthmc.PerChain(positions))
        self.every, self.room = every, room

    def run(self, intervals: int) -> None:
        """Move all chains on by ``intervals`` intervals, in one chunk."""
        self.chains, chunk = self._program.advance(self.chains, intervals)
        if bool((chunk.health.step != 0).any()):
            # A chain that has diverged stands still, and would count as one that moves.
            raise FloatingPointError("a chain is no longer finite")
        jax.block_until_ready((self.chains, chunk))

    def _timed(self, steps: int) -> float:
        begun = time.perf_counter()
        intervals = steps // self.every
        for done in range(0, intervals, self.room):
            self.run(min(self.room, intervals - done))
        return time.perf_counter() - begun

    def ready(self, seconds: float) -> Ready:
        """Compile, then find the number of steps that takes about ``seconds``."""
        begun = time.perf_counter()
        self.run(0)
        compile_seconds = time.perf_counter() - begun
        steps = enough(self._timed, seconds, self.every)

        def go() -> Lap:
            return Lap(self._timed(steps), steps * self.count)

        facts = {"steps": steps, "chains": self.count, "keep_every": self.every}
        return Ready(go, compile_seconds, facts)
