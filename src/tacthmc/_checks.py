"""Errors for bad arguments: each names the argument, what was expected, and what it got.

Traced values (inside ``jit`` or ``vmap``) cannot be inspected and pass unchecked. The same values
given as plain numbers are checked.
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
    known = concrete(value)
    if known is None:
        return
    if known.dtype == bool or not np.issubdtype(known.dtype, np.number):
        raise TypeError(f"{name} must be {expected}; got {value!r}")
    if not bool(np.all(good(known))):
        raise ValueError(f"{name} must be {expected}; got {value!r}")


def positive(name: str, value: Any, expected: str = "a finite number > 0") -> None:
    """Require finite numbers above zero."""
    _require(name, value, lambda v: np.isfinite(v) & (v > 0), expected)


def non_negative(name: str, value: Any) -> None:
    """Require finite numbers of at least zero."""
    _require(name, value, lambda v: np.isfinite(v) & (v >= 0), "a finite number >= 0")


def within(name: str, value: Any, low: float, high: float) -> None:
    """Require numbers in ``(low, high]``."""
    _require(name, value, lambda v: (v > low) & (v <= high), f"in ({low:g}, {high:g}]")


def whole(name: str, value: Any, least: int) -> None:
    """Require an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number >= {least}; got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be a whole number >= {least}; got {value!r}")


def instance(name: str, value: Any, kind: type | tuple[type, ...], expected: str) -> None:
    """Require a value of a type."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {expected}; got {value!r}")


def missing_extra(purpose: str, package: str, extra: str) -> ImportError:
    """The error for a feature whose package is not installed.

    >>> str(missing_extra("a report", "Plotly", "report"))
    "a report needs Plotly, which is not installed: pip install 'tacthmc[report]'"
    """
    return ImportError(
        f"{purpose} needs {package}, which is not installed: pip install 'tacthmc[{extra}]'"
    )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to a mistyped one, or None.

    >>> nearest("modle", ["model", "prior"])
    'model'
    """
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return found[0] if found else None
