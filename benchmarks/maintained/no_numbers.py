"""Posteriors that ``tact()`` without a single number set by hand has to get right.

    python -m benchmarks no_numbers [--only ring …] [--scales 0.001 1 1000]
    python -m benchmarks no_numbers --references --out no_numbers_references.json

Each chain starts from one place, with noise that the sampler is not told of, and with θ measured
in other units. A row has distances to the truth beside what chance alone would leave.
"""

import json
import time
from argparse import ArgumentParser, Namespace
from typing import Any

import jax
import numpy as np

import tacthmc
from benchmarks import record
from benchmarks.maintained.no_numbers_problems import PROBLEMS, SIZES, Problem, reference
from benchmarks.record import Rows, about, add_again

SAME = ("problem", "scale", "share", "chains", "seed")
QUICK = {"only": ["1-D"], "scales": [1.0], "share": 0.02, "chains": 4}


def arguments(parser: ArgumentParser) -> None:
    """The posteriors, their units and the sizes."""
    parser.add_argument("--only", nargs="*", default=[], help="problems with one of these words")
    parser.add_argument("--scales", type=float, nargs="+", default=[1.0, 1e-3, 1e3])
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--share", type=float, default=1.0, help="of each problem's steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--references", action="store_true", help="make these, and nothing else")
    add_again(parser)


def main(args: Namespace) -> None:
    if args.references:
        found = {str(size): reference(size) for size in SIZES}
        record.write(args.out, {"about": about(args)} | found, digits=record.EXACT)
        return
    rows = Rows(args.out, about(args), SAME, again=args.again)
    for name, make in PROBLEMS.items():
        if args.only and not any(word in name for word in args.only):
            continue
        for scale in args.scales:
            row = {"problem": name, "scale": scale, "share": args.share}
            row |= {"chains": args.chains, "seed": args.seed}
            if rows.has(row):
                continue
            row |= measured(make(scale), args)
            rows.add(row)
            print(json.dumps({k: v for k, v in row.items() if k != "chosen"}), flush=True)


def way(run: tacthmc.Run) -> str:
    """How the chains of a run got from mode to mode."""
    if hasattr(run.state, "round_trips"):
        return "replicas"
    found = "jumps" if run.sampler.jumps is not None else "one temperature"
    if run.has_tempering:
        hottest = float(run.sampler.tempering.coupling.hottest)
        found = f"{'jumps, and ' if found == 'jumps' else ''}ξ to {hottest:.4g}"
    return found


def measured(problem: Problem, args: Namespace) -> dict[str, Any]:
    """One run, tuned by itself, and how far it is from the truth."""
    begun = time.perf_counter()
    run = tacthmc.sample(
        jax.random.key(args.seed),
        tacthmc.tact(),
        problem.potential,
        problem.start,
        int(args.share * problem.steps),
        args.chains,
        progress=False,
    )
    chosen = {choice["name"]: choice["value"] for choice in run.tuning.record()}
    chosen["way"] = way(run)
    trips = getattr(run.state, "round_trips", run.round_trips)
    return {
        "steps": run.num_steps,
        "round_trips": float(np.mean(trips)),
        "draws": int(run.counts.sum()),
        "warmup_gradients": run.tuning.gradients,
        "seconds": round(time.perf_counter() - begun, 1),
        **problem.judge(run.all_draws),
        "chosen": chosen,
    }
