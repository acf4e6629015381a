"""``load``: a data set by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacthmc.dynamics import NpzError, npz_headers, read_npz
from tacthmc.paper.data.catalog import Entry, entry
from tacthmc.paper.data.download import fetch
from tacthmc.paper.data.errors import DataError
from tacthmc.paper.data.folder import (
    archive_path,
    check_archive,
    data_folder,
    npz_path,
    where_to_put,
)
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.data.official import KEYS


def load(name: str, *, folder: str | Path | None = None, download: bool = True) -> ImageSet:
    """A data set of the paper ("cifar10", "fashion_mnist", "emnist_balanced"), or "emnist47".

    The folder may have it as ``NAME.npz`` (uint8 arrays x_train, y_train, x_test, y_test) or as the
    official archives in ``NAME/``. Otherwise the archives are downloaded to there. Archives are
    read only if their checksums are right, and shapes, labels and sizes are always checked.

    "emnist47" has images of EMNIST and the 47 classes of EMNIST Balanced, but a different split:
    some training images of one are test images of the other. Results on one do not hold for the
    other, and must not be reported under its name. "emnist47" has no download.

    Args:
        name: the data set.
        folder: the folder of data sets; by default ``TACTHMC_DATA`` or a folder in the user's
            cache.
        download: whether to download missing archives.

    >>> import tempfile, numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> load("fashion_mnist", folder=folder, download=False)    # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tacthmc.paper.data.errors.DataError: Fashion-MNIST is not in ...: put it into ...
    """
    known, place = entry(name), data_folder(folder)
    path = npz_path(name, place)
    if path.exists():
        return _checked(name, known, _npz(path, name, known), str(path))
    if not known.archives or known.read is None:
        raise DataError(f"{name} is not in {place}: {where_to_put(name, known, place)}")
    there = all(archive_path(name, archive, place).exists() for archive in known.archives)
    if there:
        for archive in known.archives:
            check_archive(archive_path(name, archive, place), archive)
    elif download:
        fetch(name, known, place)
    else:
        raise DataError(f"{known.title} is not in {place}: {where_to_put(name, known, place)}")
    source = f"official archives in {place / name}, checksums right"
    return _checked(name, known, known.read(place / name), source)


def _npz(path: Path, name: str, known: Entry) -> Mapping[str, np.ndarray]:
    try:
        headers = npz_headers(path)
        missing = [key for key in KEYS if key not in headers]
        if missing:
            raise DataError(f"{path} has no {', '.join(missing)}; it has {sorted(headers)}")
        # Before the arrays are read, because a small file can hold huge ones.
        for key, shape in _shapes(known).items():
            _check_shape(key, shape, headers[key], name, str(path))
        return read_npz(path, sum(headers[key].nbytes for key in KEYS), KEYS)
    except NpzError as error:
        raise DataError(str(error)) from error


def _shapes(known: Entry) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of a data set."""
    found: dict[str, tuple[int, ...]] = {}
    for part, count in (("train", known.num_train), ("test", known.num_test)):
        found |= {f"x_{part}": (count, *known.image), f"y_{part}": (count,)}
    return found


def _check_shape(key: str, shape: tuple[int, ...], found: Any, name: str, source: str) -> None:
    if found.shape != shape or found.dtype != np.uint8:
        raise DataError(
            f"{key} of {name} must be uint8 of shape {shape}; {source} has {found.dtype} of shape"
            f" {found.shape}"
        )


def _checked(name: str, known: Entry, arrays: Mapping[str, Any], source: str) -> ImageSet:
    classes = len(known.classes)
    for key, shape in _shapes(known).items():
        _check_shape(key, shape, arrays[key], name, source)
    for part in ("train", "test"):
        images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
        counts = np.bincount(labels, minlength=classes)
        equal = part == "test" or known.equal_classes
        if len(counts) > classes or (equal and len(set(counts.tolist())) > 1) or not counts.all():
            raise DataError(
                f"y_{part} of {name} must have {classes} classes{' alike in size' * equal};"
                f" {source} has {counts.tolist()} examples of each"
            )
        # Read-only, because all users share the arrays.
        images.flags.writeable = labels.flags.writeable = False
    found = (arrays[key] for key in KEYS)
    return ImageSet(name, *found, classes=known.classes, source=source)
