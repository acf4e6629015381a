"""The machine and the packages that numbers were measured with."""

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

PACKAGES = ("tacthmc", "jax", "jaxlib", "numpy", "blackjax", "torch", "posteriors")


def versions() -> dict[str, str | None]:
    """The versions of Python, of this package and of its peers; None where one is not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def device() -> str:
    """The first device that JAX has."""
    first = jax.devices()[0]
    if first.platform == "cpu":
        return f"{cpu_name()}, {threads()} cores"
    return str(getattr(first, "device_kind", first))


def threads() -> int:
    """How many threads a process may use."""
    return os.cpu_count() or 1


def cpu_name(table: Path = Path("/proc/cpuinfo")) -> str:
    """The processor as it calls itself, where the system says so."""
    try:
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


class Elsewhere:
    """How many cores other processes kept busy since this was made.

    A peer whose threads wait for each other loses far more to a busy machine than one that has
    a single thread, so numbers from a busy machine do not compare the contestants.
    """

    MUCH = 0.1

    def __init__(self, table: Path = Path("/proc/stat")):
        """Start to count."""
        self._table = table
        self._begun = self._now()

    def cores(self) -> float | None:
        """Cores busy with others, on average; None where the system does not say."""
        begun, ended = self._begun, self._now()
        if begun is None or ended is None:
            return None
        wall, ours, all_of_them = (b - a for a, b in zip(begun, ended, strict=True))
        return max(0.0, all_of_them - ours) / max(wall, 1e-9)

    def _now(self) -> tuple[float, float, float] | None:
        """Seconds on the clock, of ours (with children that ended), and of all processes."""
        try:
            fields = self._table.read_text(encoding="utf-8").split("\n")[0].split()[1:]
            user, nice, system, _, _, irq, softirq, stolen = map(int, fields[:8])
        except (OSError, ValueError):
            return None
        busy = (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")
        children = os.times()
        ours = time.process_time() + children.children_user + children.children_system
        return time.perf_counter(), ours, busy


def machine() -> dict[str, Any]:
    """The processor, its cores and the threads used."""
    return {
        "system": platform.system(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": threads(),
    }
