"""What a terminal shows while a run goes on; elsewhere a line a minute.

Nothing in the compiled code knows of it: it is told between chunks.
"""

import sys
import time
from types import TracebackType
from typing import Any

import jax

from tacthmc.run._monitor import Snapshot
from tacthmc.run._plan import Plan

SHOWN_CHAINS = 8
LINE_SECONDS = 60.0

# Column titles of the table of chains, the statistic each shows, and its format.
COLUMNS = (
    ("ξ", "xi", "{:+.2f}"),
    ("temperature", "temperature", "{:.2f}"),
    ("kinetic temperature", "kinetic_temperature", "{:.3f}"),
    ("energy", "energy", "{:.4g}"),
)


class Progress:
    """A live display in a terminal, a line a minute elsewhere, or nothing."""

    def __init__(self, plan: Plan, compile_seconds: float):
        """``plan.progress`` None means: the live display only in a terminal."""
        wanted = plan.progress
        here = jax.process_index() == 0 and wanted is not False
        self._plan, self._compile_seconds = plan, compile_seconds
        self._live: Any = None
        self._bar: Any = None
        self._lines = here and wanted is None and not sys.stderr.isatty()
        self._last_line = time.perf_counter()
        if here and (wanted or sys.stderr.isatty()):
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
        chains = "chain" if self._plan.num_chains == 1 else "chains"
        total = self._plan.intervals * self._plan.keep_every
        note = f"compiled in {self._compile_seconds:.1f} s"
        self._bar.add_task(f"{self._plan.num_chains} {chains}", total=total, note=note)
        self._live = Live(self._bar, console=Console(stderr=True), auto_refresh=False)

    def update(self, snapshot: Snapshot) -> None:
        """Tell of a chunk."""
        if self._live is not None:
            from rich.console import Group

            self._bar.update(self._bar.task_ids[0], completed=snapshot.step, note=_note(snapshot))
            self._live.update(Group(self._bar, _table(snapshot)), refresh=True)
        elif self._lines and time.perf_counter() - self._last_line >= LINE_SECONDS:
            self._last_line = time.perf_counter()
            share = 100 * snapshot.step / snapshot.num_steps
            print(
                f"tacthmc: step {snapshot.step} of {snapshot.num_steps} ({share:.0f}%),"
                f" {_note(snapshot)}",
                file=sys.stderr,
                flush=True,
            )

    def __enter__(self) -> "Progress":
        """Show it."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave its last state."""
        if self._live is not None:
            self._live.stop()


def _note(snapshot: Snapshot) -> str:
    left = snapshot.seconds_left
    clock = f"{int(left // 3600)}:{int(left % 3600 // 60):02d}:{int(left % 60):02d}"
    return (
        f"{snapshot.steps_per_second:,.0f} steps/s, {clock} left, {int(snapshot.kept.sum())} draws"
    )


def _table(snapshot: Snapshot) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    shown = [c for c in COLUMNS if c[1] in snapshot.rows]
    titles = ("chain", "draws", "plateau", *(title for title, _, _ in shown))
    for title in titles:
        table.add_column(title, justify="right")
    for chain in range(min(len(snapshot.kept), SHOWN_CHAINS)):
        cells = [fmt.format(snapshot.rows[name][chain, -1]) for _, name, fmt in shown]
        share = f"{snapshot.plateau_share[chain]:.0%}"
        table.add_row(str(chain), str(snapshot.kept[chain]), share, *cells)
    if len(snapshot.kept) > SHOWN_CHAINS:
        table.add_row("…", f"and {len(snapshot.kept) - SHOWN_CHAINS} more")
    return table
