"""Progress of a running run: snapshots for callbacks, and the display.

A terminal shows a live display; elsewhere there is a line a minute. All of it happens between
chunks, outside of compiled code.
"""

import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple

import jax
import numpy as np

from tacthmc.run._interval import Kept
from tacthmc.run._program import Chunk


class ChunkDraws(NamedTuple):
    """The draws of a chunk: on the device, and a function that copies them to the host."""

    chunk: Chunk
    on_host: Callable[[], dict[int, Kept]]


@dataclass(frozen=True)
class Snapshot:
    """A run after a chunk. A callback that returns True ends the run there, with all draws saved.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> def enough(snapshot):
    ...     return snapshot.kept.min() >= 10
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 10**9,
    ...                      callbacks=[enough], keep=tacthmc.Keep(after=0))
    >>> run.interrupted, run.num_draws >= 10
    (True, True)
    """

    step: int
    num_steps: int
    seconds: float
    steps_per_second: float
    """Steps of one chain per second, over the last chunks."""
    kept: np.ndarray
    """The number of draws of each chain so far."""
    plateau_share: np.ndarray
    """The share of steps at unit temperature of each chain, since this process began."""
    rows: dict[str, np.ndarray]
    """The statistics of this chunk, each (chain, row), as in ``run.trace``."""
    chunk_draws: ChunkDraws | None = None
    """The draws of this chunk, behind ``draws`` and ``chunk``."""

    @cached_property
    def draws(self) -> dict[int, Kept]:
        """The draws of this chunk by chain: ``position`` (and ``model``) with a leading draw axis.

        With a store, only the chains of this process are included.
        """
        return {} if self.chunk_draws is None else self.chunk_draws.on_host()

    @property
    def chunk(self) -> Chunk | None:
        """The draws of all chains on the device, as from :meth:`tacthmc.Program.advance`."""
        return None if self.chunk_draws is None else self.chunk_draws.chunk

    def last(self, name: str) -> np.ndarray | None:
        """The last value of a statistic in each chain, or None if the run does not have it."""
        return self.rows[name][:, -1] if name in self.rows else None

    @property
    def seconds_left(self) -> float:
        """The estimated time to the end, from the speed of the last chunks."""
        return (self.num_steps - self.step) / max(self.steps_per_second, 1e-9)


class Observer:
    """A callback with a memory that is stored with every checkpoint.

    It is for averages over draws that are too large to keep. Subclass it, and pass a new instance
    to :func:`tacthmc.resume`, which restores its memory.

    >>> import jax, jax.numpy as jnp, numpy as np, tacthmc
    >>> class Mean(Observer):
    ...     total, count = 0.0, 0
    ...     def __call__(self, snapshot):
    ...         for kept in snapshot.draws.values():
    ...             self.total = self.total + kept.position.sum(axis=0)
    ...             self.count += len(kept.position)
    ...     def memory(self):
    ...         return {"total": np.asarray(self.total), "count": np.asarray(self.count)}
    ...     def remember(self, memory):
    ...         self.total, self.count = memory["total"], int(memory["count"])
    >>> mean, target = Mean(), tacthmc.potential(lambda x: 0.5 * jnp.sum((x - 3.0) ** 2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 20_000,
    ...                      keep=tacthmc.Keep(forget=True), callbacks=[mean])
    >>> run.num_draws, bool(abs(mean.total / mean.count - 3.0).max() < 0.5)
    (0, True)
    """

    run_ahead: bool = True
    """Whether the next chunk is computed while the observer processes this one. If not, work of the
    observer on the device does not wait for that chunk, and a run that it ends has no later steps.
    """

    def __call__(self, snapshot: Snapshot) -> Any:
        """Process a chunk; True ends the run."""
        raise NotImplementedError

    def memory(self) -> dict[str, np.ndarray]:
        """The arrays to store, by name."""
        return {}

    def remember(self, memory: dict[str, np.ndarray]) -> None:
        """Restore the stored arrays."""

    def holds(self, done: int) -> bool:
        """Whether the next chunk waits until the observer has processed the one that ends at
        interval ``done``; by default always or never, as ``run_ahead`` says.
        """
        return not self.run_ahead

    def next_stop(self, done: int) -> int | None:
        """The interval at which the chunk after ``done`` intervals has to end, or None for any."""
        return None


class Monitor:
    """Makes the snapshots, with totals over chunks."""

    def __init__(self, num_chains: int, num_steps: int, counts: np.ndarray, begun: float):
        """Begin with ``counts`` draws and ``begun`` seconds, which a resumed run already has."""
        self._begun = begun
        self._kept, self._num_steps = np.array(counts, int), num_steps
        self._plateau, self._rows = np.zeros(num_chains), 0
        # The speed is measured over several chunks, because the end of one is not precise enough.
        self._recent: deque[tuple[float, int]] = deque(maxlen=20)

    def add(
        self,
        step: int,
        made: int,
        columns: dict[str, Any],
        chunk_draws: ChunkDraws,
        seconds: float,
    ) -> Snapshot:
        """The snapshot after a chunk of ``made`` steps."""
        if not self._recent:
            self._recent.append((self._begun, step - made))
        then, before = self._recent[0]
        self._recent.append((seconds, step))
        self._kept = self._kept + columns["keep"].sum(axis=1)
        self._plateau = self._plateau + columns["plateau_share"].sum(axis=1)
        self._rows += columns["step"].shape[1]
        return Snapshot(
            step=step,
            num_steps=self._num_steps,
            seconds=seconds,
            steps_per_second=(step - before) / max(seconds - then, 1e-9),
            # A copy, so that a callback cannot change the totals.
            kept=self._kept.copy(),
            plateau_share=self._plateau / self._rows,
            rows=columns,
            chunk_draws=chunk_draws,
        )


MAX_SHOWN_CHAINS = 8
LINE_SECONDS = 60.0
"""The time between lines of progress outside of a terminal."""

# The columns of the table of chains: title, statistic and format.
COLUMNS = (
    ("ξ", "xi", "{:+.2f}"),
    ("temperature", "temperature", "{:.2f}"),
    ("kinetic temperature", "kinetic_temperature", "{:.3f}"),
    ("energy", "energy", "{:.4g}"),
)


class Progress:
    """A live display in a terminal, a line a minute elsewhere, or nothing."""

    def __init__(
        self,
        live: bool | None,
        num_chains: int,
        total: int,
        compile_seconds: float,
        goal: Callable[[], str] | None = None,
    ):
        """Show ``total`` steps; ``live`` None shows the live display only in a terminal.

        ``goal`` says how far the run is from its goal, if it may end before ``total`` steps.
        """
        here = jax.process_index() == 0 and live is not False
        self._num_chains, self._total, self._goal = num_chains, total, goal
        self._compile_seconds = compile_seconds
        self._live: Any = None
        self._bar: Any = None
        self._lines = here and live is None and not sys.stderr.isatty()
        self._last_line = time.perf_counter()
        if here and (live or sys.stderr.isatty()):
            self._open()

    def _open(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}"),
        )
        chains = "chain" if self._num_chains == 1 else "chains"
        note = f"compiled in {self._compile_seconds:.1f} s"
        self._bar.add_task(f"{self._num_chains} {chains}", total=self._total, note=note)
        self._live = Live(self._bar, console=Console(stderr=True), auto_refresh=False)

    def update(self, snapshot: Snapshot) -> None:
        """Show the state after a chunk."""
        if self._live is not None:
            from rich.console import Group

            note = self._note(snapshot)
            self._bar.update(self._bar.task_ids[0], completed=snapshot.step, note=note)
            self._live.update(Group(self._bar, _table(snapshot)), refresh=True)
        elif self._lines and time.perf_counter() - self._last_line >= LINE_SECONDS:
            self._last_line = time.perf_counter()
            share = 100 * snapshot.step / snapshot.num_steps
            print(
                f"tacthmc: step {snapshot.step} of {snapshot.num_steps} ({share:.0f}%),"
                f" {self._note(snapshot)}",
                file=sys.stderr,
                flush=True,
            )

    def _note(self, snapshot: Snapshot) -> str:
        left = snapshot.seconds_left
        clock = f"{int(left // 3600)}:{int(left % 3600 // 60):02d}:{int(left % 60):02d} left"
        speed = f"{snapshot.steps_per_second:,.0f} steps/s"
        if self._goal is None:
            return f"{speed}, {clock}, {int(snapshot.kept.sum())} draws"
        return f"{speed}, {self._goal()}, at most {clock}"

    def __enter__(self) -> "Progress":
        """Start the display."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the display, which leaves its last state on the screen."""
        if self._live is not None:
            self._live.stop()


def _table(snapshot: Snapshot) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    shown = [c for c in COLUMNS if c[1] in snapshot.rows]
    titles = ("chain", "draws", "plateau", *(title for title, _, _ in shown))
    for title in titles:
        table.add_column(title, justify="right")
    for chain in range(min(len(snapshot.kept), MAX_SHOWN_CHAINS)):
        cells = [fmt.format(snapshot.rows[name][chain, -1]) for _, name, fmt in shown]
        share = f"{snapshot.plateau_share[chain]:.0%}"
        table.add_row(str(chain), str(snapshot.kept[chain]), share, *cells)
    if len(snapshot.kept) > MAX_SHOWN_CHAINS:
        table.add_row("…", f"and {len(snapshot.kept) - MAX_SHOWN_CHAINS} more")
    return table
