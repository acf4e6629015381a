"""Groups one after the other, in slices; what they found goes to one folder."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tacthmc.data.image_set import ImageSet
from tacthmc.studies.study import RESULTS
from tacthmc.table1.group import Group
from tacthmc.table1.pictures import write_pictures
from tacthmc.table1.program import Program
from tacthmc.table1.records import Record, records
from tacthmc.table1.running import Running, Say
from tacthmc.table1.summary import entries
from tacthmc.table1.tables import latex, markdown

STATE = "state"
"""The folder of checkpoints beside the results: it may go once all is finished."""


def reproduce(
    asked: Sequence[Group],
    data: Callable[[str], ImageSet],
    out: Path,
    *,
    minutes: float | int | None = None,
    command: str = "",
    say: Say = lambda _: None,
) -> bool:
    """Run groups, those that are finished already excepted, and write what there is.

    Args:
        asked: the groups.
        data: gives the images of a task.
        out: the folder of results, in which records of other groups are kept.
        minutes: after so many the slice ends with the epoch that it is in, all saved; the same
            call goes on.
        command: for the records.
        say: is told what is being done.

    Returns:
        Whether all is finished.
    """
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    finished, advanced = True, False
    for group in asked:
        images = data(group.task)
        name = group.name(images)
        if _is_finished(out, name, len(group.cells)):
            say(f"{name}: finished before")
            continue
        # However short a slice is, it gets on.
        if advanced and deadline is not None and time.monotonic() >= deadline:
            return False
        say(f"{name}: {len(group.cells)} chains × {group.epochs} epochs on {images.name}")
        running = Running(
            Program(group, images), out / STATE / f"{name}.npz", group.identity(images)
        )
        running.advance(deadline, lambda text, name=name: say(f"{name}: {text}"))
        _keep(out, name, records(running, images, command))
        finished, advanced = finished and running.finished, True
        say(f"{name}: {_told(running)}")
    return finished


def write_tables(out: Path) -> list[Path]:
    """``table1.md``, ``table1.tex`` and the pictures, of all records that are in the folder."""
    found = entries(read_records(out))
    paths = [out / "table1.md", out / "table1.tex"]
    for path, text in zip(paths, (markdown(found), latex(found)), strict=True):
        path.write_text(text, encoding="utf-8")
    try:
        pictures = write_pictures(out, found)
    except ModuleNotFoundError:
        # A machine that samples need not have Matplotlib: the same command draws elsewhere.
        pictures = []
    return [out / RESULTS, *paths, *pictures]


def read_records(out: Path) -> list[Record]:
    """What is in the folder's ``results.json``."""
    path = out / RESULTS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def _keep(out: Path, name: str, new: list[Record]) -> None:
    """Put a group's records in the place of those that it had, one a line."""
    out.mkdir(parents=True, exist_ok=True)
    found = [record for record in read_records(out) if record["group"] != name] + new
    found.sort(key=lambda r: (r["task"], r["method"], r["group"], r["noise"], r["seed"]))
    lines = ",\n".join(json.dumps(r, ensure_ascii=False, allow_nan=False) for r in found)
    part = out / f"{RESULTS}.part"
    part.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    part.replace(out / RESULTS)


def _is_finished(out: Path, name: str, cells: int) -> bool:
    done = [r for r in read_records(out) if r["group"] == name and r["finished"]]
    return len(done) == cells


def _told(running: Running) -> str:
    tally: Any = running.tally
    diverged = sum(step > 0 for step in tally.diverged)
    bad = f", {diverged} chains diverged" if diverged else ""
    state = "finished" if running.finished else f"stopped at epoch {tally.epoch}"
    return f"{state}{bad}; {tally.sampling_seconds + tally.evaluation_seconds:.0f} s in all"
