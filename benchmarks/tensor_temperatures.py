"""How hot one friction for a network leaves each tensor: the paper's CNN on CIFAR-10.

    python -m benchmarks.tensor_temperatures OUT.json --data FOLDER [--epochs 8]

SGNHT from fresh weights with η = 5.01·10⁻³ per datum and c = 0.16, with one friction and with one
for each tensor. Over the last quarter of the epochs, eleven looks at each: a tensor's kinetic
temperature ⟨r²⟩/η, and its friction. On a CPU it takes a few minutes.
"""

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks.cifar_schedules import INERTIA, NEVER, NOISE, RATE, THERMOSTATS, Bench
from tacthmc.run import _chains as chains_of_a_run
from tacthmc.run._chunk import Limits, Shape

LOOKS = 11
"""In an epoch."""


def looked_at(bench: Bench, kind: str, epochs: int) -> dict[str, Any]:
    """Means over the looks, by tensor."""
    eta = RATE / bench.num_data
    sampler = tacthmc.sgnht(
        eta,
        noise=NOISE,
        thermostat=THERMOSTATS[kind](steps=INERTIA),
        keep_every=bench.epoch // LOOKS,
    )
    start = jax.tree.map(lambda x: x[None], bench.model.init(jax.random.key(0)))
    chains, keys = chains_of_a_run.start_chains(
        sampler, bench.potential, jax.random.key(2), start, True, None
    )
    seen: list[dict[str, float]] = []
    frictions: list[Any] = []
    for look in range(epochs * LOOKS):
        limits = Limits(jnp.asarray(1), jnp.asarray(NEVER))
        chains, _ = chains_of_a_run.run_chunk(
            sampler, bench.potential, keys, chains, None, limits, Shape(1), True, False, None
        )
        if look >= 3 * epochs * LOOKS // 4:
            momentum = chains.state.momentum
            seen.append({name: float(jnp.mean(r**2)) / eta for name, r in momentum.items()})
            frictions.append(jax.tree.map(np.mean, chains.state.thermostat))
    z = jax.tree.map(lambda *values: round(float(np.mean(values)), 4), *frictions)
    kinetic = {name: round(float(np.mean([one[name] for one in seen])), 3) for name in seen[0]}
    return {"thermostat": kind, "kinetic_temperature": kinetic, "friction": z}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    bench = Bench(args.data, "float32", None)
    file = {
        "about": {
            "command": " ".join(["python -m benchmarks.tensor_temperatures", *sys.argv[1:]]),
            "device": f"{jax.default_backend()}, {jax.local_device_count()} device(s)",
            "versions": {"python": platform.python_version(), "jax": jax.__version__},
        },
        "rows": [looked_at(bench, kind, args.epochs) for kind in ("scalar", "tensor")],
    }
    args.out.write_text(json.dumps(file, indent=1) + "\n")
    print(json.dumps(file["rows"], indent=1))


if __name__ == "__main__":
    main()
