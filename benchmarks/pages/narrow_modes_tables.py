"""The table of ``docs/finding-modes.md``, from ``narrow_modes.json``."""

from collections.abc import Callable

from benchmarks.record import read
from tacthmc.report import Table


def narrow_modes() -> Table:
    """How many searches found the narrow mode, by dimension and width."""
    rows = sorted(read("narrow_modes.json")["rows"], key=lambda r: (r["dimension"], -r["width"]))
    dimensions = sorted({row["dimension"] for row in rows})
    table = [
        (
            f"{dimension}",
            ", ".join(
                f"{row['width']:g}: {row['found']} of {row['repeats']}"
                for row in rows
                if row["dimension"] == dimension
            ),
        )
        for dimension in dimensions
    ]
    return Table(("D", "standard deviation of the narrow mode: found"), tuple(table))


TABLES: dict[str, Callable[[], Table]] = {"narrow-modes": narrow_modes}
