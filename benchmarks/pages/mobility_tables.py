"""The tables of ``research/high-dimension.md`` and of its appendix, from ``mobility.json``."""

from collections.abc import Callable
from typing import Any

from benchmarks.record import read
from tacthmc.report import Table

NOISE, WEIGHT = 1.0, 0.7
"""The noise of the comparison with rivals, and the heavier mode's weight."""

Rows = list[dict[str, Any]]


def _all_rows(problem: str) -> Rows:
    """The rows of one problem, each with what its run says of it."""
    file = read("mobility.json")
    return [file["runs"][r["run"]] | r for r in file["rows"] if r["problem"] == problem]


def _added() -> Rows:
    """Force and energy with noise of the same size."""
    return [row for row in _all_rows("added") if row["noise"] == row["energy_noise"]]


def _families(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["method"].split(":")[0] for row in rows))


def _dimensions(rows: Rows) -> list[int]:
    return sorted({row["dimension"] for row in rows})


def _is_right(row: dict[str, Any]) -> bool:
    """Within four standard errors."""
    return row["weight"] is not None and abs(row["weight"] - WEIGHT) <= 4 * row["weight_error"]


def _weight(row: dict[str, Any]) -> str:
    if row["weight"] is None:
        return "no draws"
    return f"{row['weight']:.3f} ± {row['weight_error']:.3f}"


def _off(row: dict[str, Any]) -> str:
    if not row["weight_error"]:
        return "–"
    return f"{(row['weight'] - WEIGHT) / row['weight_error']:+.1f}"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _device(row: dict[str, Any]) -> str:
    return "H200" if "H200" in row["device"] else "CPU"


def _size(row: dict[str, Any]) -> str:
    return f"{_device(row)}, {row['chains']} × {row['gradients']:,}"


def _best(rows: Rows, last: Callable[[dict[str, Any]], tuple[tuple[str, str], ...]]) -> Table:
    """Effective draws of the mode indicator of each method's best setting with a right weight.

    Right: within four standard errors of 0.7. Where none is, the best, marked by a star. ``last``
    gives lines below, (name, cell), of any row of a dimension.
    """
    sizes = _dimensions(rows)
    table = []
    for family in _families(rows):
        cells = []
        for size in sizes:
            own = [r for r in rows if r["dimension"] == size and r["method"].startswith(family)]
            right = [r for r in own if _is_right(r)]
            if not own:
                cells.append("–")
                continue
            best = max(right or own, key=lambda r: r["indicator_ess"])
            cells.append(f"{best['indicator_ess']:,.0f} ({_weight(best)}{'' if right else ' *'})")
        table.append((family, *cells))
    ends = [last(next(r for r in rows if r["dimension"] == size)) for size in sizes]
    for lines in zip(*ends, strict=True):
        table.append((lines[0][0], *(cell for _, cell in lines)))
    return Table(("", *(f"D = {size:,}" for size in sizes)), tuple(table))


def methods() -> Table:
    """Each method's best with noise added."""
    rows = [row for row in _added() if row["noise"] == NOISE]
    return _best(rows, lambda row: (("*device, chains × gradients*", _size(row)),))


def batches() -> Table:
    """Each method's best on real mini-batches."""
    rows = [row for row in _all_rows("batches") if row["noise"] == NOISE]

    def last(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        return (
            ("*noise of a force, sd*", f"{row['force_sd']:.2f}"),
            ("*noise of the energy, sd*", f"{row['energy_sd']:.1f}"),
            ("*device, chains × gradients*", _size(row)),
        )

    return _best(rows, last)


HEADS = (
    "round trips",
    "ESS of the mode",
    "plateau share (20%)",
    "weight (0.7)",
    "off, in standard errors",
    "variance within modes (1)",
    "ξ's kinetic temperature (1)",
)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['round_trips']:,.0f}",
        f"{row['indicator_ess']:,.0f}",
        _number(row["plateau_share"], ".0%"),
        _weight(row),
        _off(row),
        _number(row["variance"], ".3f"),
        _number(row["xi_temperature"], ".2f"),
    )


def _in_order(rows: Rows, *keys: str) -> Rows:
    return sorted(rows, key=lambda row: tuple(row[k] for k in keys))


def settings() -> Table:
    """Round trips and all the rest of tact's settings, noise added."""
    rows = [row for row in _added() if row["method"].startswith("tact")]
    table = [
        (
            row["method"].removeprefix("tact, "),
            f"{row['noise']:g}",
            f"{row['dimension']:,}",
            *_cells(row),
            _size(row),
        )
        for row in _in_order(rows, "noise", "dimension", "method")
    ]
    heads = ("`tact`", "noise", "D", *HEADS, "device, chains × gradients")
    return Table(heads, tuple(table))


NAMES = {"added": "independent", "tilts": "slopes alone", "batches": "mini-batches"}
"""The noise of mini-batches and of their two controls."""


def _batches_and_controls() -> Rows:
    independent = [row for row in _all_rows("added") if row["noise"] != row["energy_noise"]]
    return independent + _all_rows("tilts") + _all_rows("batches")


def controls() -> Table:
    """Breathing on mini-batches, with slopes alone and with independent noise."""
    rows = [row for row in _batches_and_controls() if row["noise"] == NOISE]
    table = []
    for problem, name in NAMES.items():
        own = [r for r in rows if r["problem"] == problem and "breathing" in r["method"]]
        light = [r for r in own if r["method"].endswith(" 0.03")]
        cells = []
        for some in ([r for r in own if r["method"].endswith((" 0.001", " 0.01"))], light):
            variances = [r["variance"] for r in some]
            cells.append(f"{min(variances):.3f} to {max(variances):.3f}")
        for size in (16, 64):
            cells.append(_weight(next(r for r in light if r["dimension"] == size)))
        table.append((name, *cells))
    heads = (
        "",
        "variances, breathing at 0.001 and 0.01",
        "variances, 0.03",
        "weight at D = 16, 0.03",
        "at D = 64, 0.03",
    )
    return Table(heads, tuple(table))


def batch_settings() -> Table:
    """All that was measured on mini-batches, and of their controls."""
    rows = _batches_and_controls()
    table = [
        (
            row["method"],
            f"{row['dimension']:,}",
            NAMES[row["problem"]],
            f"{row['force_sd']:.2f}",
            f"{row['energy_sd']:.1f}",
            *_cells(row),
            _size(row),
        )
        for row in _in_order(rows, "noise", "dimension", "method", "problem")
    ]
    sds = ("force's noise, sd", "energy's noise, sd")
    heads = ("", "D", "noise", *sds, *HEADS, "device, chains × gradients")
    return Table(heads, tuple(table))


def effective() -> Table:
    """Which part λ multiplies, against the dimension that the likelihood sees: the best ξ."""
    rows = _all_rows("effective")
    sizes = sorted({row["effective"] for row in rows})
    table = []
    for family in _families(_in_order(rows, "method")):
        cells = []
        for size in sizes:
            own = [r for r in rows if r["effective"] == size and r["method"].startswith(family)]
            best = max(own, key=lambda r: r["round_trips"])
            ess = f"{best['indicator_ess']:,.0f}"
            cells.append(f"{best['round_trips']:,.0f}; {ess} ({_weight(best)})")
        table.append((*_form(family)[:2], *cells))
    return Table(("λ on", "coordinates", *(f"d = {size:,}" for size in sizes)), tuple(table))


def effective_settings() -> Table:
    """All that was measured of it."""
    table = [
        (f"{row['effective']:,}", *_form(row["method"]), *_cells(row), _size(row))
        for row in _in_order(_all_rows("effective"), "effective", "method")
    ]
    heads = ("d", "λ on", "coordinates", "`xi_step_size`", *HEADS, "device, chains × gradients")
    return Table(heads, tuple(table))


def _form(method: str) -> tuple[str, str, str]:
    _, tempered, rest = method.split(", ")
    form, _, size = rest.partition(": xi_step_size ")
    return tempered.removesuffix(" tempered"), form, size


TABLES: dict[str, Callable[[], Table]] = {
    "mobility": methods,
    "mobility-settings": settings,
    "mobility-batches": batches,
    "mobility-batch-settings": batch_settings,
    "mobility-controls": controls,
    "mobility-effective": effective,
    "mobility-effective-settings": effective_settings,
}
