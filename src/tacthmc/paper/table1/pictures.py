"""Pictures of learning curves, and of accuracy against confidence."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacthmc.paper.figures.study import FORMATS, new_figure
from tacthmc.paper.table1.summary import Entry, by_task


def _colors(own: Sequence[Entry]) -> dict[str, str]:
    """A color for each method and configuration, in the table's order."""
    return {title: f"C{n % 10}" for n, title in enumerate(dict.fromkeys(e.title for e in own))}


def write_pictures(folder: Path, found: Sequence[Entry]) -> list[Path]:
    """Write ``curves-TASK`` and ``reliability-TASK``, as PDF and PNG."""
    import matplotlib

    paths = []
    split = by_task(found)
    for (task, data), own in split.items():
        tasks = [other for other, _ in split]
        name = task if tasks.count(task) == 1 else f"{task}-{_plain(data)}"
        for kind, draw in (("curves", curves), ("reliability", reliabilities)):
            with matplotlib.rc_context({"pdf.fonttype": 42, "font.size": 8}):
                figure = draw(own)
                for form in FORMATS:
                    path = folder / f"{kind}-{name}.{form}"
                    # Without dates equal numbers make equal files.
                    bare = {"CreationDate": None} if form == "pdf" else {}
                    figure.savefig(path, dpi=140, metadata=bare)
                    paths.append(path)
    return paths


def curves(own: Sequence[Entry]) -> Any:
    """Accuracy and log-loss against epochs: of the running average, and dotted of the iterate."""
    noises, colors = sorted({entry.noise for entry in own}), _colors(own)
    figure = new_figure(3.4 * len(noises) + 1.5, 5.0)
    grid = figure.subplots(2, len(noises), squeeze=False, sharex=True)
    for column, noise in enumerate(noises):
        for entry in own:
            if entry.noise == noise:
                for row, score in enumerate(("accuracy", "log_loss")):
                    _curve(grid[row, column], entry, score, colors[entry.title])
        grid[0, column].set_title(f"{noise:.0%} wrong labels")
        grid[1, column].set_xlabel("epoch")
    grid[0, 0].set_ylabel("test accuracy")
    grid[1, 0].set_ylabel("test log-loss")
    if grid[0, 0].get_legend_handles_labels()[0]:
        grid[0, 0].legend(fontsize="x-small", frameon=False)
    return figure


def _curve(ax: Any, entry: Entry, score: str, color: str) -> None:
    for number, record in enumerate(entry.records):
        curve = record["curve"]
        label = entry.title if number == 0 else None
        for name, style, shown in ((score, "-", label), (f"draw_{score}", ":", None)):
            values = np.array(curve[name], float)
            ax.plot(curve["epoch"], values, style, color=color, linewidth=0.9, label=shown)


def reliabilities(own: Sequence[Entry]) -> Any:
    """Accuracy against confidence, with a panel for each noise level."""
    noises, colors = sorted({entry.noise for entry in own}), _colors(own)
    figure = new_figure(3.0 * len(noises) + 1.0, 3.2)
    panels = figure.subplots(1, len(noises), squeeze=False, sharey=True)[0]
    for ax, noise in zip(panels, noises, strict=True):
        ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
        for entry in own:
            if entry.noise == noise:
                _reliability(ax, entry, colors[entry.title])
        ax.set(title=f"{noise:.0%} wrong labels", xlabel="confidence", xlim=(0, 1), ylim=(0, 1))
    panels[0].set_ylabel("accuracy")
    if panels[0].get_legend_handles_labels()[0]:
        panels[0].legend(fontsize="x-small", frameon=False)
    return figure


def _reliability(ax: Any, entry: Entry, color: str) -> None:
    found = [record["reliability"] for record in entry.records if record["reliability"]]
    for number, one in enumerate(found):
        confidence, accuracy = (np.array(one[k], float) for k in ("confidence", "accuracy"))
        label = entry.title if number == 0 else None
        ax.plot(
            confidence, accuracy, marker="o", markersize=2, linewidth=0.9,
            color=color, label=label,
        )  # fmt: skip


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)
