"""Errors for bad arguments of the paper's own functions."""

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np
from jax.core import Tracer


def whole(name: str, value: Any, least: int) -> None:
    """Refuse anything but an integer of at least ``least``.

    >>> whole("seed", -1, 0)
    Traceback (most recent call last):
    ...
    ValueError: seed must be a whole number >= 0; got -1
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number >= {least}; got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be a whole number >= {least}; got {value!r}")


def instance(name: str, value: Any, kind: type, expected: str) -> None:
    """Refuse a value of another type.

    >>> instance("model", 3, str, "the name of a model")
    Traceback (most recent call last):
    ...
    TypeError: model must be the name of a model; got 3
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {expected}; got {value!r}")


def positive(name: str, value: Any) -> None:
    """Refuse anything but finite numbers above zero."""
    _number(name, value, "a finite number > 0", above=True)


def non_negative(name: str, value: Any) -> None:
    """Refuse anything but finite numbers of at least zero."""
    _number(name, value, "a finite number >= 0", above=False)


def _number(name: str, value: Any, expected: str, above: bool) -> None:
    if isinstance(value, Tracer):
        # A traced value has no numbers yet.
        return
    seen = np.asarray(value)
    if seen.dtype == bool or not np.issubdtype(seen.dtype, np.number):
        raise TypeError(f"{name} must be {expected}; got {value!r}")
    if not (np.isfinite(seen).all() and (seen > 0 if above else seen >= 0).all()):
        raise ValueError(f"{name} must be {expected}; got {value!r}")


def fraction(name: str, value: float) -> None:
    """Refuse anything outside ``(0, 1]``."""
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be in (0, 1]; got {value!r}")


def one_of(name: str, value: Any, known: Iterable[str]) -> None:
    """Refuse an unknown name, and suggest the one that was probably meant.

    >>> one_of("method", "tackt", ["tact", "adam"])
    Traceback (most recent call last):
    ...
    ValueError: method must be one of tact, adam; got 'tackt' (tact?)
    """
    names = list(known)
    if value in names:
        return
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f" ({near[0]}?)" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(names)}; got {value!r}{hint}")
