"""Several folders' results in one: methods may run at the same time, each in its own folder."""

from collections.abc import Sequence
from pathlib import Path

from tacthmc.paper.figures.study import RESULTS
from tacthmc.paper.table1.records import Record
from tacthmc.paper.table1.reproduce import read_records, write_records, write_tables
from tacthmc.paper.table1.tables_b import write_table_b


def merge(folders: Sequence[Path], out: Path) -> list[Path]:
    """Join records into ``out``, beside those that are there, and write the tables.

    A group that is in several folders comes from the one where it has made the most epochs.
    """
    for folder in folders:
        if not (folder / RESULTS).exists():
            raise FileNotFoundError(f"{folder} has no {RESULTS}: nothing to merge")
    found: dict[str, list[Record]] = {}
    for folder in (out, *folders):
        for name, own in _by_group(read_records(folder)).items():
            if name not in found or _done(own) > _done(found[name]):
                found[name] = own
    write_records(out, [record for own in found.values() for record in own])
    return write_all(out)


def write_all(out: Path) -> list[Path]:
    """Write the tables of which the folder has records."""
    tables = {record["table"] == "B" for record in read_records(out)}
    written = write_tables(out) if False in tables else []
    return written + (write_table_b(out) if True in tables else [])


def _by_group(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["group"], []).append(record)
    return found


def _done(own: Sequence[Record]) -> int:
    return min(record["epochs_done"] for record in own)
