"""Damage one file of a stored run 1,000 times; what comes of it must be right, told or refused.

    python -m benchmarks damage [--trials 1000] [--seed 0] [--place FOLDER]

Three kinds of runs are interrupted. In a copy one byte is flipped, or a file is truncated or
removed, in turns in every kind of file. The copy is then read, repaired and resumed, and so is the
repaired run. The right bytes, less than that with a warning, and a StoreError are outcomes; other
draws, any other error, a crash and a hang are failures. Trials run in a process of their own.
"""

import json
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import record
from tests.damaged_run import HOWS, kind_of

RUNS = ("mini_batches", "all_temperatures", "loader")
ROWS = 16
"""The rows of a chunk, so few that a short run has several chunks."""
MOST_SECONDS = 120.0
"""A trial that takes longer hangs. It has seconds of computing to do."""
START_SECONDS = 600.0
QUICK = {"trials": 6}


class Worker:
    """A process that makes trials, and is started again if one ends it."""

    def __init__(self, folder: Path):
        """Start with the references in a folder."""
        self._folder = folder
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.maintained.damage", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        stream, lines = self._process.stdout, self._lines
        assert stream is not None

        def read() -> None:
            for line in stream:
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        self.files: dict[str, list[str]] = json.loads(self._line(START_SECONDS))

    def _line(self, seconds: float) -> str:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return "hang"
        return line or f"crash: exit code {self._process.wait()}"

    def trial(self, run: str, name: str, how: str, seed: int) -> dict[str, Any]:
        """The outcome of one trial; under "wrong" why it is a failure."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([run, name, how, seed]) + "\n")
        self._process.stdin.flush()
        line = self._line(MOST_SECONDS)
        if line.startswith("{"):
            return json.loads(line)
        self.close()
        self._start()
        return {"wrong": line}

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def chosen(files: dict[str, list[str]], trials: int, seed: int) -> list[tuple[str, str, str, int]]:
    """The trials: every kind of file of every run in turns, and every way to damage it."""
    choose = random.Random(seed)
    kinds = sorted({(run, kind_of(name)) for run, names in files.items() for name in names})
    found: list[tuple[str, str, str, int]] = []
    while len(found) < trials:
        turn = [(run, kind, choose.choice(HOWS)) for run, kind in kinds]
        choose.shuffle(turn)
        for run, kind, how in turn:
            name = choose.choice([name for name in files[run] if kind_of(name) == kind])
            found.append((run, name, how, choose.randrange(1 << 30)))
    return found[:trials]


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--place", type=Path, help="a folder on a fast disk for the runs")


def main(args: Namespace) -> None:
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=args.place) as place:
        worker = Worker(Path(place))
        trials = chosen(worker.files, args.trials, args.seed)
        outcomes: dict[str, Counter[str]] = {}
        failures = []
        for number, (run, name, how, seed) in enumerate(trials):
            outcome = worker.trial(run, name, how, seed)
            if "wrong" in outcome:
                failures.append({"run": run, "file": name, "how": how, **outcome})
                print(f"trial {number}: {failures[-1]}", flush=True)
            for what, word in outcome.items():
                if what not in ("done", "wrong"):
                    outcomes.setdefault(what, Counter())[word] += 1
            if number % 100 == 99:
                print(f"{number + 1} trials, {len(failures)} failures", flush=True)
        worker.close()
    result = record.about(args, seed=args.seed) | {
        "trials": len(trials),
        "kinds_of_files": len({kind_of(name) for _, name, _, _ in trials}),
        "ways": dict(Counter(how for _, _, how, _ in trials)),
        "outcomes": {what: dict(sorted(found.items())) for what, found in outcomes.items()},
        "failures": failures,
        "seconds": round(time.perf_counter() - begun),
    }
    record.write(args.out, result)
    print(result)
    if failures:
        raise record.RecordError(f"{len(failures)} of {len(trials)} trials failed; see {args.out}")


def work(folder: Path) -> None:
    """Make the references, then one trial per line of the input."""
    from tacthmc.store import _arrays
    from tests import damaged_run

    _arrays.MAX_CHUNK_ROWS = ROWS
    references = {}
    for name in RUNS:
        (folder / name).mkdir(exist_ok=True)
        references[name] = damaged_run.Reference(folder / name, damaged_run.RUNS[name])
    print(json.dumps({name: each.files for name, each in references.items()}), flush=True)
    (folder / "work").mkdir(exist_ok=True)
    for line in sys.stdin:
        run, name, how, seed = json.loads(line)
        try:
            outcome = references[run].check(folder / "work", name, how, seed)
        except damaged_run.OutcomeError as error:
            outcome = {"wrong": str(error)}
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    work(Path(sys.argv[1]))
