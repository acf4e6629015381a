"""Readers of the official archives."""

import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacthmc.paper.data.errors import MAX_UNPACKED_BYTES, DataError
from tacthmc.paper.data.idx import read_idx
from tacthmc.paper.data.pickles import read_arrays

KEYS = ("x_train", "y_train", "x_test", "y_test")
"""The names of the four arrays of a data set, also in a .npz file."""


def fashion_mnist(folder: Path) -> Mapping[str, np.ndarray]:
    """Read four gzipped idx files."""
    parts = {"train": "train", "test": "t10k"}
    found = {}
    for part, stem in parts.items():
        for key, file in (("x", "images-idx3"), ("y", "labels-idx1")):
            path = folder / f"{stem}-{file}-ubyte.gz"
            found[f"{key}_{part}"] = read_idx(path.read_bytes(), str(path))
    return found


def emnist_balanced(folder: Path) -> Mapping[str, np.ndarray]:
    """Read the zip of the idx files of EMNIST, and transpose the images to be upright."""
    path = folder / "gzip.zip"
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for part in ("train", "test"):
                for key, file in (("x", "images-idx3"), ("y", "labels-idx1")):
                    member = f"gzip/emnist-balanced-{part}-{file}-ubyte.gz"
                    packed = _member(archive, member, path)
                    found[f"{key}_{part}"] = read_idx(packed, f"{member} in {path}")
    except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{path} is not EMNIST's zip of idx files: {error}") from error
    for key in ("x_train", "x_test"):
        found[key] = np.ascontiguousarray(np.swapaxes(found[key], 1, 2))
    return found


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> bytes:
    """A member of a zip, after its size."""
    size = archive.getinfo(name).file_size
    _check_size(size, name, path)
    with archive.open(name) as file:
        return file.read(size)


def _check_size(size: int, name: str, path: Path) -> None:
    if size > MAX_UNPACKED_BYTES:
        raise DataError(
            f"{name} in {path} would take {size:,} bytes, and no data set has more than"
            f" {MAX_UNPACKED_BYTES:,}: not read"
        )


def cifar10(folder: Path) -> Mapping[str, np.ndarray]:
    """Read six pickles in a tar.gz, with the planes of color one after the other."""
    path = folder / "cifar-10-python.tar.gz"
    try:
        with tarfile.open(path) as archive:
            batches = [f"data_batch_{i}" for i in range(1, 6)]
            train = [_cifar_batch(archive, batch, path) for batch in batches]
            test = _cifar_batch(archive, "test_batch", path)
    except (tarfile.TarError, EOFError, KeyError, zlib.error) as error:
        raise DataError(f"{path} is not CIFAR-10's archive for Python: {error}") from error
    return {
        "x_train": np.concatenate([images for images, _ in train]),
        "y_train": np.concatenate([labels for _, labels in train]),
        "x_test": test[0],
        "y_test": test[1],
    }


def _tar_member(archive: tarfile.TarFile, name: str, path: Path) -> tarfile.TarInfo:
    """A member of a tar, found without unpacking more than a data set has."""
    total = 0
    for member in archive:
        # A member is unpacked when the next one is looked for.
        total += member.size
        _check_size(total, member.name, path)
        if member.name == name:
            return member
    raise KeyError(f"there is no {name}")


def _cifar_batch(archive: tarfile.TarFile, batch: str, path: Path) -> tuple[Any, Any]:
    name = f"cifar-10-batches-py/{batch}"
    member = _tar_member(archive, name, path)
    opened = archive.extractfile(member) if member.isfile() else None
    if opened is None:
        raise DataError(f"{name} in {path} is not a file")
    content = read_arrays(opened.read(member.size), f"{name} in {path}")
    try:
        rows, labels = content[b"data"], np.asarray(content[b"labels"])
        if rows.dtype != np.uint8 or not np.issubdtype(labels.dtype, np.integer):
            raise TypeError(f"images of {rows.dtype}, labels of {labels.dtype}")
        images = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{name} in {path} is not a batch of CIFAR-10: {error}") from error
    return np.ascontiguousarray(images), labels.astype(np.uint8)
