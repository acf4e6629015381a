"""Pickles of arrays and plain containers, read without running what else a pickle may hold.

A pickle is a program: it may import any function and call it. Here it may name five things,
all that NumPy's arrays of numbers are made with, and any other name ends the reading.
"""

import io
import pickle
from typing import Any

import numpy as np
from numpy._core.multiarray import _reconstruct  # pyright: ignore[reportAttributeAccessIssue]

from tacthmc.paper.data.errors import DataError


def _latin(text: str, encoding: str) -> bytes:
    """Bytes as Python 3 writes them for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


_ALLOWED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("_codecs", "encode"): _latin,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """One of the few, or a refusal."""
        if (module_name, global_name) not in _ALLOWED:
            raise DataError(
                f"it wants {module_name}.{global_name}, and a data set is arrays and plain"
                " containers only: not read"
            )
        return _ALLOWED[module_name, global_name]


def read_arrays(content: bytes, name: str) -> Any:
    """What a pickle of arrays holds, its texts as bytes; ``name`` is for complaints.

    >>> import pickle, numpy as np
    >>> read_arrays(pickle.dumps({b"data": np.arange(3)}), "example")
    {b'data': array([0, 1, 2])}
    >>> read_arrays(pickle.dumps(print), "example")
    Traceback (most recent call last):
    ...
    tacthmc.paper.data.errors.DataError: example: it wants builtins.print, and a data set is arrays and \
plain containers only: not read
    """
    try:
        return _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    except Exception as error:
        # What a damaged pickle raises depends on where it is damaged.
        raise DataError(f"{name} is not a whole pickle of arrays: {error}") from error
