"""Groups one after the other, in slices; their records go to one folder."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.figures.study import RESULTS
from tacthmc.paper.table1.group import Group
from tacthmc.paper.table1.group_run import GroupRun, advance
from tacthmc.paper.table1.pictures import write_pictures
from tacthmc.paper.table1.records import Record, records
from tacthmc.paper.table1.shared import CELLS, packed, unpacked
from tacthmc.paper.table1.slices import Slice
from tacthmc.paper.table1.summary import entries
from tacthmc.paper.table1.tables import latex, markdown

SEARCH = "search.json"
"""The runs of Table B's search, beside the results."""

Say = Callable[[str], None]
"""Prints a line about what is being done."""


def reproduce(
    asked: Sequence[Group],
    data: Callable[[str], ImageSet],
    out: Path,
    *,
    minutes: float | int | None = None,
    command: str = "",
    say: Say = lambda _: None,
) -> bool:
    """Run the groups that are not finished yet, and write their records.

    Args:
        asked: the groups.
        data: gives the images of a task.
        out: the folder of results, in which records of other groups stay.
        minutes: the slice ends after the epoch in which these minutes are over, and everything is
            saved; the same call goes on.
        command: for the records.
        say: prints what is being done.

    Returns:
        Whether everything is finished.
    """
    slices = Slice(minutes)
    finished = [run_group(group, data(group.task), out, slices, command, say) for group in asked]
    return all(finished)


def run_group(
    group: Group, images: ImageSet, out: Path, slices: Slice, command: str, say: Say
) -> bool:
    """Run a group for the rest of a slice; returns whether it is finished.

    A group that is finished already is left alone, and so is every group once the slice is over.
    """
    name = group.name(images)
    if is_finished(out, group, images):
        say(f"{name}: finished before")
        return True
    if slices.over:
        return False
    say(f"{name}: {len(group.cells)} chains to epoch {group.epochs} on {images.name}")
    done = advance(group, images, out, slices.deadline)
    _keep(out, name, records(done, images, command))
    slices.advanced = True
    slices.interrupted = slices.interrupted or done.was_interrupted
    say(f"{name}: {_summary(done)}")
    return done.finished


def write_tables(out: Path) -> list[Path]:
    """Write ``table1.md``, ``table1.tex`` and the pictures of all records in the folder.

    Table B's records are left out: :func:`tacthmc.paper.table1.tables_b.write_table_b` has them.
    """
    found = entries(r for r in read_records(out) if r["table"] != "B")
    paths = [out / "table1.md", out / "table1.tex"]
    for path, text in zip(paths, (markdown(found), latex(found)), strict=True):
        path.write_text(text, encoding="utf-8")
    try:
        pictures = write_pictures(out, found)
    except ModuleNotFoundError:
        # A machine that samples need not have Matplotlib: the same command draws on another.
        pictures = []
    return [out / RESULTS, *paths, *pictures]


def read_records(out: Path) -> list[Record]:
    """The records in the folder's ``results.json`` and ``search.json``, with all their fields."""
    paths = [path for path in (out / SEARCH, out / RESULTS) if path.exists()]
    read = [unpacked(json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    found: list[Record] = []
    for records_of in read:
        # A process that ended between the two files may have left a group in both.
        known = {record["group"] for record in found}
        found += [record for record in records_of if record["group"] not in known]
    return found


def _keep(out: Path, name: str, new: list[Record]) -> None:
    """Put a group's records in the place of its former ones."""
    write_records(out, [record for record in read_records(out) if record["group"] != name] + new)


def write_records(out: Path, found: Sequence[Record]) -> None:
    """Write ``results.json``, a whole record a line, and beside it the search's ``search.json``.

    In ``search.json`` one line has the fields that a group's records share, and each record has a
    line for its own fields: that takes a third of the room.
    """
    out.mkdir(parents=True, exist_ok=True)
    names = ("task", "method", "group", "noise", "seed")
    found = sorted(found, key=lambda r: tuple(r[name] for name in names))
    searched = [record for record in found if record.get("stage") == "search"]
    if searched or (out / SEARCH).exists():
        _write(out / SEARCH, [_lines(entry) for entry in packed(searched)])
    _write(out / RESULTS, [_dumped(r) for r in found if r.get("stage") != "search"])


def _write(path: Path, lines: Sequence[str]) -> None:
    """Write a list in one step, so that a reader finds the old file or the new one."""
    part = path.with_name(f"{path.name}.part")
    part.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    part.replace(path)


def _lines(entry: Record) -> str:
    if CELLS not in entry:
        return _dumped(entry)
    head = _dumped({name: value for name, value in entry.items() if name != CELLS})
    cells = ",\n".join(_dumped(own) for own in entry[CELLS])
    return f'{head[:-1]},"{CELLS}":[\n{cells}\n]}}'


def _dumped(value: Record) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def is_finished(out: Path, group: Group, images: ImageSet) -> bool:
    """Whether the folder has all records of a group."""
    return len(own_records(out, group, images)) == len(group.members)


def own_records(out: Path, group: Group, images: ImageSet) -> list[Record]:
    """A group's records that are finished."""
    name = group.name(images)
    return [r for r in read_records(out) if r["group"] == name and r["finished"]]


def _summary(done: GroupRun) -> str:
    tally = done.evaluation.tally
    diverged = sum(step > 0 for step in tally.diverged)
    bad = f", {diverged} chains diverged" if diverged else ""
    state = "finished" if done.finished else f"stopped after epoch {tally.epoch}"
    return f"{state}{bad}; {done.run.seconds:.0f} s in all"
