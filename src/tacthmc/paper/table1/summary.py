"""The records of all seeds together: one entry for each cell of the table."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacthmc.paper.table1.paper import ACCURACY, TITLES

Record = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """The seeds of one task, method, configuration and noise level."""

    task: str
    data: str
    method: str
    config: str
    settings: str
    noise: float
    epochs: int
    records: tuple[Record, ...]

    @property
    def title(self) -> str:
        """The method's name, with its configuration and the settings that were given."""
        given = f", {self.settings}" if self.settings else ""
        return f"{TITLES[self.method]} ({self.config}{given})"

    @property
    def paper(self) -> float | None:
        """The paper's accuracy."""
        return self.records[0]["paper_accuracy"]

    def values(self, name: str) -> list[float]:
        """The values of a score, of all seeds that have it."""
        return [record[name] for record in self.records if record[name] is not None]

    def mean(self, name: str) -> float | None:
        """The mean over seeds; None where no seed has the score."""
        found = self.values(name)
        return float(np.mean(found)) if found else None

    def shown(self, name: str, digits: int, scale: float | int = 1.0) -> str:
        """The mean over seeds, with ± the standard deviation if there are two or more."""
        found = scale * np.array(self.values(name))
        if not len(found):
            return "–"
        spread = f" ± {np.std(found, ddof=1):.{digits}f}" if len(found) > 1 else ""
        return f"{np.mean(found):.{digits}f}{spread}"

    @property
    def notes(self) -> str:
        """What a reader has to know beside the number."""
        total = len(self.records)
        steps = [r["diverged_at_step"] for r in self.records if r["diverged_at_step"] is not None]
        still = self._noted("no round trip: SGNHT")
        none = self._noted("no draw at unit temperature")
        share = "" if still == total else f" in {still} of {total}"
        done = min(record["epochs_done"] for record in self.records)
        said = {
            f"diverged in {len(steps)} of {total} (first at step {min(steps, default=0)})": steps,
            f"no round trip{share}: SGNHT": still,
            f"no draw at unit temperature in {none} of {total}": none,
            f"unfinished, epoch {done}": not all(record["finished"] for record in self.records),
        }
        return "; ".join(text for text, holds in said.items() if holds)

    def _noted(self, note: str) -> int:
        """How many records have this note."""
        return sum(record["note"] == note for record in self.records)


def entries(records: Iterable[Record]) -> list[Entry]:
    """The entries of all cells that have records, in the table's order.

    A seed that ran more than once, in different groups, counts once.
    """
    cells: dict[tuple[Any, ...], dict[int, Record]] = defaultdict(dict)
    # A finished record comes last, and stays.
    for record in sorted(records, key=lambda r: bool(r["finished"])):
        given = record["settings"]["given"]
        settings = ", ".join(f"{name}={value:g}" for name, value in sorted(given.items()))
        names = ("task", "data", "method", "config", "noise", "epochs")
        how = (record["compute"], record["draw_every_epochs"])
        key = (*(record[name] for name in names), how, settings)
        cells[key][record["seed"]] = record
    found = [
        _entry([own[seed] for seed in sorted(own)], settings=key[-1]) for key, own in cells.items()
    ]
    order = [(task, method) for task, rows in ACCURACY.items() for method in rows]
    return sorted(
        found,
        key=lambda e: (
            order.index((e.task, e.method)), e.data, e.config, e.settings, e.epochs, e.noise
        ),
    )  # fmt: skip


def _entry(own: Sequence[Record], settings: str) -> Entry:
    one = own[0]
    return Entry(
        task=one["task"],
        data=one["data"],
        method=one["method"],
        config=one["config"],
        settings=settings,
        noise=one["noise"],
        epochs=one["epochs"],
        records=tuple(own),
    )


def by_task(found: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """The entries of each task and data set."""
    split: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in found:
        split[entry.task, entry.data].append(entry)
    return dict(split)


def commands(found: Sequence[Entry]) -> list[str]:
    """The commands that made these cells."""
    return sorted({r["command"] for entry in found for r in entry.records if r["command"]})
