"""Checksums of everything in the folder of a run, so that damage is found before it is used.

Three kinds of files need three kinds of checksums.

- A file of JSON that is replaced while a run goes on carries its checksum in itself, so the two
  cannot come apart when a process is killed (:func:`sealed`).
- A file that is written once has its size and checksum in the config (:class:`FileSum`).
- Chunks of arrays end with a checksum of their own, by the codec of Zarr.

A CRC-32 finds every burst of up to 32 wrong bits, and all but one in four billion other changes. It
protects from damage, not from somebody who changes a file on purpose.
"""

import json
import stat
import zlib
from pathlib import Path
from typing import Any, NamedTuple

CHECKSUM = "checksum"
"""The key under which JSON carries its own checksum."""
READ_BYTES = 1 << 22
"""How much of a file is in memory at a time."""


class ChecksumError(ValueError):
    """An error that content differs from its checksum."""


class FileSum(NamedTuple):
    """The size and checksum of a file."""

    size: int
    crc32: str

    @classmethod
    def of(cls, path: Path) -> "FileSum":
        """Those of a file, read in pieces.

        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "a"
        >>> _ = file.write_bytes(b"123456789")
        >>> FileSum.of(file)
        FileSum(size=9, crc32='cbf43926')
        """
        size = found = 0
        with path.open("rb") as file:
            while piece := file.read(READ_BYTES):
                size, found = size + len(piece), zlib.crc32(piece, found)
        return cls(size, f"{found:08x}")

    def check(self, path: Path) -> None:
        """Raise a ChecksumError if a file is missing or differs; links are not followed."""
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode):
                raise ChecksumError(f"{path} is not a file")
            # By its size first, so that no more is read than was written.
            if found.st_size != self.size:
                raise ChecksumError(
                    f"{path} is damaged: it has {found.st_size} bytes instead of {self.size}"
                )
            crc32 = FileSum.of(path).crc32
        except OSError as error:
            raise ChecksumError(f"{path} cannot be read: {error.strerror}") from error
        if crc32 != self.crc32:
            raise ChecksumError(f"{path} is damaged: its checksum differs")


def crc32(content: bytes) -> str:
    """The CRC-32 of bytes, in hexadecimal digits.

    >>> crc32(b"123456789")
    'cbf43926'
    """
    return f"{zlib.crc32(content):08x}"


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """JSON with its own checksum, under the key ``checksum``.

    >>> sealed({"steps": 3})
    {'steps': 3, 'checksum': '89de4c12'}
    """
    bare = {name: value for name, value in content.items() if name != CHECKSUM}
    return {**bare, CHECKSUM: digest(bare)}


def unsealed(content: Any) -> dict[str, Any]:
    """What :func:`sealed` sealed; raises a ChecksumError if anything of it differs.

    >>> unsealed(sealed({"steps": 3}))
    {'steps': 3}
    >>> unsealed(sealed({"steps": 3}) | {"steps": 4})
    Traceback (most recent call last):
    ...
    tacthmc.store._checksums.ChecksumError: its checksum differs
    """
    if not isinstance(content, dict) or CHECKSUM not in content:
        raise ChecksumError("it has no checksum")
    bare = {name: value for name, value in content.items() if name != CHECKSUM}
    if digest(bare) != content[CHECKSUM]:
        raise ChecksumError("its checksum differs")
    return bare


def digest(content: Any) -> str:
    """The checksum of JSON, which does not depend on the order of keys.

    >>> digest({"a": 1, "b": (2,)}) == digest({"b": [2], "a": 1})
    True
    """
    return crc32(_canonical(content))


def _canonical(content: Any) -> bytes:
    """The same bytes before JSON is written and after it is read: tuples are lists, keys texts."""
    plain = json.loads(json.dumps(content))
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
