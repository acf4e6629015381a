"""A study, and its results as a file."""

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tacthmc.report import Table
from tacthmc.store import versions

RESULTS = "results.json"
FORMATS = ("pdf", "png")

Numbers = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """A question with its two sizes: minutes on two cores, and as it is published."""

    name: str
    about: str
    quick: Any
    full: Any
    measure: Callable[[Any, Say], Numbers]
    """From a config to numbers; the second argument prints progress."""
    picture: Callable[[Numbers], Any]
    """From numbers to a Matplotlib figure."""
    table: Callable[[Numbers], Table]

    def config(self, full: bool) -> Any:
        """The config of one of the two sizes."""
        return self.full if full else self.quick

    def results(self, config: Any, command: str, say: Say = lambda _: None) -> Numbers:
        """Measure, and add everything that is needed to repeat the measurement."""
        begun = time.perf_counter()
        numbers = self.measure(config, say)
        return {
            "study": self.name,
            "command": command,
            "config": asdict(config),
            "environment": environment(),
            "seconds": round(time.perf_counter() - begun, 1),
            "numbers": rounded(numbers),
        }


def environment() -> dict[str, Any]:
    """Versions and the device."""
    device = jax.devices()[0]
    kind = f"{os.cpu_count()} cores" if device.platform == "cpu" else device.device_kind
    return {**versions(), "system": platform.system(), "device": f"{device.platform}, {kind}"}


def rounded(value: Any, digits: int = 6) -> Any:
    """Plain Python values for JSON, with ``digits`` significant digits; NaN becomes None.

    >>> import numpy as np
    >>> rounded({"a": np.array([1 / 3, np.nan])})
    {'a': [0.333333, None]}
    """
    if isinstance(value, dict):
        return {str(key): rounded(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item, digits) for item in value]
    if isinstance(value, (np.ndarray, jax.Array)):
        return rounded(np.asarray(value).tolist(), digits)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{digits}g}") if np.isfinite(value) else None
    return value


def write_results(folder: Path, results: Numbers) -> Path:
    """Write ``results.json`` with one line per list, so that differences are readable."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RESULTS
    part = path.with_suffix(".part")
    part.write_text(_dumped(results) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def read_results(path: Path) -> Numbers:
    """Read a file of :func:`write_results`."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def write_picture(folder: Path, study: Study, results: Numbers) -> list[Path]:
    """Draw a study's numbers as PDF and PNG."""
    import matplotlib

    # The settings hold for this figure only.
    with matplotlib.rc_context({"pdf.fonttype": 42, "font.size": 9, "axes.titlesize": 10}):
        figure = study.picture(results["numbers"])
        paths = [folder / f"{study.name}.{form}" for form in FORMATS]
        for path in paths:
            # Without dates equal numbers make equal files.
            bare = {"CreationDate": None} if path.suffix == ".pdf" else {}
            figure.savefig(path, dpi=140, metadata=bare)
    return paths


def new_figure(width: float, height: float) -> Any:
    """A Matplotlib figure without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _dumped(value: Any, indent: int = 0) -> str:
    """JSON with objects opened up and lists on one line."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    pad = " " * (indent + 1)
    items = (
        f"{pad}{json.dumps(key, ensure_ascii=False)}: {_dumped(item, indent + 1)}"
        for key, item in value.items()
    )
    return "{\n" + ",\n".join(items) + "\n" + " " * indent + "}"
