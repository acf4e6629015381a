r"""One thermostat for a network, or one for each tensor: the paper's CNN on CIFAR-10.

    python -m benchmarks.cifar_thermostats OUT.json --data FOLDER --seeds 3 4 -- \
        "tensor 0.005 0.16 0" "tensor 0.005 0.16 0 T = 1.5, 20 of 100"

Each setting is a thermostat (scalar, tensor, diagonal), η per datum, c, the power of the noise
that masses have, and a schedule of ``benchmarks.cifar_schedules`` (its SGNHT where none is named).
Every chain starts anew; the draws that are averaged, and the scores, are that benchmark's, and
notes beside OUT.json have the probabilities of the test images' true labels.
"""

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.cifar_schedules import EVERY, LONG_WAITS, WAITS, Bench, Trips, judged


def setting(text: str) -> Trips:
    """Of its description."""
    thermostat, rate, noise, masses, *schedule = text.split(" ", 4)
    return EVERY[schedule[0] if schedule else "sgnht"]._replace(
        thermostat=thermostat, rate=float(rate), noise=float(noise), masses=float(masses)
    )


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("settings", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--burn", type=int, default=200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4])
    parser.add_argument("--compute", default="tf32")
    parser.add_argument("--limit", type=int, default=None, help="images, for a trial")
    args = parser.parse_args()
    settings = {text: setting(text) for text in args.settings}
    bench = Bench(args.data, args.compute, args.limit)
    rows: list[dict[str, Any]] = []
    file: dict[str, Any] = {
        "about": {
            "command": " ".join(
                ["python -m benchmarks.cifar_thermostats"]
                + [f'"{one}"' if " " in one else one for one in sys.argv[1:]]
            ),
            "device": str(getattr(jax.devices()[0], "device_kind", jax.devices()[0])),
            "versions": {"python": platform.python_version(), "jax": jax.__version__},
            "examples": bench.num_data,
        },
        "seconds": {},
        "plans": {},
        "rows": rows,
    }
    # One program for each kind of thermostat: their states are of different shapes.
    for kind in dict.fromkeys(one.thermostat for one in settings.values()):
        names = [text for text, one in settings.items() if one.thermostat == kind]
        plan = [(name, seed) for seed in args.seeds for name in names]
        found = bench.run([(settings[name], seed) for name, seed in plan], args.epochs)
        rows += judged(found, plan, args.burn, (*WAITS, *LONG_WAITS[1:]), settings)
        file["plans"][kind], file["seconds"][kind] = plan, found["seconds"]
        args.out.write_text(json.dumps(file, indent=1) + "\n")
        notes = args.out.with_name(f"{args.out.stem}-{kind}")
        np.save(notes.with_suffix(".energy.npy"), found["energy"].astype(np.float32))
        np.save(notes.with_suffix(".notes.npy"), found["notes"].astype(np.float16))
    for row in rows:
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
