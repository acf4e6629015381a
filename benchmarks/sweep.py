"""Modes crossed by a ξ that is led, against how fast it is led.

    python -m benchmarks.sweep OUT.json [--dimensions 16 256] [--energy 1] [--gradients N]

The targets of :mod:`benchmarks.mobility`: two unit Gaussians six apart, weights 0.7 and 0.3, chains
from the heavier one. Forces have noise of standard deviation 1, energies of ``--energy``. Beside
sweeps of three periods there is `tact` with a ξ that moves by itself. Records that the file has are
not measured again.
"""

import argparse
import json
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import tacthmc
from benchmarks.mobility import KEEP, Problem, as_it_is, pair, summary
from tacthmc.dynamics import Relaxed, Sweep

ETA, SEED = 0.4, 0


def methods(dimension: int) -> dict[str, Any]:
    """Each method in its settings; a window is a tenth of the period."""
    scaled = min(1.0, 16 / dimension)
    found: dict[str, Any] = {
        "ξ by itself, the paper's form": tacthmc.tact(
            ETA, keep_every=KEEP, xi_step_size=0.1 * scaled
        ),
        "ξ by itself, breathing": tacthmc.tact(
            ETA, keep_every=KEEP, xi_step_size=0.03, centre="mean"
        ),
    }
    for period in (500, 2000, 8000):
        for form, centre in (("the paper's form", None), ("breathing", "mean")):
            for test in (None, Relaxed(period // 10)):
                name = f"period {period:,}, {form}{', relaxed' if test else ''}"
                found[name] = tacthmc.tact(
                    ETA,
                    keep_every=KEEP,
                    centre=centre,
                    sweep=Sweep(period),
                    relaxed=test,
                )
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[16, 256])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--gradients", type=int, default=60_000)
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--energy", type=float, default=1.0)
    args = parser.parse_args()
    file = {"about": {}, "rows": []}
    if args.out.exists():
        file = json.loads(args.out.read_text())
    device = jax.devices()[0]
    commands = file["about"].get("commands", [])
    command = f"python -m benchmarks.sweep {shlex.join([args.out.name, *sys.argv[2:]])}"
    file["about"] = {
        "commands": commands if command in commands else [*commands, command],
        "device": getattr(device, "device_kind", str(device)),
        "versions": {"python": platform.python_version(), "jax": jax.__version__},
        "chains": args.chains,
        "seed": SEED,
        "step_size": ETA,
        "keep_every": KEEP,
        "warmup": "a fifth",
    }
    same = ("method", "dimension", "energy_noise", "gradients")
    known = {tuple(r[k] for k in same) for r in file["rows"]}
    for dimension in args.dimensions:
        target = pair(dimension)
        potential = tacthmc.noisy(tacthmc.potential(target), force=1.0, energy=args.energy)
        for name, sampler in methods(dimension).items():
            if args.only and not any(word in name for word in args.only):
                continue
            if (name, dimension, args.energy, args.gradients) in known:
                continue
            begun = time.perf_counter()
            run = tacthmc.sample(
                jax.random.key(SEED),
                sampler,
                potential,
                target.means[0],
                args.gradients,
                args.chains,
                num_warmup=args.gradients // 5,
                progress=False,
            )
            row = {"method": name, "dimension": dimension, "energy_noise": args.energy}
            row |= {"gradients": args.gradients}
            problem = Problem(target, potential, target.means[0], as_it_is, {}, 1.0)
            row |= summary(run, problem, run.num_steps - run.num_warmup)
            row["plateau_share"] = float(np.mean(run.plateau_share))
            row["kept"] = float(np.mean(run.counts))
            row["seconds"] = round(time.perf_counter() - begun, 1)
            file["rows"].append(row)
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
            print(*shown.values(), flush=True)
            args.out.write_text(json.dumps(file, indent=1))


if __name__ == "__main__":
    main()
