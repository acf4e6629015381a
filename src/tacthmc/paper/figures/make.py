"""A figure made anew or drawn again: PDF, PNG and ``results.json``."""

from dataclasses import replace
from pathlib import Path

from tacthmc.paper.figures.study import (
    Numbers,
    Say,
    Study,
    read_results,
    write_picture,
    write_results,
)


def make_figure(
    study: Study, out: Path, full: bool, seed: int | None, say: Say
) -> tuple[Numbers, list[Path]]:
    """Sample, write the results and draw them; the results and the files."""
    config = study.config(full)
    command = f"tacthmc reproduce {study.name}" + (" --full" if full else "")
    if seed is not None:
        if not hasattr(config, "seed"):
            raise ValueError(f"{study.name} has no random numbers: --seed would do nothing")
        config, command = replace(config, seed=seed), f"{command} --seed {seed}"
    path = write_results(out, study.results(config, command, say))
    # Read back, so that the picture shows what the file says.
    results = read_results(path)
    return results, [path, *write_picture(out, study, results)]


def redraw_figure(study: Study, source: Path, out: Path) -> tuple[Numbers, list[Path]]:
    """Draw the numbers of a ``results.json`` again, without sampling."""
    results = read_results(source)
    if results.get("study") != study.name:
        raise ValueError(f"{source} holds {results.get('study')!r}, not {study.name!r}")
    out.mkdir(parents=True, exist_ok=True)
    return results, list(write_picture(out, study, results))
