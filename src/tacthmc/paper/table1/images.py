"""The images of a task."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tacthmc.paper.data.errors import DataError
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.data.loading import load
from tacthmc.paper.data.validation import validation_split
from tacthmc.paper.tasks import TASKS

QUICK_TRAIN, QUICK_TEST = 2_000, 1_000


def images(task: str, folder: Path | None, quick: bool, validation: bool = False) -> ImageSet:
    """A task's images: the paper's data set, or the one that stands in for it.

    Args:
        task: the task.
        folder: where data sets are; ``TACTHMC_DATA`` by default, else the user's cache.
        quick: whether a few of the images are enough.
        validation: whether a tenth of the training images takes the place of the test images.
    """
    names, missing = TASKS[task].data, None
    for name in names:
        try:
            found = load(name, folder=folder, download=False)
        except DataError as error:
            missing = missing or error
            continue
        found = validation_split(found) if validation else found
        return subset(found, QUICK_TRAIN, QUICK_TEST) if quick else found
    assert missing is not None
    raise missing


def subset(data: ImageSet, train: int, test: int) -> ImageSet:
    """A part of the images, drawn at random; it is always the same part.

    >>> labels = np.arange(6, dtype=np.uint8)
    >>> data = ImageSet("x", np.zeros((6, 2, 2), np.uint8), labels, np.zeros((6, 2, 2), np.uint8),
    ...                 labels, tuple("abcdef"), "here")
    >>> subset(data, 4, 2)
    ImageSet('x, 4 + 2 images', 4 + 2 images of 2×2, uint8, 6 classes, here)
    """
    rng = np.random.default_rng(0)
    some = rng.permutation(len(data.train_labels))[:train]
    others = rng.permutation(len(data.test_labels))[:test]
    return replace(
        data,
        name=f"{data.name}, {len(some)} + {len(others)} images",
        train_images=data.train_images[some],
        train_labels=data.train_labels[some],
        test_images=data.test_images[others],
        test_labels=data.test_labels[others],
    )
