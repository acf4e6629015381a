"""Does a network know what it has not learned? AUROC of telling foreign images from its own.

    python -m benchmarks.out_of_distribution OUT.json --data FOLDER [--only fashion_mnist]

A network is fitted to one data set, by Adam (its last iterate) and by SGNHT and TACT-HMC (one draw
an epoch after the burn-in, averaged), and asked about test images of its own kind and of another:
Fashion-MNIST against emnist47 and back (the MLP), CIFAR-10 against itself corrupted (the CNN).
Step sizes and noise are those of the paper's 7-tuples for these networks, thermostats this
library's. TACT-HMC's ξ is held for the burn-in and then led up to T = 2 and back every 12 epochs,
with rests of three quarters of that.
"""

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any, get_args

import jax
import numpy as np

import tacthmc
from tacthmc import predict
from tacthmc.dynamics import Relaxed, ShapedCoupling, Sweep
from tacthmc.paper import data
from tacthmc.paper import networks as models
from tacthmc.paper.data.corruption import Kind
from tacthmc.paper.networks.model import Model
from tacthmc.paper.networks.products import Compute
from tacthmc.paper.tasks import TASKS
from tacthmc.paper.tasks.task import DECAY, RATE
from tacthmc.samplers import adam

HELD_OUT = 5_000
"""Test images of a kind, at most."""
SEVERITY = 5
HOTTEST = 2.0
METHODS = ("adam", "sgnht", "tact")


def asked(name: str, folder: Path) -> tuple[data.ImageSet, str, dict[str, np.ndarray]]:
    """A data set, the task whose network learns it, and test images of its own kind and others."""
    own = data.load(name, folder=folder, download=False)
    some = own.test_images[:HELD_OUT]
    if name == "cifar10":
        kinds = {kind: data.corrupted(some, kind, SEVERITY) for kind in get_args(Kind)}
        return own, "cnn", {"own": some, **kinds}
    other = "emnist47" if name == "fashion_mnist" else "fashion_mnist"
    foreign = data.load(other, folder=folder, download=False).test_images[:HELD_OUT]
    return own, "mlp", {"own": some, other: foreign}


def sampler(method: str, task: str, own: data.ImageSet, burn_in: int) -> Any:
    """The method with the paper's numbers, one draw an epoch."""
    chosen, num_data = TASKS[task], own.num_train
    epoch = num_data // chosen.batch_size
    if method == "adam":
        return adam(RATE, num_data=num_data, keep_every=epoch)
    eta, noise = chosen.seven[0] / num_data, chosen.seven[2]
    if method == "sgnht":
        return tacthmc.sgnht(eta, noise=noise, keep_every=epoch)
    return tacthmc.tact(
        eta,
        noise=noise,
        coupling=ShapedCoupling([1.0, HOTTEST], [1.0, 1.0]),
        sweep=Sweep(12 * epoch, rest=0.75, start=burn_in * epoch),
        relaxed=Relaxed(2 * epoch),
        keep_every=epoch,
    )


def fitted(
    method: str, name: str, folder: Path, epochs: int, seed: int, compute: Compute
) -> dict[str, Any]:
    """Fit, predict, and tell kinds apart."""
    begun = time.perf_counter()
    own, task, images = asked(name, folder)
    batch = TASKS[task].batch_size
    epoch, burn_in = own.num_train // batch, 3 * epochs // 10
    model: Model = (
        models.cnn(compute=compute)
        if task == "cnn"
        else models.mlp(784, 100, len(own.classes), compute=compute)
    )
    potential: Any = tacthmc.posterior(
        models.gaussian_prior(precision=2 * DECAY * own.num_train),
        models.categorical(model),
        data.shaped(own, model).train,
        batch,
        batched=True,
    )
    live = {kind: predict.Predictive(model, some) for kind, some in images.items()}
    run = tacthmc.sample(
        jax.random.key(seed),
        sampler(method, task, own, burn_in),
        tacthmc.temper_likelihood(potential) if method == "tact" else potential,
        model.init(jax.random.key(100 + seed)),
        epochs * epoch,
        num_warmup=(epochs - 1 if method == "adam" else burn_in) * epoch,
        keep="nothing",
        callbacks=list(live.values()),
    )
    found = {kind: one.prediction for kind, one in live.items()}
    scores = found["own"].scores(own.test_labels[:HELD_OUT])
    row: dict[str, Any] = {"learned": name, "network": task, "method": method, "seed": seed}
    row |= {"epochs": epochs, "draws": found["own"].weight}
    row |= {"round_trips": int(run.round_trips[0])} if method == "tact" else {}
    row |= {k: float(v) for k, v in scores._asdict().items()}
    ways = ("entropy",) if method == "adam" else ("entropy", "mutual information")
    row["auroc"] = {
        kind: {by: predict.out_of_distribution(found["own"], one, by) for by in ways}
        for kind, one in found.items()
        if kind != "own"
    }
    return row | {"seconds": round(time.perf_counter() - begun, 1)}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    names = ["fashion_mnist", "emnist47", "cifar10"]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--compute", default="float32")
    args = parser.parse_args()
    places = {str(args.out): "OUT.json", str(args.data): "FOLDER"}
    words = [places.get(word, word) for word in sys.argv[1:]]
    file = json.loads(args.out.read_text()) if args.out.exists() else []
    for name in args.only:
        for method in METHODS:
            for seed in args.seeds:
                row = fitted(method, name, args.data, args.epochs, seed, args.compute)
                row |= {
                    "command": " ".join(["python -m benchmarks.out_of_distribution", *words]),
                    "device": str(getattr(jax.devices()[0], "device_kind", jax.devices()[0])),
                    "versions": {"python": platform.python_version(), "jax": jax.__version__},
                }
                key = ("learned", "method", "seed", "epochs")
                file = [r for r in file if any(r[k] != row[k] for k in key)] + [row]
                print(json.dumps(row), flush=True)
                args.out.write_text(json.dumps(file, indent=1) + "\n")


if __name__ == "__main__":
    main()
