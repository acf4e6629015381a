"""The known data sets, with their sources and checksums."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacthmc.paper import checks
from tacthmc.paper.data import official


@dataclass(frozen=True)
class Archive:
    """An official file, with the checksum of its publishers or of common tools."""

    file: str
    address: str
    md5: str


@dataclass(frozen=True)
class Entry:
    """A data set."""

    title: str
    classes: tuple[str, ...]
    image: tuple[int, ...]
    num_train: int
    num_test: int
    archives: tuple[Archive, ...] = ()
    read: Callable[[Path], Mapping[str, np.ndarray]] | None = None
    """Reads the arrays from a folder with the archives."""
    equal_classes: bool = True
    """Whether all classes have equally many training images. (They have equally many test
    images.)"""


_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt")

ENTRIES: dict[str, Entry] = {
    "cifar10": Entry(
        title="CIFAR-10",
        classes=(
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ),
        image=(32, 32, 3),
        num_train=50_000,
        num_test=10_000,
        archives=(
            Archive(
                "cifar-10-python.tar.gz",
                "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                "c58f30108f718f92721af3b95e74349a",
            ),
        ),
        read=official.cifar10,
    ),
    "fashion_mnist": Entry(
        title="Fashion-MNIST",
        classes=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
        image=(28, 28),
        num_train=60_000,
        num_test=10_000,
        archives=tuple(
            Archive(file, f"{_FASHION}/{file}", md5)
            for file, md5 in (
                ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
                ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
                ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
            )
        ),
        read=official.fashion_mnist,
    ),
    "emnist_balanced": Entry(
        title="EMNIST Balanced",
        classes=_CHARACTERS,
        image=(28, 28),
        num_train=112_800,
        num_test=18_800,
        archives=(
            Archive(
                "gzip.zip",
                "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                "58c8d27c78d21e728a6bc7b3cc06412e",
            ),
        ),
        read=official.emnist_balanced,
    ),
    # It has images of EMNIST and the classes of EMNIST Balanced, but a different split: some of its
    # training images are test images there. Therefore it has a separate name everywhere.
    "emnist47": Entry(
        title="emnist47 (EMNIST images in 47 classes; not the split of EMNIST Balanced)",
        classes=_CHARACTERS,
        image=(28, 28),
        num_train=92_474,
        num_test=18_800,
        equal_classes=False,
    ),
}


def entry(name: str) -> Entry:
    """A data set by name.

    >>> entry("cifar10").num_train
    50000
    >>> entry("cifar-10")
    Traceback (most recent call last):
    ...
    ValueError: name must be one of cifar10, fashion_mnist, emnist_balanced, emnist47; got \
'cifar-10' (cifar10?)
    """
    checks.one_of("name", name, ENTRIES)
    return ENTRIES[name]
