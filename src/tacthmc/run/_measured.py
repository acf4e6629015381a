"""Measurements that need the functions of a potential, kept for readers of the folder without them.

The process that makes a run measures with its potential, and writes the results to the folder. A
reader that runs nothing from the folder then says the same.
"""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tacthmc.store._arrays import replace_json
from tacthmc.store._checksums import sealed, unsealed
from tacthmc.store._describe import describe, restored
from tacthmc.store._errors import StoreError

T = TypeVar("T")

FILE = "measured.json"


class Measurements:
    """The measurements of a run after so many steps, by name.

    >>> here = Measurements(None, 1_000)
    >>> here.get("noise", lambda: 0.5), here.get("width", None), here.missing
    (0.5, None, ['width'])
    """

    def __init__(self, folder: Path | None, steps: int, writes: bool = False):
        """Keep them in ``folder``, if there is one and this process made the run (``writes``)."""
        self._file = None if folder is None else folder / FILE
        self._steps, self._writes = steps, writes
        self._here: dict[str, Any] = {}
        self.missing: list[str] = []
        """What was asked for, and could not be measured here."""

    def get(self, name: str, measure: Callable[[], T] | None) -> T | None:
        """The result of ``measure``, or without it what the folder has, or None."""
        if name in self._here:
            return self._here[name]
        if measure is not None:
            self._here[name] = measure()
            self._write()
        else:
            stored = self._stored()
            if name not in stored:
                self.missing += [] if name in self.missing else [name]
                return None
            self._here[name] = restored(stored[name]).value
        return self._here[name]

    def _write(self) -> None:
        if self._file is None or not self._writes:
            return
        values = self._stored() | {name: describe(value) for name, value in self._here.items()}
        # The run itself is safe, so a full disk is no reason to fail here.
        with contextlib.suppress(OSError):
            content = sealed({"steps": self._steps, "values": values})
            replace_json(self._file, content, durable=False)

    def _stored(self) -> dict[str, Any]:
        """What the folder has, if the run has made no step since."""
        if self._file is None or not self._file.exists():
            return {}
        try:
            found = unsealed(json.loads(self._file.read_text()))
            return dict(found["values"]) if found["steps"] == self._steps else {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise StoreError(f"{self._file} is damaged: {error}; remove it") from error
