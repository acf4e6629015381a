"""Does a lower precision change the posterior?

    python -m benchmarks gpu equivalence --out FOLDER/gpu.json
    python -m benchmarks equivalence FOLDER --out equivalence.json [--networks mlp …]

It judges the networks that are named and leaves the rest of OUT as it is. The folder has the
traces that the first command leaves: ten functionals (eight predicted probabilities, Σθ², the
data's mean log likelihood) along 256 chains, at float32 and at the lower precision, from
independent seeds.

Two one-sided tests at the 5% level: a functional is equivalent if the 90% intervals of its
difference in mean lie within ±``MEAN`` posterior standard deviations, and of its ratio of
standard deviations within 1 ± ``SD``. Both margins were set before the runs.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np

from benchmarks import record
from benchmarks.maintained.gpu import CHOSEN

MEAN, SD = 0.1, 0.05
MIN_ESS = 10_000
QUANTILE = 1.645
"""Of a normal law: 5% lie above."""


def judged(reference: np.ndarray, lower: np.ndarray) -> dict[str, Any]:
    """One functional, [chains, draws] each."""
    sizes = [float(az.ess(x)) for x in (reference, lower)]
    # For the spread: how many independent squares there are.
    spreads = [float(az.ess((x - x.mean()) ** 2)) for x in (reference, lower)]
    sds = [float(x.std()) for x in (reference, lower)]
    shift = float(lower.mean() - reference.mean()) / sds[0]
    shift_error = float(np.sqrt(sum(1 / size for size in sizes)))
    ratio = sds[1] / sds[0]
    kurtosis = float(np.mean((reference - reference.mean()) ** 4) / sds[0] ** 4)
    ratio_error = float(np.sqrt(sum((kurtosis - 1) / (4 * size) for size in spreads)))
    return {
        "ess": min(sizes),
        "shift": shift,
        "shift_error": shift_error,
        "sd_ratio": ratio,
        "sd_ratio_error": ratio_error,
        "equivalent": bool(
            min(sizes) >= MIN_ESS
            and abs(shift) + QUANTILE * shift_error < MEAN
            and abs(ratio - 1) + QUANTILE * ratio_error < SD
        ),
    }


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="of the traces")
    parser.add_argument("--networks", nargs="+", default=list(CHOSEN))


def main(args: Namespace) -> None:
    found: dict[str, Any] = record.opened(args.out) or {}
    found |= {
        "margins": {"mean": MEAN, "sd": SD, "ess": MIN_ESS},
        "commands": ["python -m benchmarks gpu equivalence", args.command],
        "seeds": {"float32": 0, "lower precision": 7},
        "machine": (record.opened(args.folder / "gpu.json") or {}).get("machine"),
    }
    for name in args.networks:
        traces = [np.load(args.folder / f"{name}-{kind}.npy") for kind in ("float32", CHOSEN[name])]
        results = [judged(*(t[:, :, k] for t in traces)) for k in range(traces[0].shape[2])]
        found[name] = {
            "compute": CHOSEN[name],
            "equivalent": all(r["equivalent"] for r in results),
            "least_ess": min(r["ess"] for r in results),
            "largest_shift": max(abs(r["shift"]) for r in results),
            "shift_error": max(r["shift_error"] for r in results),
            "sd_ratios": [min(r["sd_ratio"] for r in results), max(r["sd_ratio"] for r in results)],
            "functionals": results,
        }
        print(name, {k: v for k, v in found[name].items() if k != "functionals"})
    record.write(args.out, found)
