"""Reading ``.npz`` files that anybody may have made: no objects, and no more than is expected.

An ``.npz`` file is a zip of arrays. A few megabytes of zip can hold gigabytes of zeros, and NumPy
makes them before anyone sees their shape. Here all shapes are read first.
"""

import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SUFFIX = ".npy"
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The ways to pack that NumPy uses. Others unpack without a bound."""
MAX_MEMBERS = 1_000
_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class NpzError(ValueError):
    """An error that a file is not an ``.npz`` file of plain arrays, or holds too much.

    >>> issubclass(NpzError, ValueError)
    True
    """


class Header(NamedTuple):
    """What a packed array says of itself."""

    shape: tuple[int, ...]
    is_fortran: bool
    """Whether the first axis varies fastest."""
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """The size of the array in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def npz_headers(path: str | Path) -> dict[str, Header]:
    """The shapes and types of the arrays in a file, without reading the arrays.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez(file, x=np.zeros((2, 3)))
    >>> npz_headers(file)["x"].shape
    (2, 3)
    """
    found = {}
    with _opened(path) as archive:
        for name in _names(archive):
            with archive.open(name + SUFFIX) as stream:
                found[name] = _header(stream, name)
    return found


def read_npz(
    path: str | Path, most_bytes: int, names: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """The arrays of a file, all or some by name; an NpzError if they would take too much memory.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez_compressed(file, x=np.zeros(1_000_000))
    >>> file.stat().st_size < 10_000
    True
    >>> read_npz(file, 1_000)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tacthmc.dynamics._npz.NpzError: ...a.npz holds 8,000,000 bytes of arrays; expected at most 1,000
    """
    headers = npz_headers(path)
    chosen = list(headers) if names is None else list(names)
    total = sum(headers[name].nbytes for name in chosen)
    if total > most_bytes:
        raise NpzError(f"{path} holds {total:,} bytes of arrays; expected at most {most_bytes:,}")
    found = {}
    with _opened(path) as archive:
        for name in chosen:
            with archive.open(name + SUFFIX) as stream:
                found[name] = _array(stream, name)
    return found


@contextmanager
def _opened(path: str | Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except NpzError as error:
        raise NpzError(f"{path}: {error}") from error
    except (ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise NpzError(f"{path} is not an .npz file of plain arrays: {error}") from error
    except (zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise NpzError(f"{path} is not an .npz file of plain arrays: {error}") from error


def _names(archive: zipfile.ZipFile) -> list[str]:
    """The names of the arrays."""
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise NpzError(f"it has {len(members):,} members; expected at most {MAX_MEMBERS:,}")
    for member in members:
        if member.compress_type not in METHODS:
            raise NpzError(f"{member.filename!r} is packed in a way that NumPy does not use")
    names = [member.filename for member in members if member.filename.endswith(SUFFIX)]
    return [name.removesuffix(SUFFIX) for name in names]


def _header(stream: Any, name: str) -> Header:
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise NpzError(f"{name} has the format {version}, which plain arrays do not need")
    header = Header(*_READERS[version](stream))
    if header.dtype.hasobject:
        raise NpzError(f"{name} is an array of objects, which would run code when it is read")
    return header


def _array(stream: Any, name: str) -> np.ndarray:
    header = _header(stream, name)
    content = stream.read(header.nbytes)
    if len(content) != header.nbytes or stream.read(1):
        raise NpzError(f"{name} says that it has {header.nbytes:,} bytes, and has other ones")
    array = np.frombuffer(bytearray(content), header.dtype)
    return array.reshape(header.shape, order="F" if header.is_fortran else "C")
