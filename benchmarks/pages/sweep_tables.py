"""The table of "ξ swept" in ``research/high-dimension.md``, from ``sweep.json``."""

from collections.abc import Callable

from benchmarks.record import read
from tacthmc.report import Table


def sweeps() -> Table:
    """Every record, by the energy's noise and the dimension."""
    rows = read("sweep.json")["rows"]
    table = [
        (
            row["method"],
            f"{row['energy_noise']:,g}",
            f"{row['dimension']:,}",
            f"{row['round_trips']:,.0f}",
            f"{row['indicator_ess']:,.0f}",
            f"{row['plateau_share']:.0%}",
            f"{row['kept']:,.0f}",
            f"{row['weight']:.3f} ± {row['weight_error']:.3f}",
            f"{row['variance']:.3f}",
        )
        for row in sorted(rows, key=lambda r: (r["energy_noise"], r["dimension"]))
    ]
    heads = (
        "`tact`",
        "energy's noise",
        "D",
        "round trips",
        "ESS of the mode",
        "plateau share",
        "draws a chain",
        "weight (0.7)",
        "variance within modes (1)",
    )
    return Table(heads, tuple(table))


TABLES: dict[str, Callable[[], Table]] = {"sweep": sweeps}
