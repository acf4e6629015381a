"""The loop of a run: the device computes a chunk while the host processes the previous one."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from functools import cache, partial
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import jax
import numpy as np

from tacthmc.compiler._hosts import all_gather, all_gather_json, raise_together
from tacthmc.compiler._mesh import ambient, local_chains
from tacthmc.run._failure import Failure, failures_in
from tacthmc.run._feed import Feed, Feeder
from tacthmc.run._goal import Goal
from tacthmc.run._interval import Kept
from tacthmc.run._monitor import ChunkDraws, Monitor, Observer, Progress, Snapshot
from tacthmc.run._plan import Outcome, Plan
from tacthmc.run._program import Chains, Chunk
from tacthmc.run._record import MemoryRecord, columns_of, to_host
from tacthmc.run._same_posterior import probe
from tacthmc.run._writer import MAX_BUFFER_BYTES, StoreWriter

CHUNK_SECONDS = 1.0
"""The intended time per chunk, which is how often a run reports and can be stopped."""


class Completion:
    """Records the time at which an array has been computed, in a thread of its own.

    The time is exact even if the host asks later, and a waiting host continues at once. An error in
    the computation is ignored here; it is raised when the array is read.

    >>> import jax.numpy as jnp
    >>> before = time.perf_counter()
    >>> before < Completion(jnp.arange(3) + 1).wait() <= time.perf_counter()
    True
    """

    def __init__(self, array: jax.Array):
        self._at: float | None = None
        self._done = threading.Event()
        # A daemon thread, so that a second Ctrl-C does not wait for the computation.
        threading.Thread(target=self._watch, args=(array,), daemon=True).start()

    def _watch(self, array: jax.Array) -> None:
        with contextlib.suppress(Exception):
            array.block_until_ready()
        self._at = time.perf_counter()
        self._done.set()

    def wait(self) -> float:
        """Wait for the array. Returns the time when it was ready, by ``time.perf_counter``."""
        # In steps of a tenth of a second, because on some systems Ctrl-C cannot end a wait.
        while not self._done.wait(0.1):
            pass
        assert self._at is not None
        return self._at


class Interrupt:
    """Handles SIGINT and SIGTERM during a run, if it is in the main thread."""

    def __init__(self, saved: bool):
        """Watch for signals; ``saved`` says whether the run is on disk, for the message."""
        self.requested = False
        self._saved = saved
        self._terminated = False
        self._old: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        """Install the handlers."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                # A signal that was ignored (in a background job) still is.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._old[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            self._terminated = True
        elif self.requested:
            raise KeyboardInterrupt
        else:
            lost = "steps since the last checkpoint" if self._saved else "everything"
            message = f"\nstopping after this chunk; Ctrl-C again stops now and loses {lost}\n"
            # Written directly, because print is not safe in a signal handler.
            os.write(2, message.encode())
        self.requested = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the old handlers. A process that got SIGTERM ends now."""
        for number, handler in self._old.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if self._terminated:
            os.kill(os.getpid(), signal.SIGTERM)


class InFlightChunk(NamedTuple):
    """A chunk that the device is computing."""

    chains: Chains
    chunk: Chunk
    intervals: int
    done: int
    places: list[Any] | None
    launched: float
    ready: Completion


class Driver:
    """Runs the chunks of a plan, beginning after ``done`` intervals."""

    def __init__(
        self,
        plan: Plan,
        chains: Chains,
        sink: MemoryRecord | StoreWriter,
        feeder: Feeder | None,
        *,
        done: int = 0,
        seconds: float = 0.0,
        compile_seconds: float = 0.0,
        failures: Sequence[Failure] = (),
        goal: Goal | None = None,
    ):
        """Continue after ``seconds`` and ``failures`` of an earlier process, if there were any.

        ``goal`` may end the run before the plan does.
        """
        self._plan, self._sink, self._feeder = plan, sink, feeder
        self._store = sink if isinstance(sink, StoreWriter) else None
        self._begun = time.perf_counter() - seconds
        self._outcome = Outcome(chains, done, seconds, compile_seconds, failures=list(failures))
        self._places = feeder.places if feeder else None
        self._count = 1
        self._error: Exception | None = None
        self._stop_requested = False
        self._goal = goal
        self._watchers = [*plan.callbacks, *([] if goal is None else [goal])]
        self._observers = [each for each in self._watchers if isinstance(each, Observer)]
        self._last_commit = (done, time.perf_counter())
        self._last_ready = time.perf_counter()

    def first_commit(self) -> None:
        """Write a checkpoint before the first step, so that a run can always be resumed."""
        self._commit()
        assert self._store is not None
        raise_together(self._store.checkpoints.wait)

    def run(self) -> Outcome:
        """Run until the end, a failure, or a request to stop."""
        plan, outcome = self._plan, self._outcome
        with ambient(plan.program.mesh):
            outcome.compile_seconds += self._compile()
            stored = self._store is not None
            goal = None if self._goal is None else self._goal.progress
            took = outcome.compile_seconds
            shown = Progress(plan.progress, plan.num_chains, plan.total, took, goal)
            begun = time.perf_counter() - self._begun
            monitor = Monitor(plan.num_chains, plan.total, self._sink.counts, begun)
            try:
                with Interrupt(stored) as interrupt, shown:
                    self._loop(monitor, shown, interrupt)
            finally:
                if self._feeder:
                    self._feeder.close()
            if not stored:
                outcome.seconds = time.perf_counter() - self._begun
        return outcome

    def _loop(self, monitor: Monitor, shown: Progress, interrupt: Interrupt) -> None:
        outcome = self._outcome
        launched, flight, more = outcome.done, None, True
        planned = int(all_gather(self._next_count(launched))[0])
        self._prepare(planned)
        while more or flight is not None:
            hold = flight is not None and self._holds(flight.done)
            batches = None if hold else self._batches(planned)
            following, stop, due = self._decided(launched + planned, interrupt, flight)
            more, ahead = planned > 0 and not stop, None
            if more and not hold:
                ahead = self._launch(flight, launched, planned, batches)
                launched, planned = launched + planned, following
                self._prepare(planned)
            if flight is not None and self._finish_chunk(flight, monitor, shown, due):
                break
            flight, more = ahead, more and hold
        outcome.interrupted = not self._is_finished and not self._has_failed
        self._finish()
        # Everything is saved, so errors can be raised now.
        raise_together(self._reraise)

    def _holds(self, done: int) -> bool:
        """Whether an observer has to process the chunk to ``done`` before the next one begins."""
        return any(observer.holds(done) for observer in self._observers)

    def _finish_chunk(
        self, flight: InFlightChunk, monitor: Monitor, shown: Progress, due: bool
    ) -> bool:
        """Process a chunk, run the callbacks, and save if ``due``; returns whether to stop."""
        snapshot = self._take_in(flight, monitor)
        self._stop_requested = self._run_callbacks(snapshot) or self._stop_requested
        shown.update(snapshot)
        if self._has_failed:
            return True
        # After the callbacks, because their memory is stored too.
        if due:
            self._commit()
        return False

    @property
    def _is_finished(self) -> bool:
        """Whether the run has made all its steps, or reached its goal."""
        if self._goal is not None:
            self._outcome.standing = self._goal.standing
            if self._goal.standing.reached:
                return True
        return self._outcome.done >= self._plan.intervals

    @property
    def _has_failed(self) -> bool:
        return bool(self._outcome.failures) and not self._plan.keep_going

    def _decided(
        self, launched: int, interrupt: Interrupt, flight: InFlightChunk | None
    ) -> tuple[int, bool, bool]:
        """The next intervals, whether to stop, and whether to commit, agreed by all processes."""
        stop = self._stop_requested or interrupt.requested or self._error is not None
        due = flight is not None and self._due(flight.done)
        all_of_them = all_gather(np.array([self._next_count(launched), stop, due]))
        return int(all_of_them[0, 0]), bool(all_of_them[:, 1].any()), bool(all_of_them[:, 2].any())

    def _prepare(self, count: int) -> None:
        if self._feeder:
            self._feeder.prepare(count, self._plan.program.shape.rows)

    def _batches(self, planned: int) -> Feed | None:
        """The next batches of the loader. An error is raised after everything has been saved."""
        if self._feeder is None or not planned:
            return None
        try:
            return self._feeder.get()
        except Exception as error:
            self._error = self._error or error
            return None

    def _run_callbacks(self, snapshot: Snapshot) -> bool:
        """Whether a callback requests to stop. An error stops the run without losing draws."""
        try:
            requests = [bool(callback(snapshot)) for callback in self._watchers]
            return any(requests)
        except Exception as error:
            self._error = self._error or error
            return True

    def _reraise(self) -> None:
        if self._error is not None:
            raise self._error

    def _next_count(self, launched: int) -> int:
        """The number of intervals of the next chunk."""
        plan = self._plan
        left = plan.intervals - launched
        count = min(plan.program.shape.rows, self._count)
        every = self._commit_intervals()
        if every is not None:
            count = min(count, every - launched % every)
        for observer in self._observers:
            stop = observer.next_stop(launched)
            if stop is not None and stop > launched:
                count = min(count, stop - launched)
        return min(count, left)

    def _commit_intervals(self) -> int | None:
        store = self._plan.store
        return None if store is None else store.commit_intervals(self._plan.every)

    def _compile(self) -> float:
        """Compile by running zero intervals. The time does not count as time of the run."""
        begun = time.perf_counter()
        program = self._plan.program
        feed = self._feeder.blank(program.shape.rows) if self._feeder else None
        jax.block_until_ready(program.advance(self._outcome.chains, 0, feed))
        took = time.perf_counter() - begun
        self._begun += took
        return took

    def _launch(
        self, flight: InFlightChunk | None, launched: int, count: int, feed: Feed | None
    ) -> InFlightChunk:
        plan = self._plan
        chains = self._outcome.chains if flight is None else flight.chains
        batches, places = (None, None) if feed is None else feed
        if self._store is not None:
            # At most one checkpoint is being written at any time.
            if launched > self._last_commit[0]:
                raise_together(self._store.checkpoints.wait)
            if jax.process_index() == 0:
                self._store.folder.reached((launched + count) * plan.every)
        now = time.perf_counter()
        chains, chunk = plan.program.advance(chains, count, batches)
        ready = Completion(chunk.rows.step)
        return InFlightChunk(chains, chunk, count, launched + count, places, now, ready)

    def _take_in(self, flight: InFlightChunk, monitor: Monitor) -> Snapshot:
        plan, outcome = self._plan, self._outcome
        ready = flight.ready.wait()
        took = ready - max(flight.launched, self._last_ready)
        self._last_ready = ready
        self._adapt(flight.intervals, took)
        chunk = flight.chunk
        columns = columns_of(chunk.rows, flight.intervals)
        if plan.program.keep.forget:
            # Only callbacks use the draws, possibly on the device.
            draws = partial(self._draws, chunk, columns)
            self._sink.append(*_without_draws(chunk, columns))
        else:
            draws = cache(partial(self._draws, chunk, columns))
            self._sink.append(columns, list(draws().values()))
        if np.any(np.asarray(chunk.health.step)):
            known = {failure.chain for failure in outcome.failures}
            found = failures_in(chunk.health, columns)
            outcome.failures += [failure for failure in found if failure.chain not in known]
        outcome.chains, outcome.done = flight.chains, flight.done
        self._places = flight.places
        seconds = ready - self._begun
        made = flight.intervals * plan.every
        step = flight.done * plan.every
        return monitor.add(step, made, columns, ChunkDraws(chunk, draws), seconds)

    def _draws(self, chunk: Chunk, columns: dict[str, np.ndarray]) -> dict[int, Kept]:
        """The draws of a chunk on the host, by chain; with a store only for chains held here."""
        plan, stored = self._plan, self._store is not None
        mesh = plan.program.mesh
        held = local_chains(mesh, plan.num_chains) if stored else range(plan.num_chains)
        kept = to_host(chunk, columns, mesh, stored)
        return {int(chain): piece for chain, piece in zip(held, kept, strict=True)}

    def _adapt(self, count: int, took: float) -> None:
        """Adapt the number of intervals so that a chunk takes about ``CHUNK_SECONDS``."""
        target = count * CHUNK_SECONDS / max(took, 1e-6)
        self._count = int(max(1, min(target, max(self._count, 8 * count))))

    def _due(self, done: int) -> bool:
        """Whether a checkpoint is due."""
        if self._store is None:
            return False
        store, (before, when) = self._plan.store, self._last_commit
        assert store is not None
        every = self._commit_intervals()
        return (
            self._store.buffered > MAX_BUFFER_BYTES
            or (every is not None and done // every > before // every)
            or (
                store.checkpoint_seconds is not None
                and time.perf_counter() - when >= store.checkpoint_seconds / 2
            )
        )

    def _commit(self) -> None:
        assert self._store is not None
        outcome = self._outcome
        # The same number as a reader of the folder sees.
        outcome.seconds = time.perf_counter() - self._begun
        notes = {
            "seconds": outcome.seconds,
            "compile_seconds": outcome.compile_seconds,
            "done": outcome.done,
            "interrupted": outcome.interrupted,
            "failures": [failure.to_json() for failure in outcome.failures],
            "places": _furthest(self._places),
            "until": None if self._goal is None else self._goal.notes(),
            "probe": probe(self._plan, outcome.chains, self._feeder),
        }
        steps = outcome.done * self._plan.every
        memory = {
            f"{number}.{name}": value
            for number, observer in enumerate(self._observers)
            for name, value in observer.memory().items()
        }
        self._store.commit(steps, outcome.chains, notes, self._is_finished, memory)
        self._last_commit = (outcome.done, time.perf_counter())

    def _finish(self) -> None:
        """Write everything to disk, and wait for the checkpoint."""
        if self._store is not None:
            self._commit()
            raise_together(self._store.checkpoints.wait)


def _without_draws(chunk: Chunk, columns: dict[str, np.ndarray]) -> tuple[Any, list[Kept]]:
    """The rows of a chunk, and an empty set of draws for each chain."""
    none = jax.tree.map(lambda x: np.zeros((0, *x.shape[2:]), x.dtype), chunk.kept)
    rows = {**columns, "keep": np.zeros_like(columns["keep"])}
    return rows, [none] * len(columns["keep"])


def _furthest(places: list[Any] | None) -> list[Any] | None:
    """The place of each chain in its loader, gathered from all processes."""
    if places is None or jax.process_count() == 1:
        return places
    # A process that does not hold a chain still has its first place, so the furthest one counts.
    return [
        max(candidates, key=lambda p: -1 if p is None else p["taken"])
        for candidates in zip(*all_gather_json(places), strict=True)
    ]
