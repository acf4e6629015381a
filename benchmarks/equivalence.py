"""Does a lower precision change the posterior? ``python -m benchmarks.equivalence FOLDER OUT``.

Networks named after OUT are judged alone, and the rest of OUT is left as it is.

The folder has the traces that ``benchmarks.gpu equivalence`` leaves: ten functionals (eight
predicted probabilities, Σθ², the data's mean log likelihood) along 256 chains, at float32 and at
the lower precision, from independent seeds.

Two one-sided tests at the 5% level: a functional is equivalent if the 90% intervals of its
difference in mean lie within ±``MEAN`` posterior standard deviations, and of its ratio of
standard deviations within 1 ± ``SD``. Both margins were set before the runs.
"""

import json
import sys
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np

MEAN, SD, LEAST = 0.1, 0.05, 10_000
QUANTILE = 1.645
CHOSEN = {"mlp": "tf32", "cnn": "tf32", "lstm": "bfloat16"}


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
            min(sizes) >= LEAST
            and abs(shift) + QUANTILE * shift_error < MEAN
            and abs(ratio - 1) + QUANTILE * ratio_error < SD
        ),
    }


def main() -> None:
    folder, out, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or list(CHOSEN)
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    found |= {
        "margins": {"mean": MEAN, "sd": SD, "ess": LEAST},
        "commands": ["python -m benchmarks.gpu equivalence", "python -m benchmarks.equivalence"],
        "seeds": {"float32": 0, "lower precision": 7},
        "machine": json.loads((Path(__file__).parent / "gpu.json").read_text())["machine"],
    }
    for name, compute in ((name, CHOSEN[name]) for name in names):
        traces = [np.load(folder / f"{name}-{kind}.npy") for kind in ("float32", compute)]
        results = [judged(*(t[:, :, k] for t in traces)) for k in range(traces[0].shape[2])]
        found[name] = {
            "compute": compute,
            "equivalent": all(r["equivalent"] for r in results),
            "least_ess": min(r["ess"] for r in results),
            "largest_shift": max(abs(r["shift"]) for r in results),
            "shift_error": max(r["shift_error"] for r in results),
            "sd_ratios": [min(r["sd_ratio"] for r in results), max(r["sd_ratio"] for r in results)],
            "functionals": results,
        }
        print(name, {k: v for k, v in found[name].items() if k != "functionals"})
    out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
