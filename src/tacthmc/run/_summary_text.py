"""A summary as lines of text, at most 100 columns wide."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tacthmc.diagnostics._laws import Law
from tacthmc.run._parameters import Parameter

if TYPE_CHECKING:
    from tacthmc.run._summary import Summary

MAX_WIDTH = 100
"""The number of columns of a terminal that everything fits into."""
MAX_CHAINS = 8
"""The number of chains beyond which a line has their range only."""
MIN_NAME_WIDTH = 16
"""The width that names keep, if they need it, before numbers lose a digit."""
COLUMNS = ("", "mean", "sd", "5%", "50%", "95%", "MCSE", "ESS", "tail ESS", "R-hat")


def summary_text(summary: "Summary") -> str:
    """The tables of a summary, its notes and its verdict."""
    parts = [[summary.title], _parameter_lines(summary), list(summary.mode_lines)]
    parts += [list(summary.width_lines)]
    parts += [list(summary.replica_lines), xi_lines(summary), _law_lines(summary), summary.notes]
    if summary.findings:
        head = summary.headline
        parts.append([f"{head.title}. {head.text}"])
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def cells(row: Parameter, digits: int = 4) -> tuple[str, ...]:
    """A row of the table of parameters."""
    numbers = (row.mean, row.sd, row.q5, row.median, row.q95)
    return (
        row.name,
        *(f"{x:.{digits}g}" for x in numbers),
        f"{row.mcse:.2g}",
        *(f"{x:.0f}" for x in (row.ess, row.ess_tail)),
        f"{row.rhat:.3f}",
    )


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Aligned columns: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def shortened(name: str, width: int) -> str:
    """A name without its middle, if it is too long.

    >>> shortened("layers[0].attention.kernel[3,4]", 20)
    'layers[….kernel[3,4]'
    """
    if len(name) <= width:
        return name
    left = max(1, (width - 1) * 2 // 5)
    return f"{name[:left]}…{name[len(name) - (width - 1 - left) :]}"


def _parameter_lines(summary: "Summary") -> list[str]:
    rows = [*summary.parameters, *summary.functions]
    if not rows:
        return []
    for digits in (4, 3):
        made = [COLUMNS, *(cells(row, digits) for row in rows)]
        others = (max(len(line[i]) for line in made) + 2 for i in range(1, len(COLUMNS)))
        room = MAX_WIDTH - sum(others)
        if room >= min(max(len(row.name) for row in rows), MIN_NAME_WIDTH):
            break
    short = [(shortened(line[0], max(room, 1)), *line[1:]) for line in made]
    return table(short) + list(summary.looked)


def xi_lines(summary: "Summary") -> list[str]:
    if summary.hottest is None:
        return []
    lines = [f"plateau share per chain: {_each(summary.plateau_share, '.3f')}"]
    if summary.expected_plateau_share is not None:
        why = "by its schedule" if summary.scheduled else "if ξ is uniform"
        lines[0] += f" ({summary.expected_plateau_share:.3f} {why})"
    lines.append(f"round trips of ξ per chain: {_each(summary.round_trips, 'd')}")
    if summary.flatness:
        flat = _each(summary.flatness, ".3f")
        lines.append(f"distance of ξ from uniform (total variation) per chain: {flat}")
    return lines


def _law_lines(summary: "Summary") -> list[str]:
    if not summary.thermostats:
        return []
    return table([LAW_COLUMNS, *map(law_cells, summary.thermostats)])


LAW_COLUMNS = ("", "mean", "theory", "sd", "theory")


def _each(values: Sequence[float | int], form: str) -> str:
    """One number per chain, or their range and mean if there are many chains."""
    if len(values) <= MAX_CHAINS:
        return " ".join(format(value, form) for value in values)
    return f"{min(values):{form}} to {max(values):{form}}, mean {np.mean(values):.4g}"


def law_cells(law: Law) -> tuple[str, ...]:
    """A row of the table of thermostats: means with errors, and standard deviations."""
    return (
        law.name,
        _with_error(law.mean, law.error),
        _with_error(law.expected_mean, law.expected_error),
        *("" if np.isnan(x) else f"{x:.4g}" for x in (law.sd, law.expected_sd)),
    )


def _with_error(value: float, error: float) -> str:
    return f"{value:.4g} ± {error:.1g}" if error > 0 else f"{value:.4g}"
