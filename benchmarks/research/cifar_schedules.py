"""When and how hot: schedules of the temperature for the paper's CNN on CIFAR-10.

    python -m benchmarks cifar_schedules --data FOLDER
    python -m benchmarks cifar_schedules --data FOLDER --long --epochs 3000

Every chain starts from fresh weights and runs for ``--epochs``. Its likelihood is tempered by a λ
that is a given function of the epoch; SGNHT is λ = 1. Step size, injected noise and thermostat are
those that a search on held-out images found best for SGNHT (``research/table-b.md``). After each
epoch the probabilities of the test images' true labels are noted, so that rules for keeping draws
can be compared without another run: ``wait`` is the number of epochs at unit temperature, after a
trip, that are not kept. The first ``--burn`` epochs are never kept.

``--long`` has schedules for several thousand epochs instead: trips to where the prior rules, which
forget everything, with rests of several hundred.

First every schedule runs with ``--tries`` seeds, and half of the test images judges each with each
wait. Then the ``--best`` of them run beside SGNHT with three other seeds; all test images judge
those, and the other half alone.
"""

import json
from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from benchmarks import record
from benchmarks.research.cifar_chains import QUICK as CHAINS
from benchmarks.research.cifar_chains import Bench, add_chains, save_notes
from benchmarks.research.cifar_judge import LONG_WAITS, WAITS, best, judged, kept_epochs
from benchmarks.research.cifar_trips import ALL, LONG, SCHEDULES
from tacthmc import predict

AGAIN = 3
"""Seeds of the second part."""
FIRST_TRY = 3
"""The first seed of the first part."""
QUICK = CHAINS | {"tries": 1, "best": 1, "only": ["sgnht", "T = 2, 40 of 200"]}


def arguments(parser: ArgumentParser) -> None:
    add_chains(parser)
    parser.add_argument("--tries", type=int, default=2, help="seeds of every schedule")
    parser.add_argument("--best", type=int, default=4, help="how many are run again")
    parser.add_argument("--long", action="store_true", help="schedules for 3,000 epochs")
    parser.add_argument("--only", nargs="+", metavar="SCHEDULE", choices=list(ALL))


def main(args: Namespace) -> None:
    bench = Bench(args)
    names = args.only or (["sgnht", *LONG] if args.long else list(SCHEDULES))
    waits = LONG_WAITS if args.long else WAITS
    file: dict[str, Any] = {"about": record.about(args, examples=bench.num_data)}
    _try(args, bench, names, waits, file)
    _again(args, bench, waits, file)


def _try(
    args: Namespace, bench: Bench, names: list[str], waits: tuple[int, ...], file: dict[str, Any]
) -> None:
    """Every schedule, judged by half of the test images."""
    plan = [(name, FIRST_TRY + seed) for seed in range(args.tries) for name in names]
    found = bench.run([(ALL[name], seed) for name, seed in plan], args.epochs)
    file["tried"], file["tried_seconds"] = judged(found, plan, args.burn, waits), found["seconds"]
    file["best"] = best(file["tried"], args.best)
    _write(args, file, found, "tried")
    for row in file["tried"]:
        print(json.dumps(row), flush=True)


def _again(args: Namespace, bench: Bench, waits: tuple[int, ...], file: dict[str, Any]) -> None:
    """The best of them beside SGNHT, with other seeds."""
    chosen = [("sgnht", 0), *file["best"]]
    plan = [(name, seed) for seed in range(AGAIN) for name, _ in chosen]
    kept = np.stack(
        [
            kept_epochs(ALL[name], wait, args.burn, args.epochs)
            for _ in range(AGAIN)
            for name, wait in chosen
        ]
    )
    found = bench.run([(ALL[name], seed) for name, seed in plan], args.epochs, kept)
    file["again"], file["again_seconds"] = judged(found, plan, args.burn, waits), found["seconds"]
    file["scores"] = []
    for chain, (name, seed) in enumerate(plan):
        mean = found["total"][chain] / kept[chain].sum()
        measures = (predict.accuracy, predict.log_loss, predict.brier, predict.calibration_error)
        row = {"schedule": name, "seed": seed, "wait": dict(chosen)[name]}
        file["scores"].append(row | {f.__name__: float(f(mean, bench.labels)) for f in measures})
        print(json.dumps(file["scores"][-1]), flush=True)
    _write(args, file, found, "again")


def _write(args: Namespace, file: dict[str, Any], found: dict[str, Any], part: str) -> None:
    record.write(args.out, file)
    save_notes(args.out.with_name(f"{args.out.stem}-{part}"), found)
