"""A progress bar between compiled chunks: nothing in the traced code knows of it."""

import sys
from types import TracebackType
from typing import Any

import numpy as np

from tacthmc.run.collect import Collector


class Progress:
    """A Rich progress bar, or silence."""

    def __init__(self, total: int, num_chains: int, wanted: bool | None):
        """``wanted`` None means: only in a terminal."""
        self._bar: Any = None
        self._task: Any = None
        if sys.stderr.isatty() if wanted is None else wanted:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=Console(stderr=True),
            )
            chains = "chain" if num_chains == 1 else "chains"
            self._task = self._bar.add_task(f"{num_chains} {chains}", total=total, note="compiling")

    def update(self, done: int, collector: Collector) -> None:
        """Say how far the run is."""
        if self._bar is None:
            return
        note = f"{collector.kept} draws"
        last = collector.last
        if last is not None and last.temperature is not None:
            temperatures = ", ".join(f"{t:.1f}" for t in np.asarray(last.temperature)[:6, -1])
            note += f", temperature {temperatures}"
        self._bar.update(self._task, completed=done, note=note)

    def __enter__(self) -> "Progress":
        """Show the bar."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take it down."""
        if self._bar is not None:
            self._bar.stop()
