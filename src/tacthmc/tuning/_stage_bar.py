"""The bar of a terminal that shows how far tuning is."""

import sys
from typing import Any

STAGES = {
    "searching for modes": 0.0,
    "descending": 0.25,
    "climbing a ladder of temperatures": 0.45,
    "choosing the step size": 0.6,
    "trying jumps": 0.85,
    "trying ξ": 0.85,
}
"""The share of the time that has usually passed when a stage begins."""


class StageBar:
    """A bar with the stage, the elapsed time and an estimate of the rest; only in a terminal.

    >>> bar = StageBar(enabled=False)
    >>> bar.begin("descending")
    >>> bar.print("a line")
    False
    """

    def __init__(self, enabled: bool):
        """Open the bar if ``enabled`` and if the standard error stream is a terminal."""
        self._bar: Any = None
        if not enabled or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("tuning: {task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("about"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            # The bar makes room for that of the run.
            transient=True,
        )
        self._bar.add_task("", total=1.0)
        self._bar.start()

    def begin(self, stage: str) -> None:
        """Show a stage of ``STAGES``."""
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, description=stage, completed=STAGES[stage])

    def print(self, line: str) -> bool:
        """Print a line above the bar; False if there is no bar."""
        if self._bar is None:
            return False
        # Brackets are part of the line, not markup.
        self._bar.console.print(line, markup=False, highlight=False)
        return True

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
