"""Records: JSON files that say how their numbers came about, and that a later run adds to."""

import json
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import device, versions
from tacthmc.paper.figures.study import rounded

EXACT = 17
"""Significant digits that give a number back as it was."""
RECORDS = Path(__file__).parent / "records"
"""The records that are published."""


class RecordError(ValueError):
    """What is wrong with a file of results, or with the options that name one."""


def read(name: str) -> Any:
    """A published record, by its file's name."""
    return json.loads((RECORDS / name).read_text(encoding="utf-8"))


def now() -> str:
    """The time, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def about(args: Namespace, **more: Any) -> dict[str, Any]:
    """What a reader needs in order to measure again."""
    made = {"command": args.command, "date": now(), "device": device(), "versions": versions()}
    return made | more


def write(path: Path, value: Any, digits: int = 6) -> Path:
    """Write all of it with ``digits`` significant digits, or leave the file as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    text = json.dumps(rounded(value, digits), indent=1, ensure_ascii=False, allow_nan=False)
    with part.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return path


def opened(path: Path) -> Any:
    """The content of a file, or None where there is no file yet."""
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecordError(f"{path} is not JSON ({error}): name another file with --out") from error


def add_again(parser: ArgumentParser) -> None:
    """The option of benchmarks whose record is a :class:`Rows`."""
    parser.add_argument("--again", action="store_true", help="measure also what OUT already has")


class Rows:
    """A file of rows and of the runs that measured them, written after each row.

    A run that is interrupted goes on where it stopped: :meth:`has` says what was measured.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.json"
    >>> rows = Rows(path, {"command": "one"}, same=("size",))
    >>> rows.add({"size": 1, "rate": 2.0})
    >>> again = Rows(path, {"command": "two"}, same=("size",))
    >>> again.has({"size": 1}), again.has({"size": 2})
    (True, False)
    """

    def __init__(
        self, path: Path, run: dict[str, Any], same: Sequence[str], *, again: bool = False
    ):
        """Go on with what the file has.

        Args:
            path: the file.
            run: what this run is (:func:`about`); stored with its first row.
            same: the keys by which two rows are of the same measurement.
            again: whether to replace rows of an earlier run rather than skip them.
        """
        self._path, self._run, self._same, self._again = path, run, tuple(same), again
        found = opened(path)
        if found is None:
            found = {"runs": [], "rows": []}
        elif isinstance(found, list):
            found = {"runs": [], "rows": found}
        if not isinstance(found, dict) or not isinstance(found.get("rows"), list):
            raise RecordError(f"{path} has no rows: name another file with --out")
        self._file = {"runs": []} | found
        self._number: int | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All of them, those of earlier runs first."""
        return self._file["rows"]

    def _alike(self, row: dict[str, Any], other: dict[str, Any]) -> bool:
        """Whether two rows are of the same measurement; a key that one of them lacks is ignored."""
        both = (name for name in self._same if name in row and name in other)
        return all(row[name] == other[name] for name in both)

    def has(self, row: dict[str, Any]) -> bool:
        """Whether it need not be measured."""
        known = self.rows
        if self._again:
            known = (
                [] if self._number is None else [r for r in known if r.get("run") == self._number]
            )
        return any(self._alike(row, other) for other in known)

    def add(self, row: dict[str, Any]) -> None:
        """Write the row, in the place of an earlier one of the same measurement."""
        if self._number is None:
            self._file["runs"].append(self._run)
            self._number = len(self._file["runs"]) - 1
        kept = [other for other in self.rows if not self._alike(row, other)]
        self._file["rows"] = [*kept, rounded(row | {"run": self._number})]
        self.write()

    def join(self, other: dict[str, Any]) -> None:
        """Add the rows of another file that this one does not have, and what is known of its runs.

        >>> import tempfile
        >>> rows = Rows(Path(tempfile.mkdtemp()) / "rows.json", {"command": "one"}, same=("size",))
        >>> rows.add({"size": 1, "rate": 2.0})
        >>> rows.join({"runs": [{"command": "two"}], "rows": [{"size": 2, "rate": 1.0, "run": 0}]})
        >>> [row["run"] for row in rows.rows]
        [0, 1]
        """
        first = len(self._file["runs"])
        new = [row for row in other["rows"] if not self.has(row)]
        self._file["runs"] += other["runs"]
        self._file["rows"] = [*self.rows, *(row | {"run": first + row["run"]} for row in new)]
        self.write()

    def write(self, **parts: Any) -> None:
        """Write the file, with other parts beside the rows."""
        self._file |= rounded(parts)
        # Rows of earlier runs keep all their digits.
        write(self._path, self._file, digits=EXACT)
