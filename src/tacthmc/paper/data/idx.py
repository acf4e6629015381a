"""The idx format of MNIST and similar data sets: a header with the shape, then bytes, gzipped."""

import gzip
import io
import math
import struct
import zlib

import numpy as np

from tacthmc.paper.data.errors import MAX_UNPACKED_BYTES, DataError

_BYTES = 0x08


def read_idx(packed: bytes, name: str) -> np.ndarray:
    """The array in the bytes of a gzipped idx file; ``name`` is for error messages.

    >>> import gzip
    >>> header = bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3])
    >>> read_idx(gzip.compress(header + bytes([7, 8, 9])), "example").tolist()
    [[7, 8, 9]]
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            # One byte more than a data set has: a small file can hold far more.
            content = file.read(MAX_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name} is not a gzipped file, or only a part of one: {error}") from error
    if len(content) > MAX_UNPACKED_BYTES:
        raise DataError(
            f"{name} unpacks to more than {MAX_UNPACKED_BYTES:,} bytes, which no data set has: not"
            " read"
        )
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _BYTES:
        raise DataError(
            f"{name} is not an idx file of bytes: expected it to begin with 0, 0, 8; got"
            f" {list(content[:3])}"
        )
    rank = content[3]
    begin = 4 + 4 * rank
    if len(content) < begin:
        raise DataError(f"{name} ends within its header")
    shape = struct.unpack(f">{rank}I", content[4:begin])
    if len(content) - begin != math.prod(shape):
        raise DataError(
            f"{name} says that its shape is {shape}, but it holds {len(content) - begin} bytes"
        )
    return np.frombuffer(content, np.uint8, offset=begin).reshape(shape)
