"""Parts that several figures share: lines of the trace, panels, and notes on what is not shown."""

from typing import Any

from tacthmc.report._plot import axis, line
from tacthmc.report._shown import Shown


def row_lines(shown: Shown, column: str, stride: int) -> list[dict[str, Any]]:
    """A column of the trace with a line per chain, one row in ``stride``."""
    rows, step = shown.run.trace[column], shown.run.trace["step"]
    first, gap = int(step[0, 0]), int(step[0, 1] - step[0, 0]) if step.shape[1] > 1 else 1
    thin = {"width": 1}
    return [
        line((first, gap * stride), rows[c, ::stride], f"chain {c}", c, line=thin, opacity=0.8)
        for c in shown.chains
    ]


def panel(
    suffix: str, row: int, column: int, rows: int, columns: int, title: str, below: str = ""
) -> dict[str, Any]:
    """The two axes of one panel in a grid of panels."""
    gap_x, gap_y = 0.12 / columns, 0.28 / rows
    left, top = column / columns, 1 - row / rows
    domain_x = [left + (gap_x if column else 0), left + 1 / columns - gap_x / 2]
    domain_y = [max(0.0, top - 1 / rows + gap_y / 2), top - (gap_y / 2 if row else 0)]
    return {
        f"xaxis{suffix}": axis(title, domain=domain_x, anchor=f"y{suffix}"),
        f"yaxis{suffix}": axis(below, domain=domain_y, anchor=f"x{suffix}"),
    }


def thinned(stride: int, what: str) -> str:
    """A note that only one in ``stride`` is shown."""
    return "" if stride == 1 else f"Thinned for display: one {what} in {stride:,} is shown."


def some_chains(shown: Shown) -> str:
    """A note that only the first chains are shown."""
    hidden = shown.run.num_chains - len(shown.chains)
    return f"The first {len(shown.chains)} of {shown.run.num_chains} chains." if hidden else ""


def some_parameters(shown: Shown) -> str:
    """A note that only some parameters are shown."""
    total = shown.summary.num_parameters
    return f"{len(shown.names)} of {total:,} parameters." if len(shown.names) < total else ""


def joined(*notes: str) -> str:
    """The notes that are not empty, in one text."""
    return " ".join(note for note in notes if note)
