"""The loop of a run: a chunk computes while the host takes in the one before it."""

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.compiler._hosts import everyone, everyones_json, together
from tacthmc.compiler._mesh import local_chains, place, using
from tacthmc.run._chains import run_chunk
from tacthmc.run._chunk import Chain, Filled, Kept, Limits
from tacthmc.run._completion import Ready
from tacthmc.run._failure import Failure, failures_in
from tacthmc.run._feed import Feed, Feeder
from tacthmc.run._monitor import Monitor, Snapshot
from tacthmc.run._plan import Plan
from tacthmc.run._progress import Progress
from tacthmc.run._record import MemoryRecord
from tacthmc.run._signals import Interrupt
from tacthmc.run._writer import BUFFER_BYTES, StoreWriter, take

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
    ready: Ready


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
        """``seconds`` are those that the run took before it was interrupted."""
        self._plan, self._keys, self._sink, self._feeder = plan, keys, sink, feeder
        self._store = sink if isinstance(sink, StoreWriter) else None
        self._begun = time.perf_counter() - seconds
        self._outcome = Outcome(chains, done, seconds, compile_seconds)
        self._places = feeder.places if feeder else None
        self._count = 1
        self._error: Exception | None = None
        self._last_commit = (done, time.perf_counter())
        self._last_ready = time.perf_counter()

    def first_commit(self) -> None:
        """A checkpoint before the first step, so that there is always one to go on from."""
        self._commit()
        assert self._store is not None
        together(self._store.checkpoints.wait)

    def run(self) -> Outcome:
        """Until the end, a failure, or somebody's wish."""
        plan, outcome = self._plan, self._outcome
        with using(plan.mesh):
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
        launched, flight, wish = outcome.done, None, False
        planned = int(everyone(self._next_count(launched))[0])
        self._prepare(planned)
        while True:
            batches = self._batches() if planned else None
            wish = wish or interrupt.asked
            following, stop, due = self._decided(launched + planned, wish, flight)
            ahead = None
            if planned and not stop:
                ahead = self._launch(flight, launched, planned, batches)
                launched, planned = launched + planned, following
                self._prepare(planned)
            if flight is not None:
                snapshot = self._take_in(flight, monitor, due)
                shown.update(snapshot)
                if outcome.failures:
                    break
                wish = self._called_back(snapshot) or wish
            flight = ahead
            if flight is None:
                break
        outcome.interrupted = outcome.done < plan.intervals and not outcome.failures
        self._finish()
        # Everything is saved: now it may be said what went wrong, if anything did.
        together(self._complain)

    def _decided(self, launched: int, wish: bool, flight: _Flight | None) -> tuple[int, bool, bool]:
        """What all processes do next: intervals to plan, whether to stop, whether to commit."""
        stop = wish or self._error is not None
        due = flight is not None and self._due(flight.done)
        all_of_them = everyone(np.array([self._next_count(launched), stop, due]))
        return int(all_of_them[0, 0]), bool(all_of_them[:, 1].any()), bool(all_of_them[:, 2].any())

    def _prepare(self, count: int) -> None:
        if self._feeder:
            self._feeder.prepare(count, self._plan.shape.rows)

    def _batches(self) -> Feed | None:
        """What the loader has ready; an error of its is kept until all is saved."""
        if self._feeder is None:
            return None
        try:
            return self._feeder.get()
        except Exception as error:
            self._error = self._error or error
            return None

    def _called_back(self, snapshot: Snapshot) -> bool:
        """Whether a callback wants to stop; one that fails does, and loses nothing."""
        try:
            wishes = [bool(callback(snapshot)) for callback in self._plan.callbacks]
            return any(wishes)
        except Exception as error:
            self._error = self._error or error
            return True

    def _complain(self) -> None:
        if self._error is not None:
            raise self._error

    def _next_count(self, launched: int) -> int:
        """How many intervals the next chunk makes."""
        plan = self._plan
        left = plan.intervals - launched
        count = min(plan.shape.rows, self._count)
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

    def _launch(
        self, flight: _Flight | None, launched: int, count: int, feed: Feed | None
    ) -> _Flight:
        plan = self._plan
        chains = self._outcome.chains if flight is None else flight.chains
        batches, places = (None, None) if feed is None else feed
        if self._store is not None:
            # No further ahead than one checkpoint that is still being written.
            if launched > self._last_commit[0]:
                together(self._store.checkpoints.wait)
            if jax.process_index() == 0:
                self._store.folder.reached((launched + count) * plan.keep_every)
        now = time.perf_counter()
        chains, filled = self._call(chains, batches, count)
        ready = Ready(filled.rows.step)
        return _Flight(chains, filled, count, launched + count, places, now, ready)

    def _take_in(self, flight: _Flight, monitor: Monitor, due: bool) -> Snapshot:
        plan, outcome = self._plan, self._outcome
        ready = flight.ready.wait()
        took = ready - max(flight.launched, self._last_ready)
        self._last_ready = ready
        self._adapt(flight.intervals, took)
        columns, kept = take(flight.filled, flight.intervals, plan.mesh, self._store is not None)
        held = local_chains(plan.mesh, plan.num_chains) if self._store else range(plan.num_chains)
        draws = {int(chain): piece for chain, piece in zip(held, kept, strict=True)}
        self._sink.append(*(_forgotten(columns, kept) if plan.forget else (columns, kept)))
        outcome.failures = failures_in(flight.filled.health, columns)
        outcome.chains, outcome.done = flight.chains, flight.done
        self._places = flight.places
        if due:
            self._commit()
        seconds = ready - self._begun
        made = flight.intervals * plan.keep_every
        return monitor.add(flight.done * plan.keep_every, made, columns, draws, seconds)

    def _adapt(self, count: int, took: float) -> None:
        """Chunks of about the time wanted, found in a few steps."""
        wanted = count * CHUNK_SECONDS / max(took, 1e-6)
        self._count = int(max(1, min(wanted, max(self._count, 8 * count))))

    def _due(self, done: int) -> bool:
        """Whether what is done by then should be committed."""
        if self._store is None:
            return False
        plan, (before, when) = self._plan, self._last_commit
        every = plan.commit_intervals()
        return (
            self._store.buffered > BUFFER_BYTES
            or (every is not None and done // every > before // every)
            or (
                plan.checkpoint_seconds is not None
                and time.perf_counter() - when >= plan.checkpoint_seconds / 2
            )
        )

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
            together(self._store.checkpoints.wait)


def _forgotten(columns: Any, kept: list[Kept]) -> tuple[Any, list[Kept]]:
    """The rows alone: callbacks have had the draws."""
    none = jax.tree.map(lambda x: x[:0], kept)
    return {**columns, "keep": np.zeros_like(columns["keep"])}, none


def _shared(places: list[Any] | None) -> list[Any] | None:
    """Each chain's place in its loader, from whichever process has it."""
    if places is None or jax.process_count() == 1:
        return places
    # A process that does not hold a chain still has the place it began with: the furthest counts.
    return [
        max(candidates, key=lambda p: -1 if p is None else p["taken"])
        for candidates in zip(*everyones_json(places), strict=True)
    ]
