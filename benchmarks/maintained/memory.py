"""Memory of long runs: 5 GB of draws to disk, and 10⁷ steps of the mixture on 8 chains.

    python -m benchmarks memory [--folder DIR]

The folder needs 6 GB and is emptied afterwards.
"""

import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import tacthmc
from benchmarks import record
from benchmarks.maintained.overhead import Memory

SIZE = 250_000
"""Numbers in a draw: 1 MB."""
QUICK = {"share": 1e-3, "rest": 2.0}
Case = Callable[[Path, float], Callable[[], tacthmc.Run]]


def many_draws(folder: Path, share: float) -> Callable[[], tacthmc.Run]:
    """One chain of 250,000 numbers, each step a draw: 5,000 draws."""
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))

    def run(steps: int, name: str) -> tacthmc.Run:
        return tacthmc.sample(
            jax.random.key(0),
            tacthmc.sgld(0.01),
            target,
            jnp.zeros(SIZE),
            steps,
            keep=tacthmc.Keep(every=1, after=0),
            store=folder / name,
        )

    run(5, "warm")
    return lambda: run(round(5_000 * share), "draws")


def many_steps(folder: Path, share: float) -> Callable[[], tacthmc.Run]:
    """The 1-D mixture, 10⁷ steps on 8 chains."""
    target = tacthmc.noisy(tacthmc.potential(tacthmc.targets.three_gaussians()), force=3.0)

    def run(steps: int, name: str) -> tacthmc.Run:
        start = jnp.array([-4.0])
        sampler = tacthmc.tact(0.01)
        return tacthmc.sample(
            jax.random.key(0), sampler, target, start, steps, 8, store=folder / name
        )

    run(100_000, "warm-mixture")
    return lambda: run(round(10_000_000 * share), "mixture")


CASES: dict[str, Case] = {"5 GB of draws": many_draws, "10⁷ steps × 8": many_steps}


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--share", type=float, default=1.0, help="of the steps")
    parser.add_argument("--rest", type=float, default=3.0, help="seconds before it begins")


def main(args: Namespace) -> None:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        for name, case in CASES.items():
            results[name] = watched(case(Path(place), args.share), args.rest)
            print(name, {k: v for k, v in results[name].items() if k != "mib_by_second"})
    record.write(args.out, results | record.about(args, seed=0, share=args.share))


def watched(run: Callable[[], tacthmc.Run], rest: float) -> dict[str, Any]:
    """A run's time and size, and the memory before and while it goes on."""
    with Memory() as before:
        time.sleep(rest)
    begun = time.perf_counter()
    with Memory() as memory:
        made = run()
        seconds = time.perf_counter() - begun
    used = memory.mebibytes or before.mebibytes
    quarter, base = max(1, len(used) // 4), before.mebibytes[-1]
    middle, last = used[quarter : 2 * quarter] or used, used[-quarter:]
    assert made.path is not None
    return {
        "steps": made.num_steps,
        "draws": made.counts.tolist(),
        "bytes_on_disk": sum(f.stat().st_size for f in made.path.rglob("*") if f.is_file()),
        "seconds": round(seconds, 1),
        "base_mib": base,
        "most_above_base_mib": max(used) - base,
        "mean_of_second_quarter_mib": round(sum(middle) / len(middle)),
        "mean_of_last_quarter_mib": round(sum(last) / len(last)),
        "mib_by_second": used[:: max(1, len(used) // 120)],
    }
