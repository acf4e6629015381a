"""One thermostat for a network, or one for each tensor: the MLP on Fashion-MNIST, on a CPU.

    python -m benchmarks.mlp_thermostats OUT.json --data FOLDER [--epochs 60]

SGNHT on the MLP 784-100-10, batches of 128, from fresh weights, with both thermostats at several
step sizes and noises. Predictions on the test images are averaged over one draw an epoch, the first
third of them left out.
"""

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import jax

import tacthmc
from benchmarks.network_warmup import measured
from tacthmc.dynamics import ScalarThermostat, TensorThermostat
from tacthmc.paper import data
from tacthmc.paper import networks as models

DECAY, BATCH, INERTIA = 1e-3, 128, 562.0
SETTINGS = ((0.005, 0.05), (0.005, 0.16), (0.02, 0.5), (0.02, 0.16), (0.00125, 0.05), (0.005, 0.5))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    found = data.load("fashion_mnist", folder=args.data, download=False)
    model = models.mlp(784, 100, 10)
    fitting = data.shaped(data.normalized(found), model)
    epoch = found.num_train // BATCH
    posterior = tacthmc.posterior(
        models.gaussian_prior(precision=2 * DECAY * found.num_train),
        models.categorical(model),
        fitting.train,
        BATCH,
        batched=True,
    )
    rows: list[dict[str, Any]] = []
    file: dict[str, Any] = {
        "about": {
            "command": " ".join(["python -m benchmarks.mlp_thermostats", *sys.argv[1:]]),
            "device": f"{jax.default_backend()}, {jax.local_device_count()} device(s)",
            "versions": {"python": platform.python_version(), "jax": jax.__version__},
        },
        "rows": rows,
    }
    thermostats: tuple[Any, ...] = (
        ScalarThermostat,
        TensorThermostat,
    )
    for rate, noise in SETTINGS:
        for thermostat in thermostats:
            sampler = tacthmc.sgnht(
                rate / found.num_train,
                noise=noise,
                thermostat=thermostat(steps=INERTIA),
                keep_every=epoch,
            )
            for seed in range(args.seeds):
                start = model.init(jax.random.key(seed))
                row = {"thermostat": thermostat.__name__, "rate": rate, "noise": noise}
                row |= {"seed": seed} | measured(
                    sampler, posterior, start, args.epochs, epoch, model, fitting, found, seed
                )
                rows.append(row)
                print(json.dumps(row), flush=True)
            args.out.write_text(json.dumps(file, indent=1) + "\n")


if __name__ == "__main__":
    main()
