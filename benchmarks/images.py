"""Image sets for benchmarks of networks: from a folder, or random ones for a quick look."""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tacthmc
from benchmarks.record import RecordError
from tacthmc import predict
from tacthmc.paper import data
from tacthmc.paper import networks as models
from tacthmc.paper.data.catalog import entry

DECAY = 1e-3
"""The loss is the mean cross-entropy + 1e-3·Σθ², as the paper's authors have it."""
STAND_IN = (640, 100)
"""Random images to learn from, and to be judged by."""


def add_data(parser: ArgumentParser) -> None:
    """The option that says where data sets are."""
    parser.add_argument(
        "--data", type=Path, help="the folder of the data sets; --quick can do without"
    )


def loaded(name: str, args: Namespace) -> data.ImageSet:
    """A data set of the folder; random images of its shape where a quick look names none."""
    if args.data is not None:
        return data.load(name, folder=args.data, download=False)
    if not args.quick:
        raise RecordError("--data must name the folder of the data sets, unless it is --quick")
    # Other images for each data set.
    known, rng = entry(name), np.random.default_rng(list(name.encode()))

    def some(count: int) -> tuple[np.ndarray, np.ndarray]:
        images = rng.integers(0, 256, (count, *known.image), dtype=np.uint8)
        return images, rng.integers(0, len(known.classes), count).astype(np.uint8)

    train, test = (some(count) for count in STAND_IN)
    return data.ImageSet(name, *train, *test, classes=known.classes, source="random numbers")


def write_stand_in(name: str, folder: Path) -> Path:
    """Write a data set of the right size with random images, for programs that read a folder."""
    known, rng = entry(name), np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", known.num_train), ("test", known.num_test)):
        arrays[f"x_{part}"] = rng.integers(0, 256, (count, *known.image), dtype=np.uint8)
        arrays[f"y_{part}"] = np.arange(count, dtype=np.uint32) % len(known.classes)
    path = folder / f"{name}.npz"
    np.savez(path, **{key: array.astype(np.uint8) for key, array in arrays.items()})
    return path


def limited(found: data.ImageSet, count: int | None) -> data.ImageSet:
    """The first images of each part, for a trial."""
    return replace(
        found,
        train_images=found.train_images[:count],
        train_labels=found.train_labels[:count],
        test_images=found.test_images[:count],
        test_labels=found.test_labels[:count],
    )


def posterior(model: Any, train: Any, batch_size: int) -> Any:
    """A network's posterior on images and labels, with the prior that the decay stands for."""
    return tacthmc.posterior(
        models.gaussian_prior(precision=2 * DECAY * len(train[1])),
        models.categorical(model),
        train,
        batch_size,
        batched=True,
    )


def prediction_of(live: predict.Predictive) -> predict.Prediction | None:
    """The prediction of all draws so far; None where a short run has kept none."""
    try:
        return live.prediction
    except ValueError:
        return None


def scores_of(prediction: predict.Prediction | None, labels: np.ndarray) -> dict[str, float]:
    """The number of draws, and the scores if there are any."""
    if prediction is None:
        return {"draws": 0.0}
    scores = prediction.scores(labels)._asdict()
    return {"draws": float(prediction.weight)} | {k: float(v) for k, v in scores.items()}
