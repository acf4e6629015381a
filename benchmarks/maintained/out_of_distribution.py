"""Does a network know what it has not learned? The AUROC of telling foreign images from its own.

    python -m benchmarks out_of_distribution --data FOLDER [--only fashion_mnist]

A network is fitted to one data set, by Adam (its last iterate) and by SGNHT and TACT-HMC (one draw
an epoch after the burn-in, averaged), and asked about test images of its own kind and of another:
Fashion-MNIST against emnist47 and back (the MLP), CIFAR-10 against itself corrupted (the CNN).
Step sizes and noise are those of the paper's 7-tuples for these networks; thermostats are this
library's. TACT-HMC's ξ rests for the burn-in and then goes to T = 2 and back every 12 epochs, with
rests of three quarters of that.
"""

import json
import time
from argparse import ArgumentParser, Namespace
from typing import Any, get_args

import jax
import numpy as np

import tacthmc
from benchmarks.images import add_data, loaded, prediction_of, scores_of
from benchmarks.record import Rows, about, add_again
from tacthmc import predict
from tacthmc.dynamics import ScheduledTempering, ShapedCoupling
from tacthmc.paper import data
from tacthmc.paper import networks as models
from tacthmc.paper.data.corruption import Kind
from tacthmc.paper.networks.model import Model
from tacthmc.paper.tasks import TASKS
from tacthmc.paper.tasks.ready import DECAY, RATE
from tacthmc.samplers import adam

MAX_HELD_OUT = 5_000
"""Test images of a kind, at most."""
SEVERITY = 5
HOTTEST = 2.0
PERIOD_EPOCHS, WINDOW_EPOCHS = 12, 2
"""Of the schedule, and of the test that waits until θ has cooled."""
NAMES = ("fashion_mnist", "emnist47", "cifar10")
METHODS = ("adam", "sgnht", "tact")
SAME = ("learnt", "method", "seed", "epochs")
QUICK = {"epochs": 10, "only": ["fashion_mnist"]}


def asked(name: str, args: Namespace) -> tuple[data.ImageSet, str, dict[str, np.ndarray]]:
    """A data set, the task whose network learns it, and test images of its own kind and others."""
    own = loaded(name, args)
    some = own.test_images[:MAX_HELD_OUT]
    if name == "cifar10":
        kinds = {kind: data.corrupted(some, kind, SEVERITY) for kind in get_args(Kind)}
        return own, "cnn", {"own": some, **kinds}
    other = "emnist47" if name == "fashion_mnist" else "fashion_mnist"
    return own, "mlp", {"own": some, other: loaded(other, args).test_images[:MAX_HELD_OUT]}


def sampler(method: str, task: str, own: data.ImageSet, burn_in: int) -> tuple[Any, int | None]:
    """The method with the paper's numbers, and the window of the relaxation test."""
    chosen, num_data = TASKS[task], own.num_train
    epoch = num_data // chosen.batch_size
    if method == "adam":
        return adam(RATE, num_data=num_data), None
    eta, noise = chosen.hyperparameters[0] / num_data, chosen.hyperparameters[2]
    if method == "sgnht":
        return tacthmc.sgnht(eta, noise=noise), None
    schedule = ScheduledTempering(
        PERIOD_EPOCHS * epoch,
        rest=0.75,
        start=burn_in * epoch,
        coupling=ShapedCoupling([1.0, HOTTEST], [1.0, 1.0]),
    )
    # The test's windows have blocks of at least two steps.
    return tacthmc.tact(eta, noise=noise, tempering=schedule), max(16, WINDOW_EPOCHS * epoch)


def fitted(method: str, name: str, seed: int, args: Namespace) -> dict[str, Any]:
    """Fit, predict, and tell kinds apart."""
    begun, epochs = time.perf_counter(), args.epochs
    own, task, images = asked(name, args)
    batch = TASKS[task].batch_size
    epoch, burn_in = own.num_train // batch, 3 * epochs // 10
    model: Model = (
        models.cnn(compute=args.compute)
        if task == "cnn"
        else models.mlp(784, 100, len(own.classes), compute=args.compute)
    )
    potential: Any = tacthmc.posterior(
        models.gaussian_prior(precision=2 * DECAY * own.num_train),
        models.categorical(model),
        data.shaped(own, model).train,
        batch,
        batched=True,
    )
    live = {kind: predict.Predictive(model, some) for kind, some in images.items()}
    chosen, window = sampler(method, task, own, burn_in)
    after = (epochs - 1 if method == "adam" else burn_in) * epoch
    run = tacthmc.sample(
        jax.random.key(seed),
        chosen,
        tacthmc.temper_likelihood(potential) if method == "tact" else potential,
        model.init(jax.random.key(100 + seed)),
        epochs * epoch,
        keep=tacthmc.Keep(every=epoch, after=after, relaxation_window=window, forget=True),
        callbacks=list(live.values()),
    )
    row: dict[str, Any] = {"network": task, "seconds": round(time.perf_counter() - begun, 1)}
    row |= {"round_trips": int(run.round_trips[0])} if method == "tact" else {}
    found = {kind: prediction_of(one) for kind, one in live.items()}
    row |= scores_of(found["own"], own.test_labels[:MAX_HELD_OUT])
    return row | {"auroc": _told_apart(found, by_draws=method != "adam")}


def _told_apart(found: dict[str, Any], by_draws: bool) -> dict[str, dict[str, float]]:
    """The AUROC of each foreign kind, by entropy and by how much draws disagree."""
    ways = ("entropy", "mutual information") if by_draws else ("entropy",)
    own = found["own"]
    return {
        kind: {by: predict.out_of_distribution(own, one, by) for by in ways}
        for kind, one in found.items()
        if kind != "own" and own is not None
    }


def arguments(parser: ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--compute", default="float32", help="the precision of products")
    add_again(parser)


def main(args: Namespace) -> None:
    rows = Rows(args.out, about(args), SAME, again=args.again)
    for name in args.only:
        for method in METHODS:
            for seed in args.seeds:
                row = {"learnt": name, "method": method, "seed": seed, "epochs": args.epochs}
                if rows.has(row):
                    continue
                rows.add(row | fitted(method, name, seed, args))
                print(json.dumps(rows.rows[-1]), flush=True)
