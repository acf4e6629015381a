"""Predictions of several modes together, from the notes of ``cifar_schedules``.

    python -m benchmarks cifar_places RECORD.json
    python -m benchmarks cifar_places ONE.json TWO.json --setting "tensor 0.02 0.5 0"

RECORD.json and the notes beside it are those of ``cifar_schedules``. Several files, with
``--setting``, are those of ``cifar_thermostats``. The result is added to the first file as
``places``. All figures are log-losses on the test images of predictions averaged over draws, and
means over all choices among a schedule's chains.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record
from benchmarks.record import RecordError
from benchmarks.research.cifar_chains import BLOCK

MAX_CHAINS = 5
"""Chains that share the epochs of one, at most."""
Chain = np.ndarray
"""Probabilities of true labels, [blocks of epochs, images]."""


def loss(parts: Sequence[np.ndarray], some: slice = slice(None)) -> float:
    """The log-loss of predictions averaged over ``parts``.

    >>> import numpy as np
    >>> round(loss([np.array([1.0]), np.array([0.5])]), 4)
    0.2877
    """
    mean = np.mean([part[some] for part in parts], axis=0)
    return float(-np.mean(np.log(np.maximum(mean, 1e-12))))


def over_choices(chains: list[Chain], k: int, begin: int, end: int, some: slice) -> float:
    """The loss of k chains' blocks from ``begin`` to ``end``, averaged over choices of k."""
    parts = [chain[begin:end].mean(axis=0) for chain in chains]
    return float(np.mean([loss(chosen, some) for chosen in combinations(parts, k)]))


def fresh(chains: list[Chain]) -> list[dict[str, Any]]:
    """The loss of k chains that share the epochs of one; half of the images choose the burn-in."""
    rows, half, whole = [], slice(0, None, 2), slice(None)
    for k in range(1, min(len(chains), MAX_CHAINS) + 1):
        end = len(chains[0]) // k
        burn = min(range(end), key=lambda b, k=k, end=end: over_choices(chains, k, b, end, half))
        found = over_choices(chains, k, burn, end, whole)
        row = {"chains": k, "epochs_each": end * BLOCK, "not_kept": burn * BLOCK}
        rows.append(row | {"log_loss": found})
    return rows


def stretches(chains: list[Chain], period: int = 200 // BLOCK) -> dict[str, float]:
    """The loss of two stretches of 80 epochs, one period apart: of one chain, and of two."""
    begin, end = 80 // BLOCK, 160 // BLOCK
    count = len(chains[0]) // period
    parts = [
        [chain[k * period + begin : k * period + end].mean(axis=0) for k in range(1, count)]
        for chain in chains
    ]
    lags = range(count - 2)
    same = [loss([mine[k], mine[k + 1]]) for mine in parts for k in lags]
    pairs = [(a, b) for a in parts for b in parts if a is not b]
    other = [loss([a[k], b[k + 1]]) for a, b in pairs for k in lags]
    return {"of_one_chain": float(np.mean(same)), "of_two": float(np.mean(other))}


def never_heated(chains: list[Chain]) -> dict[str, Any]:
    """What the chains of one setting tell."""
    blocks = len(chains[0])
    kept = blocks - 200 // BLOCK
    return {
        "fresh": fresh(chains),
        "last_epochs_of_each": [
            {"chains": k, "epochs_each": kept // k * BLOCK, "log_loss": found}
            for k in (1, 2, 4, MAX_CHAINS)
            if k <= len(chains)
            for found in [over_choices(chains, k, blocks - kept // k, blocks, slice(None))]
        ],
        "by_age": [float(np.mean([loss([chain[b]]) for chain in chains])) for b in range(blocks)],
    }


def of_setting(paths: list[Path], setting: str) -> list[Chain]:
    """That setting's chains in files of ``cifar_thermostats``."""
    chains = []
    for path in paths:
        for kind, plan in record.opened(path)["plans"].items():
            notes = np.load(path.with_name(f"{path.stem}-{kind}.notes.npy"), mmap_mode="r")
            chains += [notes[k] for k, (name, _) in enumerate(plan) if name == setting]
    return [chain.astype(np.float32) for chain in chains]


def of_schedules(out: Path, file: dict[str, Any]) -> dict[str, Any]:
    """The result from a file of ``cifar_schedules``."""
    tried = list(dict.fromkeys(row["schedule"] for row in file["tried"]))
    again = ["sgnht", *(name for name, _ in file["best"])]
    chains: dict[str, list[Chain]] = {name: [] for name in tried}
    for part, names in (("tried", tried), ("again", again)):
        notes = np.load(out.with_name(f"{out.stem}-{part}.notes.npy"))
        for number, one in enumerate(notes):
            chains[names[number % len(names)]].append(one.astype(np.float32))
    never = chains["sgnht"] + chains.pop("sgnht, other random numbers", [])
    chains["sgnht"] = never
    return never_heated(never) | {
        "two_stretches": {name: stretches(mine) for name, mine in chains.items() if len(mine) > 1}
    }


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--setting")


def main(args: Namespace) -> None:
    out = args.files[0]
    file = record.opened(out)
    if file is None:
        raise RecordError(f"there is no {out}")
    if args.setting is None:
        file["places"] = of_schedules(out, file)
    else:
        chains = of_setting(args.files, args.setting)
        found = never_heated(chains) | {"two_stretches": stretches(chains)}
        file.setdefault("places", {})[args.setting] = found
    # All digits: what the file has of another benchmark stays as it is.
    record.write(out, file, digits=record.EXACT)
    print(json.dumps(file["places"], indent=1))
