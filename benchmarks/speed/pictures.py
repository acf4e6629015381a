"""Draw how the time of a step grows: ``docs/img/growth-*.png`` from ``bench.json``."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from benchmarks.record import RECORDS
from benchmarks.speed.command import read_bench
from tacthmc.paper.figures.study import Numbers, new_figure

LABELS = {
    "dimension": "dimension",
    "chains": "chains",
    "kept": "draws kept a step",
}


def growth_picture(part: Numbers, label: str) -> Any:
    """The time of a step against a size, with the slope that was fitted."""
    known = [point for point in part["points"] if "step_seconds" in point]
    sizes = [point["size"] for point in known]
    times = [1e6 * point["step_seconds"] for point in known]
    figure = new_figure(3.2, 2.5)
    axes = figure.add_subplot()
    axes.loglog(sizes, times, "o-", markersize=4)
    axes.set_xlabel(label)
    axes.set_ylabel("µs a step, all chains")
    axes.grid(True, which="major", alpha=0.3)
    if part["slope"] is not None:
        axes.set_title(f"slope {part['slope']:.2f} over the upper half")
    return figure


def write_pictures(folder: Path, results: Numbers) -> list[Path]:
    """Write growth-dimension.png, growth-chains.png and growth-kept.png."""
    import matplotlib

    if "growth" not in results["cases"]:
        raise ValueError(
            "no growth in these results: python -m benchmarks speed --only growth measures it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context({"font.size": 8, "axes.titlesize": 8}):
        for name, label in LABELS.items():
            path = folder / f"growth-{name}.png"
            growth_picture(results["cases"]["growth"][name], label).savefig(path, dpi=140)
            written.append(path)
    return written


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--source", type=Path, default=RECORDS / "bench.json")
    parser.add_argument("--folder", type=Path, default=RECORDS.parents[1] / "docs" / "img")


def main(args: Namespace) -> None:
    for path in write_pictures(args.folder, read_bench(args.source)):
        print(path)
