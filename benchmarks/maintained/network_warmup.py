"""A network without numbers set by hand: what tuning chooses, and what its coordinates are worth.

    python -m benchmarks network_warmup --data FOLDER [--seeds 3] [--first 0] [--epochs 60]
    python -m benchmarks network_warmup --data FOLDER --name cifar10 --compute tf32

The MLP 784-100-10 on Fashion-MNIST, 79,510 parameters, batches of 128; or the paper's CNN on
CIFAR-10, 106,278 parameters, batches of 64. ``tact()`` has no numbers. SGNHT runs with numbers that
were found by hand elsewhere (η = 5·10⁻³ per datum, c = 0.05), with the tuned numbers in θ's own
coordinates, and with the tuned numbers in the tuned coordinates. All start where the first chain of
the tuning ended, run as many epochs, and average predictions on the test images over one draw an
epoch after a third of them. Nothing is chosen by the test images.
"""

import json
import time
from argparse import ArgumentParser, Namespace
from typing import Any

import jax
import numpy as np

import tacthmc
from benchmarks.images import add_data, loaded, posterior, prediction_of, scores_of
from benchmarks.record import Rows, about, add_again
from tacthmc import predict
from tacthmc.dynamics import Coordinates
from tacthmc.paper import data
from tacthmc.paper import networks as models

RATE, NOISE = 5e-3, 0.05
METHODS = (
    "sgnht, by hand",
    "sgnht, tuned numbers",
    "sgnht, tuned numbers and coordinates",
    "tact()",
)
TUNING = "tuning"
SAME = ("name", "method", "seed", "epochs")
QUICK = {"seeds": 1, "epochs": 3, "tuning_steps": 50}


class Task:
    """A data set with the network that learns it, and its posterior."""

    def __init__(self, name: str, compute: Any, args: Namespace):
        """Read the data; its pixels are normalized."""
        self.images = loaded(name, args)
        is_cnn = name == "cifar10"
        self.model: Any = (
            models.cnn(compute=compute)
            if is_cnn
            else models.mlp(784, 100, len(self.images.classes), compute=compute)
        )
        batch = 64 if is_cnn else 128
        self.fitting = data.shaped(data.normalized(self.images), self.model)
        self.posterior = posterior(self.model, self.fitting.train, batch)
        self.num_data = self.images.num_train
        self.epoch = self.num_data // batch


def arguments(parser: ArgumentParser) -> None:
    """The data set, the sizes, and the methods."""
    add_data(parser)
    parser.add_argument("--name", default="fashion_mnist", choices=["fashion_mnist", "cifar10"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--tuning-steps", type=int, default=500, help="steps of a short run")
    parser.add_argument("--compute", default="float32", help="the precision of products")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add_again(parser)


def main(args: Namespace) -> None:
    task = Task(args.name, args.compute, args)
    rows = Rows(args.out, about(args), SAME, again=args.again)
    for seed in range(args.first, args.first + args.seeds):
        of_seed = {"name": args.name, "seed": seed, "epochs": args.epochs}
        missing = [name for name in args.methods if not rows.has(of_seed | {"method": name})]
        if not missing:
            continue
        sampler, found = tuned(task, seed, args.tuning_steps)
        rows.add(of_seed | {"method": TUNING} | found)
        start = jax.tree.map(lambda x: x[0], sampler.tuning.start)
        for name in missing:
            chosen = contestant(name, sampler, task.num_data)
            row = of_seed | {"method": name}
            rows.add(row | measured(task, chosen, start, args.epochs, seed))
            print(json.dumps(rows.rows[-1]), flush=True)


def tuned(task: Task, seed: int, steps: int) -> tuple[Any, dict[str, Any]]:
    """The tuned sampler, and what it took and chose."""
    key, begun = jax.random.key(seed), time.perf_counter()
    init = task.model.init(jax.random.fold_in(key, 1))
    sampler = tacthmc.tune(key, tacthmc.tact(), task.posterior, init, num_steps=steps)
    return sampler, {
        "seconds": round(time.perf_counter() - begun, 1),
        "gradients": sampler.tuning.gradients,
        "choices": sampler.tuning.record(),
    }


def contestant(name: str, sampler: Any, num_data: int) -> Any:
    """The sampler of that name."""
    if name == "tact()":
        return sampler
    if name == "sgnht, by hand":
        return tacthmc.sgnht(RATE / num_data, noise=NOISE)
    linear = sampler.coordinates.linear if name.endswith("coordinates") else None
    return tacthmc.sgnht(
        float(sampler.step_size),
        noise=float(sampler.injected),
        thermostat=sampler.thermostat,
        coordinates=Coordinates(linear),
    )


def measured(task: Task, sampler: Any, start: Any, epochs: int, seed: int) -> dict[str, Any]:
    """One chain's scores, the energy at unit temperature in its later half, and what it took."""
    begun = time.perf_counter()
    live = predict.Predictive(task.model, task.fitting.test[0])
    run = tacthmc.sample(
        jax.random.key(100 + seed),
        sampler,
        task.posterior,
        start,
        epochs * task.epoch,
        keep=tacthmc.Keep(every=task.epoch, after=epochs // 3 * task.epoch, forget=True),
        callbacks=[live],
        progress=False,
    )
    energy = np.asarray(run.trace["energy"][0], float)
    late = np.arange(len(energy)) >= len(energy) // 2
    if "temperature" in run.trace:
        late &= np.asarray(run.trace["temperature"][0]) == 1
    found: dict[str, Any] = {"seconds": round(time.perf_counter() - begun, 1)}
    if late.any():
        # The error is that of eight blocks' means, since successive energies are correlated.
        blocks = [x.mean() for x in np.array_split(energy[late], 8) if len(x)]
        error = float(np.std(blocks) / max(len(blocks) - 1, 1) ** 0.5)
        found |= {"energy": float(energy[late].mean()), "its_error": error}
    return found | scores_of(prediction_of(live), task.images.test_labels)
