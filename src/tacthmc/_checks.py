"""Errors for bad arguments: what the argument is, what came, what was expected.

Values that are traced (inside ``jit`` or ``vmap``) cannot be looked at and pass
unchecked; the same values given as plain numbers are checked.
"""

import difflib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jax.core import Tracer


def concrete(value: Any) -> np.ndarray | None:
    """The value as a NumPy array, or None for a schedule or a traced value."""
    if callable(value) or isinstance(value, Tracer):
        return None
    return np.asarray(value)


def _require(name: str, value: Any, good: Callable[[np.ndarray], Any], expected: str) -> None:
    seen = concrete(value)
    if seen is None:
        return
    if seen.dtype == bool or not np.issubdtype(seen.dtype, np.number):
        raise TypeError(f"{name} must be {expected}; got {value!r}")
    if not bool(np.all(good(seen))):
        raise ValueError(f"{name} must be {expected}; got {value!r}")


def positive(name: str, value: Any, expected: str = "a finite number > 0") -> None:
    """Refuse anything but finite numbers above zero."""
    _require(name, value, lambda v: np.isfinite(v) & (v > 0), expected)


def non_negative(name: str, value: Any) -> None:
    """Refuse anything but finite numbers of at least zero."""
    _require(name, value, lambda v: np.isfinite(v) & (v >= 0), "a finite number >= 0")


def within(name: str, value: Any, low: float, high: float) -> None:
    """Refuse anything outside ``(low, high]``."""
    _require(name, value, lambda v: (v > low) & (v <= high), f"in ({low:g}, {high:g}]")


def whole(name: str, value: Any, least: int) -> None:
    """Refuse anything but an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number >= {least}; got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be a whole number >= {least}; got {value!r}")


def instance(name: str, value: Any, kind: type | tuple[type, ...], expected: str) -> None:
    """Refuse a value of another kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {expected}; got {value!r}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one probably meant.

    >>> nearest("modle", ["model", "prior"])
    'model'
    """
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return found[0] if found else None
