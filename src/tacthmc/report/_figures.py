"""The report's pictures of one run."""

import math
from typing import Any

import numpy as np

from tacthmc.diagnostics._laws import Law, autocorrelation
from tacthmc.dynamics._bias import NoBias
from tacthmc.report._shown import POINTS, ROWS, Shown, every
from tacthmc.report._svg import GRAY, Plot, axis, band, color, level, line, points, steps
from tacthmc.store._errors import StoreError

WINDOW, LAGS, MODES = 300, 100, 8
COLUMNS = {"z_theta": "thermostat", "z_xi": "xi_thermostat"}


def all_plots(shown: Shown) -> list[Plot]:
    """Every picture that makes sense for the run."""
    made: list[Plot | None] = []
    if not shown.rows:
        return []
    if shown.run.tempered:
        made += [xi_trace(shown), temperature(shown)]
    if shown.num_draws > 1:
        made += [marginals(shown), course(shown), pairs(shown), correlation(shown)]
    made += [thermostat_means(shown), thermostat_laws(shown)]
    if shown.run.tempered:
        made += [free_energy(shown), xi_histogram(shown), energy_by_temperature(shown)]
    else:
        made.append(energy_trace(shown))
    return [plot for plot in made if plot is not None]


def _row_lines(shown: Shown, column: str, stride: int) -> list[dict[str, Any]]:
    """A line a chain of a column of the trace, one row in ``stride``."""
    rows, step = shown.run.trace[column], shown.run.trace["step"]
    first, gap = int(step[0, 0]), int(step[0, 1] - step[0, 0]) if step.shape[1] > 1 else 1
    thin = {"width": 1}
    return [
        line((first, gap * stride), rows[c, ::stride], f"chain {c}", c, line=thin, opacity=0.8)
        for c in shown.chains
    ]


def _thinned(stride: int, what: str) -> str:
    return "" if stride == 1 else f"Thinned for display: one {what} in {stride:,} is shown."


def _some_chains(shown: Shown) -> str:
    hidden = shown.run.num_chains - len(shown.chains)
    return f"The first {len(shown.chains)} of {shown.run.num_chains} chains." if hidden else ""


def _notes(*notes: str) -> str:
    return " ".join(note for note in notes if note)


def xi_trace(shown: Shown) -> Plot:
    """ξ over time with the plateau."""
    caption, shapes, limits = "A good chain wanders all over the well.", [], {}
    if shown.known:
        coupling = shown.run.tempering_of().coupling
        plateau, wall = float(coupling.plateau), float(coupling.wall)
        caption = (
            "On the shaded plateau the temperature is one and draws are kept; next to the walls it"
            f" is {float(coupling.hottest):.3g}. {caption}"
        )
        shapes = [band(-plateau, plateau, "y"), level(-wall), level(wall)]
        limits = {"range": [-1.05 * wall, 1.05 * wall]}
    stride = every(shown.rows, ROWS)
    return Plot(
        "xi",
        "The tempering variable ξ",
        caption,
        _row_lines(shown, "xi", stride),
        {"xaxis": axis("step"), "yaxis": axis("ξ", **limits), "shapes": shapes},
        _notes(_thinned(stride, "row"), _some_chains(shown)),
    )


def temperature(shown: Shown) -> Plot:
    """A window of the effective temperature, every row."""
    rows = shown.run.trace["temperature"].shape[1]
    begin = max(0, rows - WINDOW)
    step = shown.run.trace["step"]
    gap = int(step[0, 1] - step[0, 0]) if rows > 1 else 1
    return Plot(
        "temperature",
        "Effective temperature",
        "1/λ(ξ) of the first chain: it heats, wanders, and comes back to one.",
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


def marginals(shown: Shown) -> Plot:
    """Histograms of the parameters, a line a chain."""
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {}
    names = shown.names
    columns = min(2, len(names))
    rows = math.ceil(len(names) / columns)
    for place, name in enumerate(names):
        values = shown.draws[name]
        edges = np.histogram_bin_edges(values, 60)
        suffix = "" if place == 0 else str(place + 1)
        on = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        for c in shown.chains:
            heights = np.histogram(values[c], edges, density=True)[0]
            group = {"legendgroup": f"c{c}", "showlegend": place == 0}
            data.append(steps(edges, heights, f"chain {c}", c, **on, **group))
        if name in shown.truth:
            truth = shown.truth[name]
            style = {"color": GRAY, "width": 2, "dash": "dot"}
            data.append(line(truth.x, truth.density, "truth", 0, **on, line=style))
        row, column = divmod(place, columns)
        layout |= _panel(suffix, row, column, rows, columns, name)
    return Plot(
        "marginals",
        "Marginals",
        f"{shown.which}, chain by chain. Chains that differ have not mixed.",
        data,
        layout,
        _notes(_some_chains(shown), _some_parameters(shown)),
        height=90 + 230 * rows,
    )


def _some_parameters(shown: Shown) -> str:
    total = shown.summary.num_parameters
    return f"{len(shown.names)} of {total:,} parameters." if len(shown.names) < total else ""


def _panel(
    suffix: str, row: int, column: int, rows: int, columns: int, title: str, below: str = ""
) -> dict[str, Any]:
    """Two axes that take one place of a lattice of pictures."""
    gap_x, gap_y = 0.12 / columns, 0.28 / rows
    left, top = column / columns, 1 - row / rows
    domain_x = [left + (gap_x if column else 0), left + 1 / columns - gap_x / 2]
    domain_y = [max(0.0, top - 1 / rows + gap_y / 2), top - (gap_y / 2 if row else 0)]
    return {
        f"xaxis{suffix}": axis(title, domain=domain_x, anchor=f"y{suffix}"),
        f"yaxis{suffix}": axis(below, domain=domain_y, anchor=f"x{suffix}"),
    }


def _by_mode(shown: Shown) -> np.ndarray:
    labels = shown.mode_of
    return np.zeros((shown.run.num_chains, shown.num_draws), int) if labels is None else labels


def _mode_name(shown: Shown, mode: int) -> str:
    share = f", {shown.modes.shares[mode]:.1%}" if shown.modes is not None else ""
    return f"mode {mode + 1}{share}" if mode < MODES else "other modes"


def course(shown: Shown) -> Plot:
    """The first parameter's draws in their order, colored by mode."""
    name, chain = shown.names[0], 0
    stride = every(shown.num_draws, POINTS)
    values = shown.draws[name][chain, ::stride]
    labels = np.minimum(_by_mode(shown)[chain, ::stride], MODES)
    where = np.arange(len(values)) * stride
    data = [
        points(
            where[labels == mode],
            values[labels == mode],
            _mode_name(shown, int(mode)),
            color(int(mode)) if mode < MODES else GRAY,
        )
        for mode in np.unique(labels)
    ]
    return Plot(
        "course",
        f"Draws of {name}, one after the other",
        f"{shown.which} of the first chain, colored by mode. One color for long stretches means"
        " that modes are hardly crossed.",
        data,
        {"xaxis": axis("draw"), "yaxis": axis(name)},
        _thinned(stride, "draw"),
    )


def pairs(shown: Shown) -> Plot | None:
    """Parameters against each other, colored by mode."""
    names = shown.names
    if len(names) < 2:
        return None
    size = len(names) - 1
    each = max(200, POINTS // (size * (size + 1) // 2))
    values = np.stack([shown.draws[name].ravel() for name in names])
    stride = every(values.shape[1], each)
    # Chains lie one after the other: a stride goes through all of them alike.
    values, labels = values[:, ::stride], np.minimum(_by_mode(shown).ravel()[::stride], MODES)
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
                        color(int(mode)) if mode < MODES else GRAY,
                        xaxis=f"x{suffix}",
                        yaxis=f"y{suffix}",
                        legendgroup=f"m{mode}",
                        showlegend=number == 1,
                    )
                )
            below = names[column] if row == size - 1 else ""
            beside = names[row + 1] if column == 0 else ""
            layout |= _panel(suffix, row, column, size, size, below, beside)
    return Plot(
        "pairs",
        "Pairs of parameters",
        f"{shown.which} of all chains, colored by mode.",
        data,
        layout,
        _notes(_thinned(stride, "draw"), _some_parameters(shown)),
        height=200 + 200 * size,
    )


def correlation(shown: Shown) -> Plot | None:
    """Autocorrelation of the parameters, and of the mode indicators."""
    if shown.num_draws < 4:
        return None
    lags = min(LAGS, shown.num_draws // 4)
    data = [
        line((0, 1), autocorrelation(values, lags), name, place)
        for place, (name, values) in enumerate(shown.draws.items())
    ]
    if shown.modes is not None and len(shown.modes.shares) > 1:
        inside = (_by_mode(shown) == 0).astype(float)
        style = {"color": GRAY, "width": 2, "dash": "dot"}
        data.append(line((0, 1), autocorrelation(inside, lags), "being in mode 1", 0, line=style))
    return Plot(
        "correlation",
        "Autocorrelation",
        "Of kept draws. What counts for the modes' weights is how fast the mode indicator forgets.",
        data,
        {"xaxis": axis("lag in draws"), "yaxis": axis("ρ"), "shapes": [level(0.0, dash="dot")]},
    )


def _laws(shown: Shown) -> list[Law]:
    return [law for law in shown.summary.thermostats if law.name in COLUMNS]


def _running(rows: np.ndarray, count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Places on a logarithmic scale, and the mean up to each."""
    rows = np.asarray(rows, float)
    places = np.unique(np.geomspace(1, len(rows), count).astype(int)) - 1
    return places, (np.cumsum(rows) / np.arange(1, len(rows) + 1))[places]


def thermostat_means(shown: Shown) -> Plot | None:
    """Cumulative averages of thermostats, or of the kinetic temperature where there are none."""
    trace = shown.run.trace
    columns = {name: column for name, column in COLUMNS.items() if column in trace}
    theory = {law.name: law.expected_mean for law in _laws(shown)}
    still = np.ptp(np.asarray(trace.get("thermostat", np.zeros((1, 1))), float)) == 0
    if still and "kinetic_temperature" in trace:
        # No thermostat: what there is to see is the heat that nothing absorbs.
        columns, theory = {"kinetic temperature": "kinetic_temperature"}, {}
        theory["kinetic temperature"] = (
            float(shown.summary.thermostats[0].expected_mean)
            if (shown.summary.thermostats)
            else 1.0
        )
    if not columns or trace["step"].shape[1] < 2:
        return None
    data = []
    for kind, (name, column) in enumerate(columns.items()):
        for c in shown.chains:
            places, means = _running(trace[column][c])
            style = {"dash": ("solid", "dash")[kind]}
            label = f"{name}, chain {c}"
            data.append(line(trace["step"][c][places], means, label, c, line=style))
    return Plot(
        "thermostats",
        "Kinetic temperature" if still else "Thermostats settle",
        "Cumulative averages" + (", against theory (dashed across)." if theory else "."),
        data,
        {
            "xaxis": axis("step", type="log"),
            "yaxis": axis("mean so far"),
            "shapes": [level(mean) for mean in theory.values()],
        },
        _notes(_some_chains(shown), "Shown at places that are even on this scale."),
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
        layout |= _panel(suffix, 0, place, 1, len(laws), law.name)
    return Plot(
        "laws",
        "Thermostats against Theorem 1",
        "All rows after warm-up. A shifted or wider law means a step that is too large, or noise"
        " that is not what the theorem assumes.",
        data,
        layout,
    )


def free_energy(shown: Shown) -> Plot | None:
    """A(ξ), all chains together and each."""
    run = shown.run
    if not shown.known or isinstance(run.tempered_sampler().bias, NoBias):
        return None
    try:
        pooled, each = run.free_energy(), [run.free_energy(c) for c in shown.chains]
    except (ValueError, StoreError):
        # Nothing learned yet, or no checkpoint that could be read.
        return None
    coupling = run.tempering_of().coupling
    faint = {"width": 0.8}
    data = [line(p.xi, p.value, f"chain {c}", c, line=faint) for c, p in enumerate(each)]
    data.append(line(pooled.xi, pooled.value, "all chains", 0, line={"color": GRAY, "width": 3}))
    return Plot(
        "free-energy",
        "Free energy A(ξ)",
        "What the bias has learned to push against. Chains that agree have converged.",
        data,
        {
            "xaxis": axis("ξ"),
            "yaxis": axis("A(ξ)"),
            "shapes": [band(-float(coupling.plateau), float(coupling.plateau), "x")],
        },
        _some_chains(shown),
    )


def xi_histogram(shown: Shown) -> Plot | None:
    """Where ξ has been."""
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
        "Where ξ has been",
        "After warm-up; uniform (dashed) if the bias is right.",
        data,
        {
            "xaxis": axis("ξ"),
            "yaxis": axis("density", rangemode="tozero"),
            "shapes": [
                band(-float(coupling.plateau), float(coupling.plateau), "x"),
                level(1 / (2 * wall)),
            ],
        },
        _some_chains(shown),
    )


def energy_by_temperature(shown: Shown) -> Plot:
    """The energy Ũ at each temperature, with its mean."""
    energy, heat = shown.usable("energy").ravel(), shown.usable("temperature").ravel()
    finite = np.isfinite(energy)
    energy, heat = energy[finite], heat[finite]
    stride = every(len(energy), POINTS)
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
        "The hotter, the higher the energies that are reached; where clouds of neighboring"
        " temperatures overlap, ξ can move.",
        data,
        {"xaxis": axis("temperature", type="log"), "yaxis": axis("energy Ũ")},
        _thinned(stride, "row"),
    )


def energy_trace(shown: Shown) -> Plot | None:
    """The energy over time, where nothing is tempered."""
    if "energy" not in shown.run.trace:
        return None
    stride = every(shown.run.trace["energy"].shape[1], ROWS)
    return Plot(
        "energy",
        "Energy",
        "The energy Ũ (of a mini-batch, scaled to the data, where batches are used).",
        _row_lines(shown, "energy", stride),
        {"xaxis": axis("step"), "yaxis": axis("energy Ũ")},
        _notes(_thinned(stride, "row"), _some_chains(shown)),
    )


def comparison(all_shown: list[Shown]) -> Plot | None:
    """The first parameter's marginal, a panel a run that has it, on one scale."""
    name = all_shown[0].names[0]
    all_shown = [s for s in all_shown if name in s.names and s.num_draws > 1]
    if len(all_shown) < 2:
        return None
    values = [shown.draws[name] for shown in all_shown]
    labeled = max(all_shown, key=lambda shown: len(shown.chains))
    low = min(float(np.quantile(v, 0.0005)) for v in values if v.size)
    high = max(float(np.quantile(v, 0.9995)) for v in values if v.size)
    edges = np.linspace(low, high, 81)
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {}
    for place, shown in enumerate(all_shown):
        suffix = "" if place == 0 else str(place + 1)
        on = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        for c in shown.chains:
            heights = np.histogram(shown.draws[name][c], edges, density=True)[0]
            group = {"legendgroup": f"c{c}", "showlegend": shown is labeled}
            data.append(steps(edges, heights, f"chain {c}", c, **on, **group))
        if name in shown.truth:
            truth = shown.truth[name]
            style = {"color": GRAY, "width": 2, "dash": "dot"}
            group = {"legendgroup": "truth", "showlegend": place == 0}
            data.append(line(truth.x, truth.density, "truth", 0, **on, line=style, **group))
        layout |= _panel(suffix, place, 0, len(all_shown), 1, f"{name}, {shown.name}")
        if place:
            layout[f"xaxis{suffix}"]["matches"] = "x"
            layout[f"yaxis{suffix}"]["matches"] = "y"
    return Plot(
        "comparison",
        "Side by side",
        f"Draws of {name}, chain by chain.",
        data,
        layout,
        height=80 + 220 * len(all_shown),
    )
