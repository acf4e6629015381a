"""A data set of images with labels, for training and test."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Integer, Num


@dataclass(frozen=True)
class ImageSet:
    """Images and labels for training and for test.

    >>> import numpy as np
    >>> images, labels = np.zeros((6, 28, 28), np.uint8), np.zeros(6, np.uint8)
    >>> data = ImageSet("blank", images[:4], labels[:4], images[4:], labels[4:], ("a", "b"), "here")
    >>> data
    ImageSet('blank', 4 + 2 images of 28×28, uint8, 2 classes, here)
    >>> data.num_train, data.train[1].tolist()
    (4, [0, 0, 0, 0])
    """

    name: str
    train_images: Num[np.ndarray, "n ..."] = field(repr=False)
    """Images [n, height, width] or [n, height, width, color], at first uint8 of 0 to 255."""
    train_labels: Integer[np.ndarray, " n"] = field(repr=False)
    test_images: Num[np.ndarray, "m ..."] = field(repr=False)
    test_labels: Integer[np.ndarray, " m"] = field(repr=False)
    classes: tuple[str, ...]
    """The names of the classes, by label."""
    source: str
    """The origin of the data."""

    @property
    def train(self) -> tuple[np.ndarray, np.ndarray]:
        """(images, labels) for training, in the form of data for :func:`tacthmc.posterior`."""
        return self.train_images, self.train_labels

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        """(images, labels) for test."""
        return self.test_images, self.test_labels

    @property
    def num_train(self) -> int:
        """The number of training images, N."""
        return len(self.train_labels)

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.train_images.shape[1:]))
        return (
            f"ImageSet({self.name!r}, {self.num_train} + {len(self.test_labels)} images of {shape},"
            f" {self.train_images.dtype}, {self.num_classes} classes, {self.source})"
        )
