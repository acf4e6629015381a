"""``bench.json``: cases of one machine, each with when and how it was measured."""

import json
import os
from pathlib import Path

from tacthmc.paper.figures.study import Numbers, rounded


def read_bench(path: Path) -> Numbers:
    """What :func:`write_bench` wrote; an error that names the file where it is something else."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}): name another file with --out") from error
    if not isinstance(found, dict) or not isinstance(found.get("cases"), dict):
        raise ValueError(
            f"{path} was not written by python -m benchmarks speed: name another file with --out"
        )
    return found


def write_bench(path: Path, results: Numbers) -> Path:
    """Write all of it, or leave what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    text = json.dumps(rounded(results), indent=1, ensure_ascii=False, allow_nan=False)
    with part.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return path
