"""Figures of the tempering variable: its path, temperature, histogram, free energy and energies."""

import numpy as np

from tacthmc.dynamics._bias import NoBias
from tacthmc.report._common import joined, row_lines, some_chains, thinned
from tacthmc.report._plot import GRAY, Plot, axis, band, color, level, line, points, steps
from tacthmc.report._shown import MAX_POINTS, MAX_ROWS, Shown, every
from tacthmc.store._errors import StoreError

WINDOW_ROWS = 300
"""The number of rows in the window of the temperature."""


def xi_trace(shown: Shown) -> Plot:
    """ξ over time with the plateau."""
    caption, shapes, limits = "A good chain covers the whole well.", [], {}
    if shown.known:
        coupling = shown.run.tempering_of().coupling
        plateau, wall = float(coupling.plateau), float(coupling.wall)
        caption = (
            "On the shaded plateau the temperature is 1 and draws are kept. Next to the walls it is"
            f" {float(coupling.hottest):.3g}. {caption}"
        )
        shapes = [band(-plateau, plateau, "y"), level(-wall), level(wall)]
        limits = {"range": [-1.05 * wall, 1.05 * wall]}
    stride = every(shown.rows, MAX_ROWS)
    return Plot(
        "xi",
        "The tempering variable ξ",
        caption,
        row_lines(shown, "xi", stride),
        {"xaxis": axis("step"), "yaxis": axis("ξ", **limits), "shapes": shapes},
        joined(thinned(stride, "row"), some_chains(shown)),
    )


def temperature(shown: Shown) -> Plot:
    """The effective temperature in the last rows."""
    rows = shown.run.trace["temperature"].shape[1]
    begin = max(0, rows - WINDOW_ROWS)
    step = shown.run.trace["step"]
    gap = int(step[0, 1] - step[0, 0]) if rows > 1 else 1
    return Plot(
        "temperature",
        "Effective temperature",
        "1/λ(ξ) of the first chain. It should rise and return to 1 many times.",
        [
            line(
                (int(step[0, begin]), gap),
                shown.run.trace["temperature"][0, begin:],
                "temperature",
                0,
            )
        ],
        {
            "xaxis": axis("step"),
            "yaxis": axis("temperature", type="log"),
            "shapes": [level(1.0)],
            "showlegend": False,
        },
        f"The last {rows - begin:,} of {rows:,} rows." if begin else "",
    )


def free_energy(shown: Shown) -> Plot | None:
    """A(ξ) of all chains together, and of each."""
    run = shown.run
    if not shown.known or isinstance(run.tempering_of().bias, NoBias):
        return None
    try:
        pooled, each = run.free_energy(), [run.free_energy(c) for c in shown.chains]
    except (ValueError, StoreError):
        # The table is still empty, or no checkpoint can be read.
        return None
    coupling = run.tempering_of().coupling
    faint = {"width": 0.8}
    data = [line(p.xi, p.value, f"chain {c}", c, line=faint) for c, p in enumerate(each)]
    data.append(line(pooled.xi, pooled.value, "all chains", 0, line={"color": GRAY, "width": 3}))
    return Plot(
        "free-energy",
        "Free energy A(ξ)",
        "The profile that the bias has learned to flatten. Chains that agree have converged.",
        data,
        {
            "xaxis": axis("ξ"),
            "yaxis": axis("A(ξ)"),
            "shapes": [band(-float(coupling.plateau), float(coupling.plateau), "x")],
        },
        some_chains(shown),
    )


def xi_histogram(shown: Shown) -> Plot | None:
    """The histogram of ξ."""
    if not shown.known or shown.summary.scheduled:
        return None
    coupling = shown.run.tempering_of().coupling
    wall = float(coupling.wall)
    edges = np.linspace(-wall, wall, 41)
    rows = shown.usable("xi")
    data = [
        steps(edges, np.histogram(rows[c], edges, density=True)[0], f"chain {c}", c)
        for c in shown.chains
        if rows.shape[1]
    ]
    return Plot(
        "xi-histogram",
        "Histogram of ξ",
        "After warm-up. It is uniform (dashed) if the bias is right.",
        data,
        {
            "xaxis": axis("ξ"),
            "yaxis": axis("density", rangemode="tozero"),
            "shapes": [
                band(-float(coupling.plateau), float(coupling.plateau), "x"),
                level(1 / (2 * wall)),
            ],
        },
        some_chains(shown),
    )


def energy_by_temperature(shown: Shown) -> Plot:
    """The energy Ũ at each temperature, with its mean."""
    energy, heat = shown.usable("energy").ravel(), shown.usable("temperature").ravel()
    finite = np.isfinite(energy)
    energy, heat = energy[finite], heat[finite]
    stride = every(len(energy), MAX_POINTS)
    data = [points(heat[::stride], energy[::stride], "rows", color(0))]
    if len(energy) > 1:
        edges = np.geomspace(1, max(float(heat.max()), 1.001) * 1.0001, 16)
        inside = np.digitize(heat, edges) - 1
        filled = [k for k in range(15) if np.any(inside == k)]
        middles = [np.sqrt(edges[k] * edges[k + 1]) for k in filled]
        means = [energy[inside == k].mean() for k in filled]
        style = {"width": 2.5}
        data.append(line(middles, means, "mean", 3, mode="lines+markers", line=style))
    return Plot(
        "energy",
        "Energy by temperature",
        "Energies rise with the temperature. ξ can move where the energies of neighboring"
        " temperatures overlap.",
        data,
        {"xaxis": axis("temperature", type="log"), "yaxis": axis("energy Ũ")},
        thinned(stride, "row"),
    )
