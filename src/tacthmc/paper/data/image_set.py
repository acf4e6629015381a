"""Images with labels, in two parts."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Integer, Num


@dataclass(frozen=True)
class ImageSet:
    """Images and labels to learn from, and others to be judged by.

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
    """uint8 of 0 to 255 as read, [n, height, width] or [n, height, width, color]."""
    train_labels: Integer[np.ndarray, " n"] = field(repr=False)
    test_images: Num[np.ndarray, "m ..."] = field(repr=False)
    test_labels: Integer[np.ndarray, " m"] = field(repr=False)
    classes: tuple[str, ...]
    """The classes' names, by label."""
    source: str
    """How it was read."""

    @property
    def train(self) -> tuple[np.ndarray, np.ndarray]:
        """(images, labels), as :func:`tacthmc.posterior` takes data."""
        return self.train_images, self.train_labels

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        """(images, labels)."""
        return self.test_images, self.test_labels

    @property
    def num_train(self) -> int:
        """N."""
        return len(self.train_labels)

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    def __repr__(self) -> str:
        """One line, without the images."""
        shape = "×".join(map(str, self.train_images.shape[1:]))
        return (
            f"ImageSet({self.name!r}, {self.num_train} + {len(self.test_labels)} images of {shape},"
            f" {self.train_images.dtype}, {self.num_classes} classes, {self.source})"
        )
