"""Steps a second on this machine's CPU, side by side with peers that are installed.

Contestants take turns; medians, least and most are written with versions and machine. BlackJAX,
PyTorch and posteriors are optional: one that is missing is reported and skipped. A case that is not
measured is left in the file as it was.

    python -m benchmarks speed --quick
    python -m benchmarks speed --out bench.json
    python -m benchmarks speed --only mixture overhead --repeats 9
"""

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import jax

import tacthmc
from benchmarks import record
from benchmarks.machine import Elsewhere, machine, threads, versions
from benchmarks.record import RecordError
from benchmarks.speed.catalog import CASES
from tacthmc.paper.figures.study import Numbers
from tacthmc.report import Table

QUICK: dict[str, Any] = {}


def arguments(parser: ArgumentParser) -> None:
    told = "; ".join(f"{case.name}: {case.about}" for case in CASES.values())
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=[], help=told)
    parser.add_argument(
        "--repeats", type=int, help="rounds by turns; 5 (networks 9, overhead 11), with --quick 3"
    )
    parser.add_argument("--seed", type=int, default=0)


def main(args: Namespace) -> None:
    from rich.console import Console

    measured(args, Console())


def measured(args: Namespace, console: Any) -> Path:
    """Measure the cases named (all if none is), and keep what the file has of the others."""
    _cores_as_devices()
    # Read first: a file that is something else is reported before minutes are spent.
    kept = read_bench(args.out)["cases"] if args.out.exists() else {}
    found: dict[str, Numbers] = {}
    for name in [name for name in CASES if name in args.only or not args.only]:
        about = _about(args)
        found[name] = about | _one(name, args, console)
        # After every case: a later one that is interrupted takes nothing with it.
        cases = {case: (kept | found)[case] for case in CASES if case in kept | found}
        record.write(args.out, {**about, "cases": cases})
    for name, results in found.items():
        _show(name, results, console)
    console.print(str(args.out), soft_wrap=True)
    return args.out


def _about(args: Namespace) -> Numbers:
    return {
        "command": args.command,
        "date": record.now(),
        "versions": versions(),
        "machine": machine(),
        "seed": args.seed,
        "quick": args.quick,
    }


def _one(name: str, args: Namespace, console: Any) -> Numbers:
    """A case's results, with how long it took and how busy the machine was."""
    case = CASES[name]
    console.print(f"[bold]{name}[/bold]: {case.about}")
    begun, elsewhere = time.perf_counter(), Elsewhere()
    try:
        results = case.results(
            args.quick, args.repeats, args.seed, lambda text: console.print(f"· {text}")
        )
    except Exception as error:
        # The others go on, and the file says why this one has no numbers.
        results = {"failed": f"{type(error).__name__}: {error}"}
        console.print(f"[bold]{name} failed[/bold]: {results['failed']}")
    seconds = round(time.perf_counter() - begun, 1)
    return {"seconds": seconds, "cores_busy_elsewhere": elsewhere.cores(), **results}


def _show(name: str, results: Numbers, console: Any) -> None:
    for title, table in [] if "failed" in results else CASES[name].tables(results):
        console.print(rich_table(title, table))
    cores = results["cores_busy_elsewhere"]
    if cores is not None and cores > Elsewhere.MUCH:
        console.print(
            f"[bold]{name}: other processes kept {cores:.1f} of {results['machine']['cores']}"
            " cores busy.[/bold] Do not trust these numbers; measure again when it is quiet."
        )


def _cores_as_devices() -> None:
    """Let contestants have a device for each core; a run takes one unless it asks for more."""
    try:
        jax.config.update("jax_num_cpu_devices", threads())
    except RuntimeError:
        # JAX has computed already, with as many as it has.
        return
    if jax.default_backend() == "cpu":
        tacthmc.use_cpu_devices(1)


def read_bench(path: Path) -> Numbers:
    """The cases that were measured before; an error that names the file if it is something else."""
    found = record.opened(path)
    if not isinstance(found, dict) or not isinstance(found.get("cases"), dict):
        raise RecordError(
            f"{path} was not written by python -m benchmarks speed: name another file with --out"
        )
    return found


def rich_table(title: str, table: Table) -> Any:
    """For a terminal."""
    from rich.table import Table as RichTable

    made = RichTable(title=title, title_justify="left")
    for number, column in enumerate(table.columns):
        made.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in table.rows:
        made.add_row(*row)
    return made
