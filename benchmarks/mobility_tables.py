"""The tables of ``docs/high-dimension.md``, from ``mobility.json``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacthmc.studies.study import Table

HERE = Path(__file__).parent


NOISE = 1.0
"""That of the comparison with rivals."""


def _all_rows() -> list[dict[str, Any]]:
    return json.loads((HERE / "mobility.json").read_text())["rows"]


def _rows() -> list[dict[str, Any]]:
    return [row for row in _all_rows() if row["noise"] == NOISE]


def _families(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["method"].split(":")[0] for row in rows))


def _dimensions(rows: list[dict[str, Any]]) -> list[int]:
    return sorted({row["dimension"] for row in rows})


def methods() -> Table:
    """Effective draws of the mode indicator of each method's best setting with a right weight.

    Right: within four standard errors of 0.7. Where none is, the best, marked by a star.
    """
    rows = _rows()
    sizes = _dimensions(rows)
    table = []
    for family in _families(rows):
        cells = []
        for size in sizes:
            own = [r for r in rows if r["dimension"] == size and r["method"].startswith(family)]
            right = [r for r in own if abs(r["weight"] - 0.7) <= 4 * r["weight_error"]]
            best = max(right or own, key=lambda r: r["indicator_ess"])
            weight = f"{best['weight']:.3f} ± {best['weight_error']:.3f}{'' if right else ' *'}"
            cells.append(f"{best['indicator_ess']:,.0f} ({weight})")
        table.append((family, *cells))
    return Table(("", *(f"D = {size:,}" for size in sizes)), tuple(table))


def settings() -> Table:
    """Round trips and all the rest of tact's settings."""
    table = []
    order = ("noise", "dimension", "method")
    for row in sorted(_all_rows(), key=lambda r: tuple(r[k] for k in order)):
        if not row["method"].startswith("tact"):
            continue
        table.append(
            (
                row["method"].removeprefix("tact, "),
                f"{row['noise']:g}",
                f"{row['dimension']:,}",
                f"{row['round_trips']:,.0f}",
                f"{row['indicator_ess']:,.0f}",
                f"{row['plateau_share']:.0%}",
                f"{row['weight']:.3f} ± {row['weight_error']:.3f}",
                f"{row['variance']:.3f}",
                f"{row['xi_temperature']:.2f}",
            )
        )
    heads = (
        "`tact`",
        "noise",
        "D",
        "round trips",
        "ESS of the mode",
        "plateau share (20%)",
        "weight (0.7)",
        "variance within modes (1)",
        "ξ's kinetic temperature (1)",
    )
    return Table(heads, tuple(table))


TABLES: dict[str, Callable[[], Table]] = {"mobility": methods, "mobility-settings": settings}
