"""One thermostat for a network, or one for each tensor: the MLP on Fashion-MNIST, on a CPU.

    python -m benchmarks mlp_thermostats --data FOLDER [--epochs 60]

SGNHT on the MLP 784-100-10, batches of 128, from fresh weights, with both thermostats at several
step sizes and noises. Predictions on the test images are averaged over one draw an epoch, without
the first third of them.
"""

import json
from argparse import ArgumentParser, Namespace
from typing import Any

import jax

import tacthmc
from benchmarks.images import add_data
from benchmarks.maintained.network_warmup import Task, measured
from benchmarks.record import Rows, about, add_again
from tacthmc.dynamics import ScalarThermostat, TensorThermostat

INERTIA = 562.0
SETTINGS = ((0.005, 0.05), (0.005, 0.16), (0.02, 0.5), (0.02, 0.16), (0.00125, 0.05), (0.005, 0.5))
"""Step sizes per datum and noises."""
THERMOSTATS: tuple[Any, ...] = (ScalarThermostat, TensorThermostat)
SAME = ("thermostat", "rate", "noise", "seed", "epochs")
QUICK = {"epochs": 3, "seeds": 1}


def arguments(parser: ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2)
    add_again(parser)


def main(args: Namespace) -> None:
    task = Task("fashion_mnist", "float32", args)
    rows = Rows(args.out, about(args), SAME, again=args.again)
    for rate, noise in SETTINGS:
        for thermostat in THERMOSTATS:
            for seed in range(args.seeds):
                row = {"thermostat": thermostat.__name__, "rate": rate, "noise": noise}
                row |= {"seed": seed, "epochs": args.epochs}
                if rows.has(row):
                    continue
                sampler = tacthmc.sgnht(
                    rate / task.num_data, noise=noise, thermostat=thermostat(steps=INERTIA)
                )
                start = task.model.init(jax.random.key(seed))
                rows.add(row | measured(task, sampler, start, args.epochs, seed))
                print(json.dumps(rows.rows[-1]), flush=True)
