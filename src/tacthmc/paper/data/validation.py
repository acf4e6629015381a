"""A validation split, for choosing settings without the test data."""

from dataclasses import replace

import numpy as np

from tacthmc.paper import checks
from tacthmc.paper.data.image_set import ImageSet

VALIDATION = "-validation"
"""The suffix of the name of a split data set."""


def validation_split(data: ImageSet, size: int | float = 0.1, *, seed: int = 0) -> ImageSet:
    """The training data in two parts, where the second replaces the test data.

    Tuning with the result never uses a test image. The same share of every class is held out, up to
    rounding. The choice of images depends on the seed alone.

    Args:
        data: a data set.
        size: the number of images to hold out, or their share.
        seed: the seed of the choice.

    >>> import numpy as np
    >>> images, labels = np.zeros((10, 2, 2), np.uint8), np.arange(10, dtype=np.uint8) % 2
    >>> data = ImageSet("blank", images, labels, images, labels, ("a", "b"), "here")
    >>> held = validation_split(data, 0.4)
    >>> held.num_train, held.test_labels.tolist(), held.name
    (6, [1, 0, 1, 0], 'blank-validation')
    """
    total = data.num_train
    if isinstance(size, float):
        checks.fraction("size", size)
        size = round(size * total)
    checks.whole("size", size, 1)
    checks.whole("seed", seed, 0)
    if size >= total:
        raise ValueError(f"size is {size}, and there are only {total} training images to divide")
    # Raw bits are the same in every version of NumPy, while permutations may change.
    order = np.argsort(np.random.PCG64(seed).random_raw(total), kind="stable")
    place = np.empty(total)
    for label in np.unique(data.train_labels):
        members = order[data.train_labels[order] == label]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    # Sorted by place within the class, so that each class gives the same share.
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
