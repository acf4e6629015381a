"""Crossings between modes where ξ follows a schedule, against its period.

    python -m benchmarks sweep [--dimensions 16 256] [--energy 1] [--gradients N]

The targets of ``python -m benchmarks mobility``: two unit Gaussians six apart, weights 0.7 and 0.3,
chains from the heavier one. Forces have noise of standard deviation 1, energies of ``--energy``.
Beside schedules of three periods there is ``tact`` with a ξ that moves by itself. Rows that the
file has are not measured again.
"""

import time
from argparse import ArgumentParser, Namespace
from typing import Any

import jax
import numpy as np

import tacthmc
from benchmarks.maintained.mobility import EVERY, Problem, as_it_is, summary
from benchmarks.maintained.mobility_methods import paper, widening
from benchmarks.maintained.mobility_targets import pair
from benchmarks.record import Rows, about, add_again
from tacthmc.dynamics import Coordinates, ScheduledTempering

ETA, SEED = 0.4, 0
SAME = ("method", "dimension", "energy_noise", "gradients")
QUICK = {"dimensions": [2], "gradients": 2_000, "chains": 4}


def methods(dimension: int) -> dict[str, tuple[Any, int | None]]:
    """Each method in its settings, with the window of the relaxation test (a tenth of the period).

    Names are those of the record: θ widens with ξ in a form that "breathes".
    """
    found: dict[str, tuple[Any, int | None]] = {
        "ξ by itself, the paper's form": (paper(ETA, 0.1 * min(1.0, 16 / dimension)), None),
        "ξ by itself, breathing": (widening(ETA, 0.03), None),
    }
    for period in (500, 2000, 8000):
        for form, center in (("the paper's form", None), ("breathing", "mean")):
            sampler = tacthmc.tact(
                ETA,
                tempering=ScheduledTempering(period),
                coordinates=Coordinates(center=center),
            )
            found[f"period {period:,}, {form}"] = sampler, None
            found[f"period {period:,}, {form}, relaxed"] = sampler, period // 10
    return found


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--dimensions", type=int, nargs="+", default=[16, 256])
    parser.add_argument("--only", nargs="*", default=[], help="methods with one of these words")
    parser.add_argument("--gradients", type=int, default=60_000)
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--energy", type=float, default=1.0)
    add_again(parser)


def main(args: Namespace) -> None:
    facts = {"chains": args.chains, "seed": SEED, "step_size": ETA}
    run = about(args, **facts, keep_every=EVERY, warmup="a fifth")
    rows = Rows(args.out, run, SAME, again=args.again)
    for dimension in args.dimensions:
        target = pair(dimension)
        rough = tacthmc.noisy(tacthmc.potential(target), force=1.0, energy=args.energy)
        asked = Problem(target, rough, target.means[0], as_it_is, {}, 1.0)
        for name, (sampler, window) in methods(dimension).items():
            row = {"method": name, "dimension": dimension, "energy_noise": args.energy}
            row |= {"gradients": args.gradients}
            if rows.has(row) or (args.only and not any(word in name for word in args.only)):
                continue
            row |= measured(sampler, window, asked, args)
            rows.add(row)
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
            print(*shown.values(), flush=True)


def measured(sampler: Any, window: int | None, asked: Problem, args: Namespace) -> dict[str, Any]:
    """One method's run, and what is said of it."""
    begun, after = time.perf_counter(), args.gradients // 5
    run = tacthmc.sample(
        jax.random.key(SEED),
        sampler,
        asked.potential,
        asked.start,
        args.gradients,
        args.chains,
        keep=tacthmc.Keep(every=EVERY, after=after, relaxation_window=window),
        progress=False,
    )
    return summary(run, asked, run.num_steps - after) | {
        "plateau_share": float(np.mean(run.plateau_share)),
        "kept": float(np.mean(run.counts)),
        "seconds": round(time.perf_counter() - begun, 1),
    }
