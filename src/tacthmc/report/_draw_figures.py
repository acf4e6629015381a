"""Figures of the draws: marginals, order, pairs, autocorrelation, and runs side by side."""

import math
from typing import Any

import numpy as np

from tacthmc.diagnostics._laws import autocorrelation
from tacthmc.report._common import joined, panel, some_chains, some_parameters, thinned
from tacthmc.report._plot import GRAY, Plot, axis, color, level, line, points, steps
from tacthmc.report._shown import MAX_POINTS, Shown, every

MAX_LAGS, MAX_MODES = 100, 8
"""The largest number of lags, and of modes with their own color."""


def marginals(shown: Shown) -> Plot:
    """Histograms of the parameters, with a line per chain."""
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {}
    names = shown.names
    columns = min(2, len(names))
    rows = math.ceil(len(names) / columns)
    for place, name in enumerate(names):
        edges = np.histogram_bin_edges(shown.draws[name], 60)
        suffix = "" if place == 0 else str(place + 1)
        on = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        data += _histograms(shown, name, edges, on, labeled=place == 0)
        if name in shown.references:
            known = shown.references[name]
            style = {"color": GRAY, "width": 2, "dash": "dot"}
            data.append(line(known.x, known.density, "reference", 0, **on, line=style))
        row, column = divmod(place, columns)
        layout |= panel(suffix, row, column, rows, columns, name)
    return Plot(
        "marginals",
        "Marginals",
        f"{shown.which}, for each chain. Chains that differ have not mixed.",
        data,
        layout,
        joined(some_chains(shown), some_parameters(shown)),
        height=90 + 230 * rows,
    )


def _by_mode(shown: Shown) -> np.ndarray:
    labels = shown.mode_of
    return np.zeros((shown.run.num_chains, shown.num_draws), int) if labels is None else labels


def _mode_name(shown: Shown, mode: int) -> str:
    share = f", {shown.modes.shares[mode]:.1%}" if shown.modes is not None else ""
    return f"mode {mode + 1}{share}" if mode < MAX_MODES else "other modes"


def course(shown: Shown) -> Plot:
    """The draws of the first parameter in their order, colored by mode."""
    name, chain = shown.names[0], 0
    stride = every(shown.num_draws, MAX_POINTS)
    values = shown.draws[name][chain, ::stride]
    labels = np.minimum(_by_mode(shown)[chain, ::stride], MAX_MODES)
    where = np.arange(len(values)) * stride
    data = [
        points(
            where[labels == mode],
            values[labels == mode],
            _mode_name(shown, int(mode)),
            color(int(mode)) if mode < MAX_MODES else GRAY,
        )
        for mode in np.unique(labels)
    ]
    return Plot(
        "course",
        f"Draws of {name} in their order",
        f"{shown.which} of the first chain, colored by mode. Long stretches of one color mean that"
        " the chain rarely changes modes.",
        data,
        {"xaxis": axis("draw"), "yaxis": axis(name)},
        thinned(stride, "draw"),
    )


def pairs(shown: Shown) -> Plot | None:
    """Parameters against each other, colored by mode."""
    names = shown.names
    if len(names) < 2:
        return None
    size = len(names) - 1
    each = max(200, MAX_POINTS // (size * (size + 1) // 2))
    values = np.stack([shown.draws[name].ravel() for name in names])
    stride = every(values.shape[1], each)
    # Chains lie one after the other, so a stride takes equally many draws of each.
    values, labels = values[:, ::stride], np.minimum(_by_mode(shown).ravel()[::stride], MAX_MODES)
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {}
    number = 0
    for row in range(size):
        for column in range(row + 1):
            number += 1
            suffix = "" if number == 1 else str(number)
            for mode in np.unique(labels):
                inside = labels == mode
                data.append(
                    points(
                        values[column, inside],
                        values[row + 1, inside],
                        _mode_name(shown, int(mode)),
                        color(int(mode)) if mode < MAX_MODES else GRAY,
                        xaxis=f"x{suffix}",
                        yaxis=f"y{suffix}",
                        legendgroup=f"m{mode}",
                        showlegend=number == 1,
                    )
                )
            below = names[column] if row == size - 1 else ""
            beside = names[row + 1] if column == 0 else ""
            layout |= panel(suffix, row, column, size, size, below, beside)
    return Plot(
        "pairs",
        "Pairs of parameters",
        f"{shown.which} of all chains, colored by mode.",
        data,
        layout,
        joined(thinned(stride, "draw"), some_parameters(shown)),
        height=200 + 200 * size,
    )


def correlation(shown: Shown) -> Plot | None:
    """Autocorrelation of the parameters, and of the mode indicators."""
    if shown.num_draws < 4:
        return None
    lags = min(MAX_LAGS, shown.num_draws // 4)
    data = [
        line((0, 1), autocorrelation(values, lags), name, place)
        for place, (name, values) in enumerate(shown.draws.items())
    ]
    if shown.modes is not None and len(shown.modes.shares) > 1:
        inside = (_by_mode(shown) == 0).astype(float)
        style = {"color": GRAY, "width": 2, "dash": "dot"}
        data.append(line((0, 1), autocorrelation(inside, lags), "is in mode 1", 0, line=style))
    return Plot(
        "correlation",
        "Autocorrelation",
        "Of kept draws. The weights of modes are only as good as the decay of the mode indicator.",
        data,
        {"xaxis": axis("lag in draws"), "yaxis": axis("ρ"), "shapes": [level(0.0, dash="dot")]},
    )


def _histograms(
    shown: Shown, name: str, edges: np.ndarray, on: dict[str, str], labeled: bool
) -> list[dict[str, Any]]:
    """The histogram of a parameter in each chain, on these axes."""
    made = []
    for c in shown.chains:
        heights = np.histogram(shown.draws[name][c], edges, density=True)[0]
        group = {"legendgroup": f"c{c}", "showlegend": labeled}
        made.append(steps(edges, heights, f"chain {c}", c, **on, **group))
    return made


def _reference_line(
    shown: Shown, name: str, on: dict[str, str], labeled: bool
) -> list[dict[str, Any]]:
    """The reference density of a parameter, if there is one."""
    if name not in shown.references:
        return []
    known = shown.references[name]
    style = {"color": GRAY, "width": 2, "dash": "dot"}
    group = {"legendgroup": "reference", "showlegend": labeled}
    return [line(known.x, known.density, "reference", 0, **on, line=style, **group)]


def _common_edges(values: list[np.ndarray]) -> np.ndarray:
    """Bins for the histograms of several runs on one scale."""
    low = min(float(np.quantile(v, 0.0005)) for v in values if v.size)
    high = max(float(np.quantile(v, 0.9995)) for v in values if v.size)
    return np.linspace(low, high, 81)


def comparison(all_shown: list[Shown]) -> Plot | None:
    """The marginal of the first parameter on one scale, with a panel per run that has it."""
    if not all_shown[0].names:
        return None
    name = all_shown[0].names[0]
    all_shown = [s for s in all_shown if name in s.names and s.num_draws > 1]
    if len(all_shown) < 2:
        return None
    labeled = max(all_shown, key=lambda shown: len(shown.chains))
    edges = _common_edges([shown.draws[name] for shown in all_shown])
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {}
    for place, shown in enumerate(all_shown):
        suffix = "" if place == 0 else str(place + 1)
        on = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        data += _histograms(shown, name, edges, on, labeled=shown is labeled)
        data += _reference_line(shown, name, on, labeled=place == 0)
        layout |= panel(suffix, place, 0, len(all_shown), 1, f"{name}, {shown.name}")
        if place:
            layout[f"xaxis{suffix}"]["matches"] = "x"
            layout[f"yaxis{suffix}"]["matches"] = "y"
    return Plot(
        "comparison",
        "Side by side",
        f"Draws of {name}, for each chain.",
        data,
        layout,
        height=80 + 220 * len(all_shown),
    )
