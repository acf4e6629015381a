"""The time of a step in another checkout of this library over that in this one.

    python -m benchmarks step_ratio --old PATH_OF_OTHER_CHECKOUT

Steps of ``tact`` with one thermostat for all coordinates, without a run's driver: on the 1-D
mixture and on the three networks, with one chain and with four. Each launch of a case starts a
process of each checkout, which then take turns, lap by lap. Launches and cases that the file has
are not measured again. The ratio is the old median time over the new one, so above 1 the new one is
faster. Its interval is a bootstrap's, over launches and over rounds of laps within each: two
processes of the same program can differ by more than their laps do. ``cpu_ratio`` is the same of
the time that cores worked, which other processes on the machine hardly change. Both checkouts call
``tacthmc.configure_cpu``.
"""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import Elsewhere, machine
from benchmarks.record import RecordError, Rows, about, add_again
from benchmarks.speed.clock import enough

WORKER = Path(__file__).with_name("step_worker.py")
ROOT = Path(__file__).parents[2]
CASES = tuple((name, chains) for name in ("mixture", "mlp", "cnn", "lstm") for chains in (1, 4))
EVERY = 50
"""Steps in an interval; a lap is a whole number of them."""
RESAMPLES, LEVEL = 10_000, 0.95
MAX_ROUNDING = 1e-4
"""Relative difference of checksums that rounding explains."""
QUICK = {"launches": 1, "laps": 2, "seconds": 0.05, "only": ["mixture"]}


class Worker:
    """A process that times steps of one checkout when it is asked to."""

    def __init__(self, checkout: Path, name: str, chains: int):
        """Start it; :meth:`ready` waits until it has compiled."""
        command = [sys.executable, str(WORKER), name, str(chains)]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        # Each sets the compiler as its own version does.
        environment.pop("XLA_FLAGS", None)
        self._process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ready(self) -> dict[str, float]:
        """The time of compiling, and a checksum of the positions after the first steps."""
        return self._answer()

    def lap(self, steps: int) -> dict[str, float]:
        """How long ``steps`` steps take now: ``seconds`` on the clock, ``cpu_seconds`` of cores."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"steps": steps}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RecordError(f"the process ended with status {self._process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        """End the process."""
        # Without input it ends by itself; pipes are closed.
        self._process.communicate()


@contextmanager
def workers(checkouts: dict[str, Path], name: str, chains: int) -> Iterator[dict[str, Worker]]:
    """A process of each checkout."""
    made = {which: Worker(path, name, chains) for which, path in checkouts.items()}
    try:
        yield made
    finally:
        for worker in made.values():
            worker.end()


def launched(checkouts: dict[str, Path], name: str, chains: int, args: Namespace) -> dict[str, Any]:
    """Start both, let them take turns, and say how long each lap took."""
    elsewhere = Elsewhere()
    with workers(checkouts, name, chains) as both:
        first = {which: worker.ready() for which, worker in both.items()}
        steps = max(_enough(worker, args.seconds) for worker in both.values())
        laps: dict[str, list[dict[str, float]]] = {which: [] for which in both}
        for number in range(args.laps):
            # Now this one first, now that one.
            for which in sorted(both, reverse=bool(number % 2)):
                laps[which].append(both[which].lap(steps))

    def per_step(kind: str) -> dict[str, list[float]]:
        return {which: [1e6 * lap[kind] / steps for lap in laps[which]] for which in laps}

    return {
        "steps": steps,
        "microseconds": per_step("seconds"),
        "cpu_microseconds": per_step("cpu_seconds"),
        "compile_seconds": {which: one["compile_seconds"] for which, one in first.items()},
        "checksum": {which: one["checksum"] for which, one in first.items()},
        "cores_busy_elsewhere": elsewhere.cores(),
    }


def _enough(worker: Worker, seconds: float) -> int:
    return enough(lambda steps: worker.lap(steps)["seconds"], seconds, EVERY)


def ratio(rows: Sequence[dict[str, Any]], resamples: int = RESAMPLES) -> dict[str, Any]:
    """The ratio of the medians of all laps, and its bootstrap interval.

    >>> times, sums = {"old": [4.0, 4.0], "new": [2.0, 2.0]}, {"old": 1.0, "new": 1.0}
    >>> row = {"microseconds": times, "cpu_microseconds": times, "checksum": sums}
    >>> found = ratio([row, row])
    >>> found["ratio"], found["interval"]
    (2.0, [2.0, 2.0])
    """
    old, new = _laps(rows, "microseconds")
    cpu_old, cpu_new = _laps(rows, "cpu_microseconds")
    launches, laps = old.shape
    sums = [row["checksum"][name] for row in rows for name in ("old", "new")]
    return {
        "ratio": float(np.median(old) / np.median(new)),
        "interval": _interval(old, new, resamples),
        "cpu_ratio": float(np.median(cpu_old) / np.median(cpu_new)),
        "cpu_interval": _interval(cpu_old, cpu_new, resamples),
        "by_launch": [float(np.median(o) / np.median(n)) for o, n in zip(old, new, strict=True)],
        "old_microseconds": float(np.median(old)),
        "new_microseconds": float(np.median(new)),
        "launches": launches,
        "laps": laps,
        "same_positions": bool(np.allclose(sums, sums[0], rtol=MAX_ROUNDING)),
        "most_cores_busy_elsewhere": max(row.get("cores_busy_elsewhere") or 0.0 for row in rows),
    }


def _laps(rows: Sequence[dict[str, Any]], kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The times of the old and of the new checkout, each [launch, lap]."""
    old, new = (np.array([row[kind][which] for row in rows]) for which in ("old", "new"))
    return old, new


def _interval(old: np.ndarray, new: np.ndarray, resamples: int) -> list[float]:
    """The bootstrap's interval of the ratio of medians, over launches and rounds within each."""
    rng = np.random.default_rng(0)
    launches, laps = old.shape
    which = rng.integers(launches, size=(resamples, launches, 1))
    when = rng.integers(laps, size=(resamples, launches, laps))
    medians = [np.median(x[which, when], axis=(1, 2)) for x in (old, new)]
    ends = np.quantile(medians[0] / medians[1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return [float(end) for end in ends]


def commit(checkout: Path) -> str:
    """The commit of a checkout, and whether it has other changes."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(checkout), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "src") else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + changed


def arguments(parser: ArgumentParser) -> None:
    """The checkout, the cases, and the sizes."""
    parser.add_argument("--old", type=Path, required=True, help="the root of the other checkout")
    parser.add_argument("--only", nargs="+", choices=sorted({name for name, _ in CASES}))
    parser.add_argument("--launches", type=int, default=5, help="pairs of processes for each case")
    parser.add_argument("--laps", type=int, default=6, help="rounds of laps in each launch")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a lap, about")
    add_again(parser)


def main(args: Namespace) -> None:
    """Measure what the file does not have, a launch of every case at a time."""
    if not (args.old / "src" / "tacthmc").is_dir():
        raise RecordError(f"--old must be the root of a checkout; {args.old} has no src/tacthmc")
    checkouts = {"new": ROOT, "old": args.old.resolve()}
    commits = {which: commit(path) for which, path in checkouts.items()}
    run = about(args, machine=machine(), commits=commits)
    same = ("old", "name", "chains", "launch")
    rows = Rows(args.out, run, same, again=args.again)
    for launch in range(args.launches):
        for name, chains in CASES:
            row = {"old": commits["old"], "name": name, "chains": chains, "launch": launch}
            if (args.only and name not in args.only) or rows.has(row):
                continue
            rows.add(row | launched(checkouts, name, chains, args))
            rows.write(ratios=(ratios := summary(rows.rows, commits["old"])))
            print(f"{name} × {chains}, launch {launch}:", told(ratios[f"{name} × {chains}"]))
    for name, found in summary(rows.rows, commits["old"]).items():
        print(f"{name}: {told(found)}")


def summary(rows: Sequence[dict[str, Any]], old: str) -> dict[str, Any]:
    """The ratio of each case against that old commit, over its launches so far."""
    found = {}
    for name, chains in CASES:
        mine = [r for r in rows if (r["old"], r["name"], r["chains"]) == (old, name, chains)]
        if mine:
            found[f"{name} × {chains}"] = ratio(mine)
    return found


def told(found: dict[str, Any]) -> str:
    """A ratio in words."""
    (low, high), (cpu_low, cpu_high) = found["interval"], found["cpu_interval"]
    busy = found["most_cores_busy_elsewhere"]
    return (
        f"old/new {found['ratio']:.3f} ({low:.3f} to {high:.3f}),"
        f" of CPU time {found['cpu_ratio']:.3f} ({cpu_low:.3f} to {cpu_high:.3f}),"
        f" {found['new_microseconds']:,.2f} µs a step now"
        + ("" if found["same_positions"] else ", not the same positions")
        + (f", {busy:.1f} cores busy elsewhere" if busy > Elsewhere.MUCH else "")
    )
