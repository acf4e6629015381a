r"""Table 1's methods side by side on one GPU: a process for each, and one folder of results.

    python -m benchmarks table1_parallel --data FOLDER --out results/table-b -- \
        --table B --task cnn --compute tf32

Small programs leave much of a GPU idle. Under NVIDIA's MPS, which is started where it is found,
several share it. Each process is ``tacthmc reproduce table1`` of one method, with the options
after ``--``. It writes to ``OUT/parts/METHOD``, and goes on from there when it is started again.
In the end the results are joined in OUT.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

from benchmarks.images import add_data, write_stand_in
from benchmarks.record import RecordError

METHODS = ("adam", "momentum_sgd", "sghmc", "sgnht", "tact")
COMMAND = [
    *(sys.executable, "-c", "from tacthmc.cli import main; main()"),
    *("reproduce", "table1"),
]
GPU_SHARE = 0.9
"""Of the GPU's memory, for all processes together."""
QUICK = {"methods": ["adam", "tact"], "options": ["--task", "rnn", "--noise", "0"]}


def arguments(parser: ArgumentParser) -> None:
    """The methods, and the options of the table."""
    add_data(parser)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("options", nargs="*", help="those of tacthmc reproduce table1, after --")
    parser.set_defaults(out=Path("runs", "table1"))


def main(args: Namespace) -> None:
    """Run the methods at the same time, then join their results."""
    with tempfile.TemporaryDirectory() as place:
        data = args.data
        if data is None and args.quick:
            data = Path(place)
            write_stand_in("fashion_mnist", data)
        every(args, [] if data is None else ["--data", str(data.resolve())])


def every(args: Namespace, data: list[str]) -> None:
    """A process for each method, at the same time."""
    environment, daemon = dict(os.environ), _start_mps()
    # Someone who starts other processes on the GPU too sets the share of each.
    share = f"{GPU_SHARE / len(args.methods):.3f}"
    environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", share)
    running = {}
    for method in args.methods:
        folder = args.out / "parts" / method
        folder.mkdir(parents=True, exist_ok=True)
        command = [*COMMAND, *args.options, *data, "--method", method, "--out", str(folder)]
        command += ["--quick"] if args.quick else []
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            running[method] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
    codes = {method: process.wait() for method, process in running.items()}
    if daemon:
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, check=False)
    join(args)
    failed = [method for method, code in codes.items() if code]
    if failed:
        raise RecordError(f"failed: {', '.join(failed)}; see log.txt in {args.out}/parts/METHOD")


def join(args: Namespace) -> None:
    """The results of all methods in one folder, with the tables."""
    parts = [args.out / "parts" / method for method in args.methods]
    found = [str(part) for part in parts if (part / "results.json").exists()]
    if found:
        subprocess.run([*COMMAND, "--merge", *found, "--out", str(args.out)], check=True)


def _start_mps() -> bool:
    """Start MPS's daemon where there is one; whether this process has to stop it."""
    if shutil.which("nvidia-cuda-mps-control") is None:
        return False
    return subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False).returncode == 0
