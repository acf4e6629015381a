"""Errors for bad arguments: each names the argument, what was expected, and what it got.

Traced values (inside ``jit`` or ``vmap``) cannot be inspected and pass unchecked. The same values
given as plain numbers are checked.
"""

import difflib
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


class PrecisionWarning(UserWarning):
    """Numbers of the user are used in another precision than they were given in."""


def concrete(value: Any) -> np.ndarray | None:
    """The value as a NumPy array, or None for a schedule or a traced value."""
    if callable(value) or isinstance(value, Tracer):
        return None
    return np.asarray(value)


def _require(name: str, value: Any, good: Callable[[np.ndarray], Any], expected: str) -> None:
    try:
        known = concrete(value)
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name} must be {expected}; got {value!r}") from error
    if known is None:
        return
    real = jnp.issubdtype(known.dtype, jnp.floating) or jnp.issubdtype(known.dtype, jnp.integer)
    if not real or not known.size:
        raise TypeError(f"{name} must be {expected}; got {value!r}")
    if not bool(np.all(good(known))):
        raise ValueError(f"{name} must be {expected}; got {value!r}")
    _in_range(name, known)


def _in_range(name: str, known: np.ndarray) -> None:
    """Require numbers that are neither zero nor infinite in the precision of the arithmetic."""
    used = np.finfo(jax.dtypes.canonicalize_dtype(float))
    size = np.abs(np.asarray(known, float))
    lost = np.isfinite(size) & (((size > 0) & (size < used.tiny)) | (size > used.max))
    if lost.any():
        raise ValueError(
            f"{name} must be a number that {used.dtype} can hold, {used.tiny:.2g} to"
            f" {used.max:.2g}; got {float(known[lost].flat[0])!r}"
        )


def _one(name: str, value: Any, expected: str) -> None:
    shape = getattr(value, "shape", ())
    if isinstance(value, (list, tuple)) or (shape and not isinstance(value, Tracer)):
        raise TypeError(f"{name} must be {expected}; got {value!r}")


def positive(name: str, value: Any, expected: str = "a finite number > 0") -> None:
    """Require a finite number above zero, or a schedule."""
    _one(name, value, expected)
    _require(name, value, lambda v: np.isfinite(v) & (v > 0), expected)


def all_positive(name: str, value: Any, expected: str = "finite numbers > 0") -> None:
    """Require an array of finite numbers above zero."""
    _require(name, value, lambda v: np.isfinite(v) & (v > 0), expected)


def non_negative(name: str, value: Any, expected: str = "a finite number >= 0") -> None:
    """Require a finite number of at least zero, or a schedule."""
    _one(name, value, expected)
    _require(name, value, lambda v: np.isfinite(v) & (v >= 0), expected)


def all_non_negative(name: str, value: Any, expected: str = "finite numbers >= 0") -> None:
    """Require an array of finite numbers of at least zero."""
    _require(name, value, lambda v: np.isfinite(v) & (v >= 0), expected)


def finite(name: str, value: Any) -> None:
    """Require a finite number."""
    _one(name, value, "a finite number")
    _require(name, value, np.isfinite, "a finite number")


def all_finite(name: str, value: Any) -> None:
    """Require an array of finite numbers."""
    _require(name, value, np.isfinite, "finite numbers")


def within(name: str, value: Any, low: float, high: float) -> None:
    """Require a number in ``(low, high]``."""
    expected = f"in ({low:g}, {high:g}]"
    _one(name, value, expected)
    _require(name, value, lambda v: (v > low) & (v <= high), expected)


def whole(name: str, value: Any, least: int) -> None:
    """Require an integer of at least ``least`` that the integers of JAX can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number >= {least}; got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be a whole number >= {least}; got {value!r}")
    most = largest_integer()
    if value > most:
        raise ValueError(f"{name} must be at most {most}{_MORE_BITS}; got {value!r}")


_MORE_BITS = (
    ", the largest integer of 32 bits (jax.config.update('jax_enable_x64', True) makes it 64 bits)"
)


def largest_integer() -> int:
    """The largest integer that JAX counts to: 2³¹ − 1, or 2⁶³ − 1 with ``jax_enable_x64``.

    >>> largest_integer() in (2**31 - 1, 2**63 - 1)
    True
    """
    return int(np.iinfo(jax.dtypes.canonicalize_dtype(int)).max)


def leaves(name: str, tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a pytree with their names, or an error for keys that cannot be sorted.

    >>> leaves("data", {"x": 1.0, "y": 2.0})
    [("data['x']", 1.0), ("data['y']", 2.0)]
    """
    try:
        found = jax.tree_util.tree_leaves_with_path(tree)
    except ValueError as error:
        raise TypeError(
            f"{name} has a dictionary whose keys are of several types, so they have no order: give"
            " all of its keys one type, such as strings"
        ) from error
    return [(name + jax.tree_util.keystr(path), leaf) for path, leaf in found]


def array(name: str, value: Any) -> jax.Array:
    """The value as a JAX array of the same numbers.

    Numbers that the precision of JAX cannot hold are an error. Where float64 becomes float32, a
    :class:`PrecisionWarning` says so.

    >>> array("data", [1, 2]).tolist()
    [1, 2]
    >>> array("data", "two")
    Traceback (most recent call last):
    ...
    TypeError: data must be an array of numbers; got 'two'
    """
    found = quiet_array(name, value)
    tell_precision(name, value, found.dtype)
    return found


def quiet_array(name: str, value: Any) -> jax.Array:
    """:func:`array` without the warning."""
    if isinstance(value, jax.Array) and value.dtype == jax.dtypes.canonicalize_dtype(value.dtype):
        return value
    return jnp.asarray(host_array(name, value))


def host_array(name: str, value: Any) -> np.ndarray:
    """:func:`quiet_array` as a NumPy array."""
    try:
        known = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name} must be an array of numbers; got {value!r}") from error
    if not (known.dtype == bool or jnp.issubdtype(known.dtype, jnp.number)):
        raise TypeError(f"{name} must be an array of numbers; got {_shown(value, known)}")
    used = jax.dtypes.canonicalize_dtype(known.dtype)
    if used == known.dtype:
        return known
    _fits(name, known, used)
    return known.astype(used)


def _shown(value: Any, known: np.ndarray) -> str:
    return f"an array of dtype {known.dtype}" if known.shape else repr(value)


def _fits(name: str, known: np.ndarray, used: np.dtype) -> None:
    if jnp.issubdtype(known.dtype, jnp.integer):
        range_ = np.iinfo(used)
        bad = (known < range_.min) | (known > range_.max)
    else:
        bad = np.isfinite(known) & (np.abs(known) > np.finfo(used).max)
    if bad.any():
        raise ValueError(
            f"{name} must have numbers that {used} can hold; got {known[bad].flat[0]!s}"
            " (scale the numbers, or compute in double precision with"
            " jax.config.update('jax_enable_x64', True))"
        )


def tell_precision(name: str, value: Any, used: Any) -> None:
    """Warn if an array is used in another precision than it was given in.

    Python's own numbers have no precision that anybody chose, and integers are the same numbers.
    """
    given = getattr(value, "dtype", None)
    if given is None or given == used or not jnp.issubdtype(given, jnp.inexact):
        return
    # The stack level of the user's line.
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals["__name__"].split(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    more = ""
    if jnp.dtype(given).itemsize > jnp.dtype(used).itemsize:
        more = ". For double precision, begin with jax.config.update('jax_enable_x64', True)"
    warnings.warn(
        f"{name} is {given} and is used as {used}. To say that {used} is meant, give {used}{more}",
        PrecisionWarning,
        stacklevel=level,
    )


_INSIDE = ("tacthmc", "equinox", "jax", "jaxtyping")
"""Packages whose functions stand between a user's line and a warning about it."""


def key(name: str, value: Any) -> jax.Array:
    """The value as one new-style JAX key."""
    expected = f"{name} must be a JAX key, such as jax.random.key(0)"
    if not isinstance(value, (jax.Array, np.ndarray)):
        raise TypeError(f"{expected}; got {value!r}")
    if not jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        if value.dtype != np.uint32 or value.ndim != 1:
            raise TypeError(f"{expected}; got an array of {value.dtype}, shape {value.shape}")
        try:
            found = jax.random.wrap_key_data(jnp.asarray(value))
        except (TypeError, ValueError) as error:
            raise TypeError(f"{expected}; got {value.shape[0]} words of key data") from error
    else:
        found = jnp.asarray(value)
    if found.shape != ():
        raise ValueError(f"{name} must be one key, shape (); got keys of shape {found.shape}")
    return found


def flag(name: str, value: Any) -> None:
    """Require True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {value!r}")


def numbers(name: str, value: Any, axes: str, *, least: int = 1) -> np.ndarray:
    """The value as an array of ``least`` or more real numbers with these axes.

    >>> numbers("values", [[1, 2]], "(chain, draw)").shape
    (1, 2)
    >>> numbers("values", [1, 2], "(chain, draw)")
    Traceback (most recent call last):
    ...
    ValueError: values must be numbers of shape (chain, draw); got int64 of shape (2,)
    """
    try:
        known = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name} must be numbers of shape {axes}; got {value!r}") from error
    real = known.dtype == bool or jnp.issubdtype(known.dtype, jnp.integer)
    real = real or jnp.issubdtype(known.dtype, jnp.floating)
    if not real or known.ndim != len(axes.split(", ")) or known.size < least:
        raise ValueError(
            f"{name} must be numbers of shape {axes}; got {known.dtype} of shape {known.shape}"
        )
    return known.astype(float)


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
