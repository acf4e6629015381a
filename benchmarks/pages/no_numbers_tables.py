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


def _way(chosen: dict[str, Any]) -> str:
    """How chains got from mode to mode; older rows have the hottest temperature of ξ."""
    return chosen["way"] if "way" in chosen else f"ξ to {chosen['hottest']:.4g}"


def _steps(step_size: float | list[float]) -> str:
    """One step size, or the range of those of replicas."""
    if isinstance(step_size, list):
        return f"{min(step_size):.2g} to {max(step_size):.2g}"
    return f"{step_size:.2g}"


def table() -> Table:
    """Each problem in each unit."""
    rows = read("no_numbers.json")["rows"]
    rows.sort(key=lambda row: (row["problem"], row["scale"]))
    columns = ("posterior", "θ times", "way", "η", "round trips a chain", "quality")
    cells = [
        (
            row["problem"],
            f"{row['scale']:g}",
            _way(row["chosen"]),
            _steps(row["chosen"]["step_size"]),
            f"{row['round_trips']:,.0f} in {row['steps']:,} steps",
            _quality(row),
        )
        for row in rows
    ]
    return Table(columns, tuple(cells))


TABLES = {"no-numbers": table}
