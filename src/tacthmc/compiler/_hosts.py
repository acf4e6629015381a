"""Communication between the processes of a run on several hosts."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

T = TypeVar("T")


class OtherProcessError(RuntimeError):
    """An error that is raised because another process of the run failed."""


def all_gather(values: Any) -> np.ndarray:
    """The values of every process, with a leading process axis."""
    values = np.asarray(values)
    if jax.process_count() == 1:
        return values[None]
    return np.asarray(multihost_utils.process_allgather(values))


def raise_together(action: Callable[[], T]) -> T:
    """Run an action that may fail in one process. If it does, all processes raise an error.

    Otherwise the remaining processes would wait for the failed one forever.
    """
    error = result = None
    try:
        result = action()
    except Exception as raised:
        error = raised
    failed = np.flatnonzero(all_gather(error is not None))
    if error is not None:
        raise error
    if failed.size:
        raise OtherProcessError(f"process {failed[0]} of the run failed; its message says why")
    return result  # pyright: ignore[reportReturnType]


def all_gather_json(value: Any) -> list[Any]:
    """The JSON values of all processes."""
    text = json.dumps(value).encode()
    size = int(all_gather(len(text)).max())
    rows = all_gather(np.frombuffer(text.ljust(size), np.uint8))
    return [json.loads(bytes(row)) for row in rows]
