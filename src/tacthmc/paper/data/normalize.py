"""Normalization of images to mean zero and standard deviation one."""

from dataclasses import replace
from typing import Literal

import numpy as np

from tacthmc.paper.data.image_set import ImageSet

AUTHORS = (0.1307, 0.3081)
"""The mean and standard deviation of MNIST, which the authors' code uses for every data set."""


def normalized(data: ImageSet, how: Literal["train", "authors"] = "train") -> ImageSet:
    r"""The data with float32 images, (x/255 − mean)/sd, for training and test.

    Args:
        data: a data set of uint8 images.
        how: "train" uses the mean and standard deviation of each channel over the training images;
            "authors" uses those of MNIST (0.1307, 0.3081), as the authors' code does.

    Models divide uint8 images by 255 themselves, so images that are not normalized can stay uint8.

    >>> import numpy as np
    >>> images, labels = np.array([[[0, 255]]], np.uint8), np.zeros(1, np.uint8)
    >>> data = ImageSet("two", images, labels, images, labels, ("a",), "here")
    >>> normalized(data).test_images.tolist()
    [[[-1.0, 1.0]]]
    >>> [round(float(x), 4) for x in normalized(data, "authors").test_images.ravel()]
    [-0.4242, 2.8215]
    """
    if how not in ("train", "authors"):
        raise ValueError(f"how must be 'train' or 'authors'; got {how!r}")
    images = data.train_images
    if images.dtype != np.uint8:
        raise TypeError(f"data must have uint8 images of 0 to 255; got {images.dtype}")
    if how == "authors":
        mean, sd = (np.float32(number) for number in AUTHORS)
    else:
        # Per channel, if there is an axis of color.
        axes = (0, 1, 2)
        mean = (images.mean(axis=axes) / 255).astype(np.float32)
        sd = (images.std(axis=axes) / 255).astype(np.float32)
        if not np.all(sd > 0):
            raise ValueError("data has a channel that is constant over all training images")

    def scaled(images: np.ndarray) -> np.ndarray:
        return (images.astype(np.float32) / np.float32(255) - mean) / sd

    return replace(
        data,
        train_images=scaled(images),
        test_images=scaled(data.test_images),
        source=f"{data.source}, normalized ({how})",
    )
