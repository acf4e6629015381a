"""Images in the shape of a model."""

from dataclasses import replace
from math import prod

from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.networks.model import Model


def shaped(data: ImageSet, model: Model) -> ImageSet:
    """The data with each image in the shape of the model, checked to fit it.

    >>> import numpy as np
    >>> from tacthmc.paper.networks import mlp
    >>> images, labels = np.zeros((6, 28, 28), np.uint8), np.zeros(6, np.uint8)
    >>> data = ImageSet("blank", images, labels, images, labels, tuple("abc"), "here")
    >>> shaped(data, mlp(784, 100, 3)).train_images.shape
    (6, 784)
    >>> shaped(data, mlp(784, 100, 10))
    Traceback (most recent call last):
    ...
    ValueError: blank has 3 classes, and the mlp is made for 10
    """
    image = data.train_images.shape[1:]
    if prod(image) != prod(model.image) or (len(model.image) > 1 and image != model.image):
        raise ValueError(
            f"{data.name} has images of shape {image}, and the {model.name} takes {model.image}"
        )
    if data.num_classes != model.classes:
        raise ValueError(
            f"{data.name} has {data.num_classes} classes, and the {model.name} is made for"
            f" {model.classes}"
        )
    return replace(
        data,
        train_images=data.train_images.reshape(-1, *model.image),
        test_images=data.test_images.reshape(-1, *model.image),
    )
