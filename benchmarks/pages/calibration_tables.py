"""The table of ``docs/calibration.md``, from ``calibration.json``."""

from collections.abc import Callable
from typing import Any

from benchmarks.record import read
from tacthmc.report import Table


def calibration() -> Table:
    """What each measured case found, the widths of all parameters together."""
    rows = read("calibration.json")["rows"]
    columns = (
        "model",
        "batches",
        "sampler",
        "width ratios",
        "expected",
        "bias of the energy in sd",
    )
    return Table((*columns, "as expected"), tuple(_cells(row) for row in rows))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    widths = [check["width"][0] for check in row["checks"] if check["name"] != "energy"]
    energy = next(check for check in row["checks"] if check["name"] == "energy")
    expected = row["expected"]
    low = expected["low"] ** 0.5 * (1 - expected["slack"])
    high = expected["high"] ** 0.5 * (1 + expected["slack"])
    return (
        row["model"],
        "a fifth" if row["batches"] else "all data",
        f"`{row['sampler']}`",
        f"{min(widths):.3f} to {max(widths):.3f}",
        f"{low:.2f} to {high:.2f}",
        f"{energy['bias'][0]:+.2f}",
        "no" if row["faults"] else "yes",
    )


TABLES: dict[str, Callable[[], Table]] = {"calibration": calibration}
