"""Settings are chosen on a part of the training data, never on the test data."""

from dataclasses import replace

import numpy as np

from tacthmc import _checks as checks
from tacthmc.paper.data.image_set import ImageSet

VALIDATION = "-validation"
"""Ends the name of a data set that was split."""


def validation_split(data: ImageSet, size: int | float = 0.1, *, seed: int = 0) -> ImageSet:
    """The same training data in two parts, the second in the place of the test data.

    What is tuned with the result never sees a test image. Every class is held out in the same
    share, up to rounding; which images are is a function of the seed alone.

    Args:
        data: a data set.
        size: how many images to hold out, or which share of them.
        seed: of the choice.

    >>> import numpy as np
    >>> images, labels = np.zeros((10, 2, 2), np.uint8), np.arange(10, dtype=np.uint8) % 2
    >>> data = ImageSet("blank", images, labels, images, labels, ("a", "b"), "here")
    >>> held = validation_split(data, 0.4)
    >>> held.num_train, held.test_labels.tolist(), held.name
    (6, [1, 0, 1, 0], 'blank-validation')
    """
    total = data.num_train
    if isinstance(size, float):
        checks.within("size", size, 0.0, 1.0)
        size = round(size * total)
    checks.whole("size", size, 1)
    checks.whole("seed", seed, 0)
    if size >= total:
        raise ValueError(f"size is {size}, and there are only {total} training images to divide")
    # A generator's raw bits are the same in every version of NumPy; its permutations need not be.
    order = np.argsort(np.random.PCG64(seed).random_raw(total), kind="stable")
    place = np.empty(total)
    for label in np.unique(data.train_labels):
        members = order[data.train_labels[order] == label]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    # By place within its class, equals in their random order: each class gives the same share.
    chosen = order[np.argsort(place[order], kind="stable")[:size]]
    held = np.zeros(total, bool)
    held[chosen] = True
    return replace(
        data,
        name=f"{data.name}{VALIDATION}",
        train_images=data.train_images[~held],
        train_labels=data.train_labels[~held],
        test_images=data.train_images[held],
        test_labels=data.train_labels[held],
    )
