"""``python -m benchmarks speed``: run cases, tell of them as they go, write ``bench.json``."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks.speed.catalog import CASES
from benchmarks.speed.file import read_bench, write_bench
from benchmarks.speed.machine import Elsewhere, machine, threads, versions
from tacthmc.compiler._cpu_devices import one_device
from tacthmc.paper.figures.study import Numbers
from tacthmc.report import Table
from tacthmc.store._folder import now


def bench(
    out: Path, only: Sequence[str], quick: bool, repeats: int | None, seed: int, console: Any
) -> Path:
    """Measure the cases named (all if none is), and keep what ``out`` has of the others."""
    _cores_as_devices()
    names = [name for name in CASES if name in only or not only]
    # Read first: a file that is something else is told of before minutes are spent.
    kept = read_bench(out)["cases"] if out.exists() else {}
    command = _command(out, only, quick, repeats, seed)
    measured: dict[str, Numbers] = {}
    for name in names:
        case = CASES[name]
        console.print(f"[bold]{name}[/bold]: {case.about}")
        begun, elsewhere = time.perf_counter(), Elsewhere()
        about = {
            "command": command,
            "date": now(),
            "versions": versions(),
            "machine": machine(),
            "seed": seed,
            "quick": quick,
        }
        try:
            results = case.results(quick, repeats, seed, lambda text: console.print(f"· {text}"))
        except Exception as error:
            # The others go on, and the file says why this one has no numbers.
            results = {"failed": f"{type(error).__name__}: {error}"}
            console.print(f"[bold]{name} failed[/bold]: {results['failed']}")
        seconds = round(time.perf_counter() - begun, 1)
        busy = {"cores_busy_elsewhere": elsewhere.cores()}
        measured[name] = {**about, "seconds": seconds, **busy, **results}
        # After every case: a later one that is interrupted takes nothing with it.
        cases = {name: (kept | measured)[name] for name in CASES if name in kept | measured}
        write_bench(out, {**about, "cases": cases})
    for name, results in measured.items():
        for title, table in [] if "failed" in results else CASES[name].tables(results):
            console.print(rich_table(title, table))
        cores = results["cores_busy_elsewhere"]
        if cores is not None and cores > Elsewhere.MUCH:
            console.print(
                f"[bold]{name}: other processes kept {cores:.1f} of {results['machine']['cores']}"
                " cores busy.[/bold] Do not trust these numbers; measure again when it is quiet."
            )
    console.print(str(out), soft_wrap=True)
    return out


def _cores_as_devices() -> None:
    """Let contestants have a device for each core; a run takes one unless it is told to."""
    one_device()
    try:
        jax.config.update("jax_num_cpu_devices", threads())
    except RuntimeError:
        # JAX has computed already, with as many as it has.
        return


def _command(out: Path, only: Sequence[str], quick: bool, repeats: int | None, seed: int) -> str:
    words = ["python -m benchmarks speed"]
    words += [f"--out {out}"] * (out != Path("bench.json"))
    words += [f"--only {name}" for name in only]
    words += ["--quick"] * quick
    words += [f"--repeats {repeats}"] * (repeats is not None)
    words += [f"--seed {seed}"] * (seed != 0)
    return " ".join(words)


def rich_table(title: str, table: Table) -> Any:
    """For a terminal."""
    from rich.table import Table as RichTable

    made = RichTable(title=title, title_justify="left")
    for number, column in enumerate(table.columns):
        made.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in table.rows:
        made.add_row(*row)
    return made
