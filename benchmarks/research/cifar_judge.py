"""Which epochs a rule keeps, and how good the averaged predictions of a chain are."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.research.cifar_chains import BLOCK
from benchmarks.research.cifar_trips import ALL

WAITS = (0, 20, 40, 60, 80)
"""Epochs at unit temperature, after a trip, that are not kept."""
LONG_WAITS = (80, 120, 160, 200)
HALVES = {"first half": slice(0, None, 2), "second half": slice(1, None, 2), "all": slice(None)}
"""Which test images judge."""


def kept_epochs(trips: Any, wait: int, burn: int, epochs: int) -> np.ndarray:
    """Which epochs are kept; whole blocks only."""
    age = trips.age(epochs)
    kept = (age >= wait) & (np.arange(epochs) >= burn)
    whole = kept.reshape(-1, BLOCK).all(axis=1)
    return np.repeat(whole, BLOCK)


def log_loss(notes: np.ndarray, kept: np.ndarray, some: Any) -> float:
    """The log-loss of the averaged prediction, from blocks' probabilities of true labels."""
    mean = notes[kept.reshape(-1, BLOCK)[:, 0]][:, some].astype(float).mean(axis=0)
    return float(-np.mean(np.log(np.maximum(mean, 1e-12))))


def judged(
    found: dict[str, Any],
    plan: list[tuple[str, int]],
    burn: int,
    waits: tuple[int, ...],
    schedules: Mapping[str, Any] = ALL,
) -> list[dict[str, Any]]:
    """A row for each chain and wait."""
    rows, epochs = [], found["energy"].shape[1]
    for chain, (name, seed) in enumerate(plan):
        trips, notes = schedules[name], found["notes"][chain]
        for wait in waits if trips.ends else (0,):
            kept = kept_epochs(trips, wait, burn, epochs)
            if not kept.any():
                continue
            energy = found["energy"][chain][kept]
            blocks = [x.mean() for x in np.array_split(energy, 8)]
            rows.append(
                {"schedule": name, "seed": seed, "wait": wait, "draws": int(kept.sum())}
                | {"energy": energy.mean(), "its_error": np.std(blocks) / 7**0.5}
                | {half: log_loss(notes, kept, some) for half, some in HALVES.items()}
            )
    return rows


def best(rows: list[dict[str, Any]], number: int) -> list[tuple[str, int]]:
    """Schedules with trips and their waits, by the first half of the test images."""
    means: dict[tuple[str, int], float] = {}
    for row in rows:
        same = [r for r in rows if (r["schedule"], r["wait"]) == (row["schedule"], row["wait"])]
        if ALL[row["schedule"]].ends:
            means[row["schedule"], row["wait"]] = float(np.mean([r["first half"] for r in same]))
    chosen: list[tuple[str, int]] = []
    for name, wait in sorted(means, key=lambda one: means[one]):
        if name not in [n for n, _ in chosen]:
            chosen.append((name, wait))
    return chosen[:number]
