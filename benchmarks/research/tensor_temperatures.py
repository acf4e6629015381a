"""How hot one friction for a network leaves each tensor: the paper's CNN on CIFAR-10.

    python -m benchmarks tensor_temperatures --data FOLDER [--epochs 8]

SGNHT from fresh weights with η = 5.01·10⁻³ per datum and c = 0.16, with one friction and with one
for each tensor. Eleven times in each of the last quarter of the epochs it notes a tensor's kinetic
temperature ⟨r²⟩/η and its friction. On a CPU it takes a few minutes.
"""

import json
from argparse import ArgumentParser, Namespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks import record
from benchmarks.images import add_data
from benchmarks.research.cifar_chains import THERMOSTATS, Bench
from benchmarks.research.cifar_trips import INERTIA, NEVER, NOISE, RATE

LOOKS = 11
"""In an epoch."""
QUICK = {"epochs": 2}


def measured(bench: Bench, kind: str, epochs: int) -> dict[str, Any]:
    """Means over the looks, by tensor."""
    eta = RATE / bench.num_data
    thermostat = THERMOSTATS[kind](steps=INERTIA)
    sampler = tacthmc.sgnht(eta, noise=NOISE, thermostat=thermostat)
    keep = tacthmc.Keep(every=max(1, bench.epoch // LOOKS), after=NEVER)
    program = tacthmc.Program(sampler, bench.potential, keep, room=1)
    chains = program.start(jax.random.key(2), bench.model.init(jax.random.key(0)))
    seen: list[dict[str, float]] = []
    frictions: list[Any] = []
    for look in range(epochs * LOOKS):
        chains, _ = program.advance(chains, 1)
        if look >= 3 * epochs * LOOKS // 4:
            state = chains.each.state
            seen.append({k: float(jnp.mean(r**2)) / eta for k, r in state.momentum.items()})
            frictions.append(jax.tree.map(np.mean, state.thermostat))
    z = jax.tree.map(lambda *values: round(float(np.mean(values)), 4), *frictions)
    kinetic = {name: round(float(np.mean([one[name] for one in seen])), 3) for name in seen[0]}
    return {"thermostat": kind, "kinetic_temperature": kinetic, "friction": z}


def arguments(parser: ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--epochs", type=int, default=8)
    parser.set_defaults(compute="float32", limit=None)


def main(args: Namespace) -> None:
    bench = Bench(args)
    rows = [measured(bench, kind, args.epochs) for kind in ("scalar", "tensor")]
    record.write(args.out, {"about": record.about(args), "rows": rows})
    print(json.dumps(rows, indent=1))
