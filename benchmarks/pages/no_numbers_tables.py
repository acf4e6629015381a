"""The table of ``research/no-numbers.md``, from ``no_numbers.json``."""

from typing import Any

from benchmarks.record import read
from tacthmc.report import Table


def _quality(row: dict[str, Any]) -> str:
    if "total_variation" in row:
        found = f"total variation {row['total_variation']:.3f}, by chance {row['by_chance']:.3f}"
        inside = row.get("sd_within")
        return found if inside is None else f"{found}; sd within modes {inside:.3f} of the truth"
    low, _, high = row["sd_ratio"]
    errors = row["in_errors"]
    return (
        f"worst mean off by {row['worst_mean_off_in_sds']:.3f} sd; means off by"
        f" {errors['all']:.1f} Monte-Carlo errors (rms), {errors['worst']:.1f} at worst;"
        f" sds {low:.3f} to {high:.3f} of the truth"
    )


def table() -> Table:
    """Each problem in each unit."""
    rows = read("no_numbers.json")["rows"]
    rows.sort(key=lambda row: (row["problem"], row["scale"]))
    columns = ("posterior", "θ times", "hottest", "η", "round trips a chain", "quality")
    cells = [
        (
            row["problem"],
            f"{row['scale']:g}",
            f"{row['chosen']['hottest']:.4g}",
            f"{row['chosen']['step_size']:.2g}",
            f"{row['round_trips']:,.0f} in {row['steps']:,} steps",
            _quality(row),
        )
        for row in rows
    ]
    return Table(columns, tuple(cells))


TABLES = {"no-numbers": table}
