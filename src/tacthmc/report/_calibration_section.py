"""A calibration by simulation in a report: its verdict, its checks, and rank plots."""

from typing import Any, Literal

import numpy as np

from tacthmc.calibration import Calibration
from tacthmc.calibration._result import UNINFORMED, Row
from tacthmc.report._plot import BAND, GRAY, Plot, axis, line, numbers
from tacthmc.run._verdict import Finding

MOST_ROWS, MOST_LINES = 20, 50
LEVELS: dict[str, Literal["good", "look", "bad"]] = {
    "right": "good",
    "wrong": "bad",
    "too short": "look",
}


def calibration_finding(calibration: Calibration) -> Finding:
    """The verdict of a calibration among the findings of a report."""
    verdict = calibration.verdict
    level = LEVELS[verdict]
    said = [calibration.conclusion.partition(": ")[2], calibration.power]
    if calibration.uninformed:
        said.append(UNINFORMED)
        level = "look" if level == "good" else level
    return Finding(level, f"Calibration by simulation: {verdict}", " ".join(said))


def calibration_table(calibration: Calibration) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The head and the rows of the table of checks, the smallest p-values first."""
    head = ("", "bias in sd", "width ratio", "p of ranks", "p of bias", "p of width")
    rows = sorted(calibration.rows, key=lambda row: row.least)[:MOST_ROWS]
    return head, [_cells(row) for row in rows]


def _cells(row: Row) -> tuple[str, ...]:
    bias, width = row.bias, row.width
    return (
        row.name,
        f"{bias.value:+.2f} [{bias.low:+.2f}, {bias.high:+.2f}]",
        f"{width.value:.2f} [{width.low:.2f}, {width.high:.2f}]",
        f"{row.ranks_p:.2g}",
        f"{row.bias_p:.2g}",
        f"{row.width_p:.2g}",
    )


def rank_plot(calibration: Calibration) -> Plot:
    """The distribution of the ranks minus the uniform one, in the simultaneous band."""
    band = calibration.band
    x = np.concatenate([[0.0], band.points, [1.0]])
    edge: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "x": numbers(x),
        "hoverinfo": "skip",
    }
    edge |= {"line": {"width": 0, "shape": "hvh"}, "showlegend": False}
    data = [
        {**edge, "y": numbers(_closed(band.low))},
        {**edge, "y": numbers(_closed(band.high)), "fill": "tonexty", "fillcolor": BAND},
    ]
    worst = sorted(calibration.rows, key=lambda row: row.least)[:MOST_LINES]
    outside = 0
    for row in worst:
        values = calibration.differences(row.name)
        out = bool(np.any((values < band.low) | (values > band.high)))
        style = {} if out else {"line": {"color": GRAY}}
        data.append(line(x, _closed(values), row.name, outside, showlegend=out, **style))
        outside += out
    hidden = len(calibration.rows) - len(worst)
    return Plot(
        "ranks",
        "Ranks of the truth",
        "If the sampler is right, the normalized ranks of the true values among the draws are"
        " uniform, and every line stays in the band with probability"
        f" {1 - calibration.level_of_each:.4g}. Draws that are too narrow give a line that is"
        " first above and then below zero.",
        data,
        {"xaxis": axis("normalized rank"), "yaxis": axis("distribution − uniform")},
        f"{hidden} quantities that differ less are not shown." if hidden else "",
    )


def _closed(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], values, [0.0]])
