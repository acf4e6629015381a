"""Rows that are measured already, so that an interrupted ``make test-slow`` goes on where it was.

A row belongs to the code that made it: another version of the library, of these tests or of JAX has
a folder of its own, and measures everything again.
"""

import hashlib
import json
import os
from argparse import Namespace
from functools import cache
from pathlib import Path
from typing import Any

import equinox
import jax
import numpy as np

from benchmarks.record import about
from tests.calibration.cases import CASES, SEED, Case, measured

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks" / "records" / "calibration.json"
COMMAND = "make test-slow"
NOT_TESTED = {"cli", "paper", "predict", "report"}
"""Rooms that no sampler runs through."""


@cache
def folder() -> Path:
    """Where the rows of this version are."""
    library = ROOT / "src" / "tacthmc"
    files = [p for p in library.rglob("*.py") if p.relative_to(library).parts[0] not in NOT_TESTED]
    files += [*Path(__file__).parent.glob("*.py"), ROOT / "tests" / "table.py"]
    digest = hashlib.sha256(f"{jax.__version__} {equinox.__version__} {np.__version__}".encode())
    for path in sorted(files):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return ROOT / "build" / "calibration" / digest.hexdigest()[:16]


def row_of(case: Case) -> dict[str, Any]:
    """The row of a case, measured if it is not there."""
    path = folder() / f"{case.name}.json"
    if not path.exists():
        row = measured(case)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(row))
        part.replace(path)
        jax.clear_caches()
    return json.loads(path.read_text())


def write_record(path: Path = RECORD) -> None:
    """Write the record of the cases that are measured, and how many of how many they are."""
    rows = [row_of(case) for case in CASES if (folder() / f"{case.name}.json").exists()]
    head = about(Namespace(command=COMMAND), seed=SEED) | {
        "cases": len(CASES),
        "measured": len(rows),
        "as_expected": sum(not row["faults"] for row in rows),
        "cpu_hours": round(sum(row["cpu_seconds"] for row in rows) / 3600, 3),
    }
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    text = json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n{lines}\n ]\n}}\n'
    path.write_text(text, encoding="utf-8")
