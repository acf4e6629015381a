"""Records of seeds put together: one entry for each cell of the table."""

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
        """The method's, with its configuration and what settings were given."""
        given = f", {self.settings}" if self.settings else ""
        return f"{TITLES[self.method]} ({self.config}{given})"

    @property
    def paper(self) -> float | None:
        """The paper's accuracy."""
        return self.records[0]["paper_accuracy"]

    def values(self, name: str) -> list[float]:
        """A score of all seeds that have it."""
        return [record[name] for record in self.records if record[name] is not None]

    def mean(self, name: str) -> float | None:
        """Over seeds."""
        found = self.values(name)
        return float(np.mean(found)) if found else None

    def shown(self, name: str, digits: int, scale: float | int = 1.0) -> str:
        """Mean ± standard deviation over seeds, where there are at least two."""
        found = scale * np.array(self.values(name))
        if not len(found):
            return "–"
        spread = f" ± {np.std(found, ddof=1):.{digits}f}" if len(found) > 1 else ""
        return f"{np.mean(found):.{digits}f}{spread}"

    @property
    def notes(self) -> str:
        """What has to be said of the number."""
        said = []
        total = len(self.records)
        diverged = sum(record["diverged_at_step"] is not None for record in self.records)
        if diverged:
            steps = [r["diverged_at_step"] for r in self.records if r["diverged_at_step"]]
            said.append(f"diverged in {diverged} of {total} (first at step {min(steps)})")
        still = sum(record["note"] == "no round trip: SGNHT" for record in self.records)
        if still:
            where = "" if still == total else f" in {still} of {total}"
            said.append(f"no round trip{where}: SGNHT")
        none = sum(record["note"] == "no draw at unit temperature" for record in self.records)
        if none:
            said.append(f"no draw at unit temperature in {none} of {total}")
        done = min(record["epochs_done"] for record in self.records)
        if not all(record["finished"] for record in self.records):
            said.append(f"unfinished, epoch {done}")
        return "; ".join(said)


def entries(records: Iterable[Record]) -> list[Entry]:
    """All cells that there are, in the table's order.

    A seed that ran more than once, in groups of other seeds, counts once.
    """
    cells: dict[tuple[Any, ...], dict[int, Record]] = defaultdict(dict)
    # What is finished comes last, and stays.
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
    """Entries of each task and data set."""
    split: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in found:
        split[entry.task, entry.data].append(entry)
    return dict(split)


def commands(found: Sequence[Entry]) -> list[str]:
    """What made these cells."""
    return sorted({r["command"] for entry in found for r in entry.records if r["command"]})
