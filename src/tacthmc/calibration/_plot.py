"""Rank plots with Matplotlib."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tacthmc.diagnostics._plots import axes

if TYPE_CHECKING:
    from tacthmc.calibration._result import Calibration


def plot_ranks(calibration: "Calibration", ax: Any = None) -> Any:
    """Plot the distribution of the ranks minus the uniform one, in the band; returns the axes.

    Quantities that leave the band are named.

    >>> from tacthmc.calibration import Calibration
    >>> even = (np.arange(200) + 0.5) / 200
    >>> ranks = np.stack([even, even**2], axis=1)
    >>> ax = plot_ranks(Calibration(("a", "b"), ranks, np.full(200, 100), distance=1))
    >>> [line.get_label() for line in ax.lines if not line.get_label().startswith("_")]
    ['b']
    """
    ax = axes(ax)
    band = calibration.band
    points = np.concatenate([[0.0], band.points, [1.0]])
    edges = [np.concatenate([[0.0], side, [0.0]]) for side in (band.low, band.high)]
    ax.fill_between(points, *edges, color="0.85", step="mid", linewidth=0)
    outside = 0
    for name in calibration.names:
        values = calibration.differences(name)
        out = bool(np.any((values < band.low) | (values > band.high)))
        shade = f"C{outside % 10}" if out else "0.4"
        outside += out
        line = np.concatenate([[0.0], values, [0.0]])
        ax.plot(points, line, color=shade, linewidth=1.2, label=name if out else f"_{name}")
    if outside:
        ax.legend(fontsize="small")
    ax.set_xlabel("normalized rank of the truth")
    ax.set_ylabel("distribution − uniform")
    return ax
