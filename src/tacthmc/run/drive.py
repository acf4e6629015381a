"""The loop of a run: a chunk computes while the host takes in the one before it."""

import json
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from tacthmc.devices import on_every_host, place
from tacthmc.run.chains import run_chunk
from tacthmc.run.chunk import Chain, Filled, Limits
from tacthmc.run.failure import Failure, failures_in
from tacthmc.run.feed import Feeder
from tacthmc.run.monitor import Monitor, Snapshot
from tacthmc.run.persist import BUFFER_BYTES, StoreWriter, take
from tacthmc.run.plan import Plan
from tacthmc.run.progress import Progress
from tacthmc.run.record import MemoryRecord
from tacthmc.run.signals import Interrupt

# A chunk should take about this long: often enough to tell of it and to be stopped.
CHUNK_SECONDS = 1.0


class _Flight(NamedTuple):
    """A chunk on its way."""

    chains: Chain
    filled: Filled
    intervals: int
    done: int
    places: list[Any] | None
    launched: float


@dataclass
class Outcome:
    """How a run ended."""

    chains: Chain
    done: int
    seconds: float
    compile_seconds: float
    interrupted: bool = False
    failures: list[Failure] = field(default_factory=list)


class Drive:
    """Runs a plan's chunks from ``done`` intervals on."""

    def __init__(
        self,
        plan: Plan,
        keys: Any,
        chains: Chain,
        sink: MemoryRecord | StoreWriter,
        feeder: Feeder | None,
        *,
        done: int = 0,
        seconds: float = 0.0,
        compile_seconds: float = 0.0,
    ):
        """``seconds`` are those that earlier sessions took."""
        self._plan, self._keys, self._sink, self._feeder = plan, keys, sink, feeder
        self._store = sink if isinstance(sink, StoreWriter) else None
        self._begun = time.perf_counter() - seconds
        self._outcome = Outcome(chains, done, seconds, compile_seconds)
        self._places = feeder.places if feeder else None
        self._count = 1
        self._last_commit = (done, time.perf_counter())
        self._last_ready = time.perf_counter()

    def first_commit(self) -> None:
        """A checkpoint before the first step, so that there is always one to go on from."""
        self._commit()
        assert self._store is not None
        self._store.checkpoints.wait()

    def run(self) -> Outcome:
        """Until the end, a failure, or somebody's wish."""
        plan, outcome = self._plan, self._outcome
        context = nullcontext() if plan.mesh is None else jax.set_mesh(plan.mesh)
        with context:
            outcome.compile_seconds += self._compile()
            stored = self._store is not None
            shown = Progress(plan, outcome.compile_seconds)
            begun = time.perf_counter() - self._begun
            total = plan.intervals * plan.keep_every
            monitor = Monitor(plan.num_chains, total, self._sink.counts, begun)
            try:
                with Interrupt(stored) as interrupt, shown:
                    self._loop(monitor, shown, interrupt)
            finally:
                if self._feeder:
                    self._feeder.close()
            outcome.seconds = time.perf_counter() - self._begun
        return outcome

    def _loop(self, monitor: Monitor, shown: Progress, interrupt: Interrupt) -> None:
        plan, outcome = self._plan, self._outcome
        launched, stop, flight = outcome.done, False, None
        if self._feeder:
            self._feeder.prepare(self._next_count(launched), plan.shape.rows)
        while True:
            count, stop = self._agreed(self._next_count(launched), stop or interrupt.asked)
            following = None
            if count and not stop:
                following = self._launch(flight, launched, count)
                launched += count
            if flight is not None:
                snapshot = self._take_in(flight, monitor)
                shown.update(snapshot)
                if outcome.failures:
                    break
                stop = self._called_back(snapshot) or stop
            flight = following
            if flight is None:
                break
        outcome.interrupted = outcome.done < plan.intervals and not outcome.failures
        self._finish()

    def _called_back(self, snapshot: Snapshot) -> bool:
        """Whether a callback wants to stop; one that fails loses nothing that was stored."""
        try:
            wishes = [bool(callback(snapshot)) for callback in self._plan.callbacks]
        except Exception:
            self._outcome.interrupted = True
            self._finish()
            raise
        return any(wishes)

    def _agreed(self, count: int, stop: bool) -> tuple[int, bool]:
        """What the first process decides, everywhere."""
        if jax.process_count() == 1:
            return count, stop
        both = multihost_utils.broadcast_one_to_all(np.array([count, stop], np.int32))
        return int(both[0]), bool(both[1])

    def _next_count(self, launched: int) -> int:
        """How many intervals the next chunk makes."""
        plan = self._plan
        left = plan.intervals - launched
        count = plan.shape.rows if self._feeder else min(plan.shape.rows, self._count)
        every = plan.commit_intervals()
        if every is not None and self._store is not None:
            count = min(count, every - launched % every)
        return min(count, left)

    def _limits(self, count: int) -> Limits:
        return place(
            self._plan.mesh, Limits(jnp.asarray(count), jnp.asarray(self._plan.num_warmup))
        )

    def _call(self, chains: Chain, feed: Any, count: int) -> tuple[Chain, Filled]:
        plan = self._plan
        per_chain = plan.source is not None and plan.source.per_chain
        return run_chunk(
            plan.sampler,
            plan.potential,
            self._keys,
            chains,
            feed,
            self._limits(count),
            plan.shape,
            plan.swept,
            per_chain,
            plan.spmd,
        )

    def _compile(self) -> float:
        """Compile by running no interval at all; the time that takes is not the run's."""
        begun = time.perf_counter()
        feed = self._feeder.blank(self._plan.shape.rows) if self._feeder else None
        jax.block_until_ready(self._call(self._outcome.chains, feed, 0))
        took = time.perf_counter() - begun
        self._begun += took
        return took

    def _launch(self, flight: _Flight | None, launched: int, count: int) -> _Flight:
        plan = self._plan
        chains = self._outcome.chains if flight is None else flight.chains
        batches, places = None, None
        if self._feeder:
            batches, places = self._feeder.get()
        if self._store is not None:
            # No further ahead than one checkpoint that is still being written.
            if launched > self._last_commit[0]:
                self._store.checkpoints.wait()
            if jax.process_index() == 0:
                self._store.folder.reached((launched + count) * plan.keep_every)
        now = time.perf_counter()
        chains, filled = self._call(chains, batches, count)
        if self._feeder:
            self._feeder.prepare(self._next_count(launched + count), plan.shape.rows)
        return _Flight(chains, filled, count, launched + count, places, now)

    def _take_in(self, flight: _Flight, monitor: Monitor) -> Snapshot:
        plan, outcome = self._plan, self._outcome
        _wait(flight.filled.rows.step)
        ready = time.perf_counter()
        took = ready - max(flight.launched, self._last_ready)
        self._last_ready = ready
        self._adapt(flight.intervals, took)
        columns, kept = take(flight.filled, flight.intervals, plan.mesh, self._store is not None)
        self._sink.append(columns, kept)
        health = on_every_host(plan.mesh, flight.chains.health)
        outcome.failures = failures_in(health, columns)
        outcome.chains, outcome.done = flight.chains, flight.done
        self._places = flight.places
        if self._store is not None and self._due():
            self._commit()
        seconds = ready - self._begun
        made = flight.intervals * plan.keep_every
        return monitor.add(flight.done * plan.keep_every, made, columns, seconds)

    def _adapt(self, count: int, took: float) -> None:
        """Chunks of about the time wanted, found in a few steps."""
        wanted = count * CHUNK_SECONDS / max(took, 1e-6)
        self._count = int(max(1, min(wanted, 8 * count)))

    def _due(self) -> bool:
        assert self._store is not None
        plan, (done, when) = self._plan, self._last_commit
        every = plan.commit_intervals()
        due = self._store.buffered > BUFFER_BYTES
        if every is not None:
            due = due or self._outcome.done - done >= every
        if plan.checkpoint_seconds is not None:
            due = due or time.perf_counter() - when >= plan.checkpoint_seconds / 2
        return self._agreed(0, due)[1]

    def _commit(self, finished: bool = False) -> None:
        assert self._store is not None
        outcome = self._outcome
        notes = {
            "seconds": time.perf_counter() - self._begun,
            "compile_seconds": outcome.compile_seconds,
            "done": outcome.done,
            "interrupted": outcome.interrupted,
            "failures": [failure.to_json() for failure in outcome.failures],
            "places": _shared(self._places),
        }
        steps = outcome.done * self._plan.keep_every
        self._store.commit(steps, outcome.chains, notes, finished)
        self._last_commit = (outcome.done, time.perf_counter())

    def _finish(self) -> None:
        """Everything to disk, and the checkpoint waited for."""
        if self._store is not None:
            self._commit(finished=self._outcome.done >= self._plan.intervals)
            self._store.checkpoints.wait()


def _wait(array: Any) -> None:
    """Wait in small steps, so that a second Ctrl-C is heard at once."""
    pause = 1e-4
    while not array.is_ready():
        time.sleep(pause)
        pause = min(2 * pause, 5e-3)


def _shared(places: list[Any] | None) -> list[Any] | None:
    """Each chain's place in its loader, from whichever process has it."""
    if places is None or jax.process_count() == 1:
        return places
    text = json.dumps(places).encode()
    size = int(multihost_utils.process_allgather(np.array(len(text))).max())
    padded = np.frombuffer(text.ljust(size), np.uint8)
    everyone = [json.loads(bytes(row)) for row in multihost_utils.process_allgather(padded)]
    # A process that does not hold a chain still has the place it began with: the furthest counts.
    return [
        max(candidates, key=lambda p: -1 if p is None else p["taken"])
        for candidates in zip(*everyone, strict=True)
    ]
