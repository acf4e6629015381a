"""Parts of samplers and potentials as plain text."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np


def settings(value: Any) -> str:
    """A part of a sampler as plain text: its class with its numbers.

    >>> import tacthmc
    >>> settings(tacthmc.dynamics.PowerCoupling())
    'PowerCoupling(plateau=0.3333, unit=1, wall=1.667, power=3, even=True)'
    """
    if value is None or isinstance(value, (str, bool)):
        return str(value)
    if isinstance(value, (int, float, np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value)
        return f"{array.item():.4g}" if array.ndim == 0 else f"array of shape {array.shape}"
    fields = getattr(value, "__dataclass_fields__", None) or getattr(value, "_fields", None)
    if fields is not None:
        return _with_fields(value, fields)
    if callable(value):
        return f"the function {getattr(value, '__name__', type(value).__name__)}"
    if isinstance(value, (dict, list, tuple)):
        return f"a pytree of {len(jax.tree.leaves(value))} leaves"
    return type(value).__name__


def _with_fields(value: Any, fields: Iterable[str]) -> str:
    inner = ((name, getattr(value, name, None)) for name in fields)
    shown = ", ".join(f"{name}={settings(v)}" for name, v in inner if v is not None)
    return f"{type(value).__name__}({shown})"
