"""Safe reading of pickles of arrays and plain containers.

A pickle is a program, which may import any function and call it. Here it may use five names, those
for NumPy arrays of numbers. Any other name is an error.
"""

import io
import pickle
from typing import Any

import numpy as np
from numpy._core.multiarray import _reconstruct  # pyright: ignore[reportAttributeAccessIssue]

from tacthmc.paper.data.errors import DataError


def _latin(text: str, encoding: str) -> bytes:
    """Bytes in the form that Python 3 writes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


class _Array:
    """The name of the type of arrays. It makes none, so a pickle cannot ask for a huge one."""


def _empty(kind: Any, shape: Any, code: Any) -> Any:
    """The empty array with which NumPy begins; its content comes with its shape."""
    if kind is not _Array or shape != (0,):
        raise pickle.UnpicklingError(f"an array of shape {shape!r} without its content")
    return _reconstruct(np.ndarray, shape, code)


_ALLOWED = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _empty,
    ("numpy._core.multiarray", "_reconstruct"): _empty,
    ("_codecs", "encode"): _latin,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """The object of an allowed name, or an error."""
        if (module_name, global_name) not in _ALLOWED:
            raise DataError(
                f"it uses {module_name}.{global_name}, and a data set has arrays and plain"
                " containers only: not read"
            )
        return _ALLOWED[module_name, global_name]


def read_arrays(content: bytes, name: str) -> Any:
    """The content of a pickle of arrays, with texts as bytes; ``name`` is for error messages.

    >>> import pickle, numpy as np
    >>> read_arrays(pickle.dumps({b"data": np.arange(3)}), "example")
    {b'data': array([0, 1, 2])}
    >>> read_arrays(pickle.dumps(print), "example")
    Traceback (most recent call last):
    ...
    tacthmc.paper.data.errors.DataError: example: it uses builtins.print, and a data set has \
arrays and plain containers only: not read
    """
    try:
        return _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    except Exception as error:
        # A damaged pickle may raise any error.
        raise DataError(f"{name} is not a whole pickle of arrays: {error}") from error
