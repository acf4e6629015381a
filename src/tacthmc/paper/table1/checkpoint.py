"""Chains, sums and notes in one file that is replaced as a whole: they can never disagree."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tacthmc.store._errors import StoreError

FORMAT = 1


def save(path: Path, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
    """Write a checkpoint; a process killed at any moment leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    text = json.dumps({"format": FORMAT, **notes})
    with part.open("wb") as file:
        np.savez(file, notes=np.array(text), **arrays)  # pyright: ignore[reportArgumentType]
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What :func:`save` wrote.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x.npz"
    >>> save(path, {"sums": np.zeros(2)}, {"epoch": 3})
    >>> arrays, notes = read(path)
    >>> arrays["sums"].tolist(), notes["epoch"]
    ([0.0, 0.0], 3)
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        notes = json.loads(str(arrays.pop("notes")))
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise StoreError(f"{path} is no checkpoint: {error}; delete it to begin again") from error
    if notes.get("format") != FORMAT:
        raise StoreError(f"{path} was written by another version of tacthmc; delete it")
    return arrays, notes
