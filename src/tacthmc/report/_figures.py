"""All figures of a run, and those of its thermostats and energy."""

import math
from typing import Any

import numpy as np

from tacthmc.diagnostics._laws import Law
from tacthmc.report._common import joined, panel, row_lines, some_chains, thinned
from tacthmc.report._draw_figures import correlation, course, marginals, pairs
from tacthmc.report._plot import Plot, axis, level, line, steps
from tacthmc.report._shown import MAX_ROWS, Shown, every
from tacthmc.report._xi_figures import (
    energy_by_temperature,
    free_energy,
    temperature,
    xi_histogram,
    xi_trace,
)

COLUMNS = {"z_theta": "thermostat", "z_xi": "xi_thermostat"}
"""The columns of the trace by the names of their laws."""


def all_plots(shown: Shown) -> list[Plot]:
    """All figures that apply to the run."""
    made: list[Plot | None] = []
    if not shown.rows:
        return []
    if shown.run.has_tempering:
        made += [xi_trace(shown), temperature(shown)]
    if shown.num_draws > 1:
        made += [marginals(shown), course(shown), pairs(shown), correlation(shown)]
    made += [thermostat_means(shown), thermostat_laws(shown)]
    if shown.run.has_tempering:
        made += [free_energy(shown), xi_histogram(shown), energy_by_temperature(shown)]
    else:
        made.append(energy_trace(shown))
    return [plot for plot in made if plot is not None]


def _laws(shown: Shown) -> list[Law]:
    return [law for law in shown.summary.thermostats if law.name in COLUMNS]


def _running(rows: np.ndarray, count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Places on a logarithmic scale, and the mean up to each place."""
    rows = np.asarray(rows, float)
    places = np.unique(np.geomspace(1, len(rows), count).astype(int)) - 1
    return places, (np.cumsum(rows) / np.arange(1, len(rows) + 1))[places]


def _expected_kinetic_temperature(shown: Shown) -> float:
    laws = shown.summary.thermostats
    return float(laws[0].expected_mean) if laws else 1.0


def _running_means(shown: Shown, name: str, column: str, dash: str) -> list[dict[str, Any]]:
    """The running means of a column, with a line per chain."""
    trace, made = shown.run.trace, []
    for c in shown.chains:
        places, means = _running(trace[column][c])
        label = f"{name}, chain {c}"
        made.append(line(trace["step"][c][places], means, label, c, line={"dash": dash}))
    return made


def _is_constant(column: np.ndarray | None) -> bool:
    return column is None or bool(np.ptp(np.asarray(column, float)) == 0)


def thermostat_means(shown: Shown) -> Plot | None:
    """Cumulative averages of thermostats, or of the kinetic temperature without a thermostat."""
    trace = shown.run.trace
    columns = {name: column for name, column in COLUMNS.items() if column in trace}
    theory = {law.name: law.expected_mean for law in _laws(shown)}
    constant = _is_constant(trace.get("thermostat"))
    if constant and "kinetic_temperature" in trace:
        # Without a thermostat, heat that nothing absorbs shows in the kinetic temperature.
        columns = {"kinetic temperature": "kinetic_temperature"}
        theory = {"kinetic temperature": _expected_kinetic_temperature(shown)}
    if not columns or trace["step"].shape[1] < 2:
        return None
    dashes = zip(columns.items(), ("solid", "dash"), strict=False)
    data: list[dict[str, Any]] = []
    for (name, column), dash in dashes:
        data += _running_means(shown, name, column, dash)
    return Plot(
        "thermostats",
        "Kinetic temperature" if constant else "Thermostats",
        "Cumulative averages" + (", against theory (dashed across)." if theory else "."),
        data,
        {
            "xaxis": axis("step", type="log"),
            "yaxis": axis("mean so far"),
            "shapes": [level(mean) for mean in theory.values()],
        },
        joined(some_chains(shown), "Shown at places that are even on this scale."),
    )


def thermostat_laws(shown: Shown) -> Plot | None:
    """Histograms of thermostats against Theorem 1's normal laws."""
    laws = [law for law in _laws(shown) if law.expected_sd > 0]
    if not laws:
        return None
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {}
    for place, law in enumerate(laws):
        suffix = "" if place == 0 else str(place + 1)
        seen = shown.usable(COLUMNS[law.name]).ravel()
        low = min(law.expected_mean - 4 * law.expected_sd, float(np.quantile(seen, 0.001)))
        high = max(law.expected_mean + 4 * law.expected_sd, float(np.quantile(seen, 0.999)))
        edges = np.linspace(low, high, 81)
        heights = np.histogram(seen, edges)[0] / max(seen.size, 1) / np.diff(edges)
        on = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        data.append(steps(edges, heights, "seen", 0, **on, showlegend=place == 0, fill="tozeroy"))
        grid = np.linspace(low, high, 201)
        z = (grid - law.expected_mean) / law.expected_sd
        normal = np.exp(-0.5 * z**2) / (law.expected_sd * math.sqrt(2 * math.pi))
        data.append(line(grid, normal, "Theorem 1", 3, **on, showlegend=place == 0))
        layout |= panel(suffix, 0, place, 1, len(laws), law.name)
    return Plot(
        "laws",
        "Thermostats against Theorem 1",
        "All rows after warm-up. A shifted or wider law means a step that is too large, or noise"
        " that is not what the theorem assumes.",
        data,
        layout,
    )


def energy_trace(shown: Shown) -> Plot | None:
    """The energy over time, where nothing is tempered."""
    if "energy" not in shown.run.trace:
        return None
    stride = every(shown.run.trace["energy"].shape[1], MAX_ROWS)
    return Plot(
        "energy",
        "Energy",
        "The energy Ũ (of a mini-batch, scaled to the data, where batches are used).",
        row_lines(shown, "energy", stride),
        {"xaxis": axis("step"), "yaxis": axis("energy Ũ")},
        joined(thinned(stride, "row"), some_chains(shown)),
    )
