"""Table 1's methods side by side on one GPU: a process for each, then their results in one folder.

    python -m benchmarks.table1_parallel OUT --table B --data FOLDER --task cnn --compute tf32

Small programs leave much of a GPU idle. Under NVIDIA's MPS, which is started where it is found,
several share it. Each process writes to ``OUT/parts/METHOD`` and can go on from there; results.json
and the tables are joined in OUT. Needs neither Typer nor the command line.
"""

import argparse
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

METHODS = ("adam", "momentum_sgd", "sghmc", "sgnht", "tact")
"""Written out, so that the process that starts the others does not take the GPU itself."""


def main() -> None:
    """Start the processes, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--table", choices=["A", "B"], default="B")
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--task", nargs="+", default=[])
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--noise", type=float, nargs="+", default=None)
    parser.add_argument("--seeds", type=int, nargs="+", default=None)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--config", default="adapted", help="of Table A")
    parser.add_argument("--compute", default="float32")
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alone", action="store_true", help="one method, in this process")
    args = parser.parse_args()
    if args.alone:
        one(args)
    else:
        every(args)


def every(args: argparse.Namespace) -> None:
    """A process for each method, at the same time."""
    environment, daemon = dict(os.environ), _start_mps()
    # Where other processes are on the GPU too, whoever starts them all knows each one's share.
    environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 / len(args.method):.3f}")
    words = [word for word in _without_methods(sys.argv[1:]) if Path(word) != args.out]
    running = {}
    for method in args.method:
        folder = args.out / "parts" / method
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.table1_parallel", str(folder), *words]
        command += ["--method", method, "--alone"]
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            running[method] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
    codes = {method: process.wait() for method, process in running.items()}
    if daemon:
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, check=False)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from tacthmc.paper.table1.merge import merge

    parts = [args.out / "parts" / method for method in args.method]
    for path in merge([part for part in parts if (part / "results.json").exists()], args.out):
        print(path)
    failed = [method for method, code in codes.items() if code]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; see parts/METHOD/log.txt")


def _without_methods(words: list[str]) -> list[str]:
    """The words less ``--method`` and its values."""
    kept, skipping = [], False
    for word in words:
        if word.startswith("--"):
            skipping = word == "--method"
        if not skipping:
            kept.append(word)
    return kept


def _start_mps() -> bool:
    """Start MPS's daemon where there is one; whether it is ours to stop."""
    if shutil.which("nvidia-cuda-mps-control") is None:
        return False
    return subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False).returncode == 0


def one(args: argparse.Namespace) -> None:
    """One method's cells, for as long as a slice lasts."""
    from tacthmc.paper.table1.images import images

    def say(text: str) -> None:
        print(text, flush=True)

    if args.table == "B":
        finished = _table_b(args, cache(lambda n, v: images(n, args.data, args.quick, v)), say)
    else:
        finished = _table_a(args, cache(lambda n: images(n, args.data, args.quick)), say)
    say("finished" if finished else "unfinished; the same command goes on")


def _table_b(args: argparse.Namespace, data: Any, say: Any) -> bool:
    from tacthmc.paper.table1.protocol import Protocol
    from tacthmc.paper.table1.table_b import command_b, reproduce_b
    from tacthmc.paper.table1.tables_b import write_table_b

    given = {"epochs": args.epochs, "seeds": args.seeds, "noises": args.noise}
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if value is not None
    } | {"compute": args.compute}
    protocol = Protocol.quick(**options) if args.quick else Protocol.of(**options)
    finished = reproduce_b(
        # A look never sees a test image.
        (lambda name, validation: data(name, validation or args.quick)),
        args.out,
        tasks=args.task,
        methods=args.method,
        protocol=protocol,
        minutes=args.minutes,
        command=command_b(args.task, args.method, protocol, args.quick),
        say=say,
    )
    write_table_b(args.out)
    return finished


def _table_a(args: argparse.Namespace, data: Any, say: Any) -> bool:
    from tacthmc.paper.table1.group import groups
    from tacthmc.paper.table1.paper import NOISES
    from tacthmc.paper.table1.reproduce import reproduce, write_tables

    asked = groups(
        tasks=args.task,
        noises=args.noise or ((0.0, 0.2) if args.quick else NOISES),
        methods=args.method,
        config=args.config,
        epochs=args.epochs or (3 if args.quick else None),
        seeds=args.seeds or [0],
        compute=args.compute,
    )
    words = [("--task", args.task), ("--noise", args.noise), ("--method", args.method)]
    words += [("--config", [args.config]), ("--epochs", args.epochs and [args.epochs])]
    words += [("--seeds", args.seeds), ("--compute", [args.compute])]
    said = [f"{option} {' '.join(map(str, values))}" for option, values in words if values]
    command = " ".join(["tacthmc reproduce table1", *said] + ["--quick"] * args.quick)
    finished = reproduce(asked, data, args.out, minutes=args.minutes, command=command, say=say)
    write_tables(args.out)
    return finished


if __name__ == "__main__":
    main()
