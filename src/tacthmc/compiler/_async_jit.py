"""Compiled functions of pytrees: they return before they have finished, and are never outdated."""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var

from tacthmc.compiler._cpu_flags import program_options

R = TypeVar("R")


class _Fixed(NamedTuple):
    """A leaf that is not an array, with its type, because 1 == True."""

    kind: type
    value: Any


def async_jit(function: Callable[..., R]) -> Callable[..., R]:
    """Like ``equinox.filter_jit``, but calls return before the computation has finished.

    Arrays are traced and other leaves are static. Arguments are positional. Equinox waits for the
    end of each call, to improve the messages of its own errors. Here the next call can be launched
    while the host processes the results of this one.

    >>> import jax.numpy as jnp
    >>> shifted = async_jit(lambda x, by: {name: leaf + by for name, leaf in x.items()})
    >>> shifted({"a": jnp.zeros(())}, 2)["a"].item()
    2.0
    """

    def joined(arrays: list[Any], treedef: Any, fixed: tuple[_Fixed | None, ...]) -> R:
        rest = iter(arrays)
        leaves = [next(rest) if f is None else f.value for f in fixed]
        return cast("Any", function)(*jax.tree.unflatten(treedef, leaves))

    joined.__name__ = getattr(function, "__name__", "joined")
    compiled: Any = jax.jit(joined, static_argnums=(1, 2), compiler_options=program_options())

    @wraps(function)
    def call(*args: Any) -> R:
        leaves, treedef = jax.tree.flatten(args)
        if any(isinstance(x, Tracer) for x in leaves):
            # The call is inside another program, whose options are up to its caller.
            return function(*args)
        fixed = tuple(None if _traced(x) else _Fixed(type(x), x) for x in leaves)
        return compiled([x for x in leaves if _traced(x)], treedef, fixed)

    return call


def _traced(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, (np.ndarray, np.generic))


MAX_KNOWN_CODE = 1024
"""The number of functions whose operations are remembered."""

_known: OrderedDict[Any, bytes] = OrderedDict()


def forget_outdated(function: Callable[..., Any], *args: Any) -> Any:
    """Clear all compiled programs if a function no longer does what it did; returns its shapes.

    A program is compiled from what a function does when it is traced. JAX tells functions apart by
    identity, so one that reads a global, an attribute or an array of its closure would go on with
    the old value after a change. Here the function is traced again, and its operations and
    constants are compared with those of the last time. ``function`` itself is one object for all
    calls; the user's functions are leaves of ``args``. (A function that the user's own ``jax.jit``
    has compiled inside is not traced again.)

    >>> import jax.numpy as jnp
    >>> scale = {"now": 2.0}
    >>> scaled = async_jit(lambda f, x: f(x))
    >>> def times(x):
    ...     return scale["now"] * x
    >>> def apply(f, x):
    ...     return f(x)
    >>> shape, first = forget_outdated(apply, times, jnp.ones(())), scaled(times, jnp.ones(()))
    >>> scale["now"] = 3.0
    >>> shape, second = forget_outdated(apply, times, jnp.ones(())), scaled(times, jnp.ones(()))
    >>> float(first), float(second)
    (2.0, 3.0)
    """
    arrays, rest = eqx.partition(args, lambda x: _traced(x) or isinstance(x, jax.ShapeDtypeStruct))

    def shape_of(x: Any) -> jax.ShapeDtypeStruct:
        weak = bool(getattr(x, "weak_type", False))
        return jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=weak)

    shapes = jax.tree.map(shape_of, arrays)

    def call(arrays: Any) -> Any:
        found = function(*eqx.combine(arrays, rest))
        return eqx.filter(found, eqx.is_array)

    traced, shape = jax.make_jaxpr(call, return_shape=True)(shapes)
    leaves, treedef = jax.tree.flatten(rest)
    avals = [(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(shapes)]
    fixed = [_Fixed(type(x), x) for x in leaves]
    key = (function, treedef, *fixed, *avals, jax.dtypes.canonicalize_dtype(float))
    try:
        before = _known.pop(key, None)
    except TypeError:
        # A leaf that has no hash cannot be an argument of a compiled function.
        return shape
    now = _known[key] = _digest(traced)
    # Inside another trace, whose program is the caller's, nothing is compiled here.
    if before not in (None, now) and not any(isinstance(x, Tracer) for x in jax.tree.leaves(args)):
        jax.clear_caches()
    if len(_known) > MAX_KNOWN_CODE:
        _known.popitem(last=False)
    return shape


def without_jit(function: Any) -> Any:
    """A function without its own ``jax.jit``, whose program could be outdated.

    It is compiled with everything around it.

    >>> def double(x):
    ...     return 2 * x
    >>> without_jit(jax.jit(double)) is double
    True
    """
    while callable(getattr(function, "lower", None)) and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def _digest(traced: ClosedJaxpr) -> bytes:
    """A fingerprint of operations and constants, for the shapes and dtypes of the arguments."""
    found = hashlib.blake2b(digest_size=16)
    numbers: dict[Var, int] = {}

    def add(value: Any) -> None:
        if isinstance(value, Var):
            # Variables by the order in which they appear.
            found.update(b"%d," % numbers.setdefault(value, len(numbers)))
            return
        inside = _inside(value)
        if inside is None:
            found.update(_bytes_of(value))
            return
        found.update(b"(%d" % len(inside))
        for one in inside:
            add(one)

    add(traced)
    return found.digest()


def _inside(value: Any) -> list[Any] | None:
    """The parts of operations and of settings, or None for what has no parts."""
    if isinstance(value, (ClosedJaxpr, Jaxpr)):
        # From JAX 0.11 on, both are one class, whose constants may be part of it.
        constants, jaxpr = list(getattr(value, "consts", ())), getattr(value, "jaxpr", value)
        variables = [*jaxpr.constvars, *jaxpr.invars]
        kinds = [variable.aval.str_short() for variable in variables]
        equations = [
            [e.primitive.name, *e.invars, *e.outvars, *sorted(e.params.items())] for e in jaxpr.eqns
        ]
        return [*constants, *variables, *kinds, *equations, *jaxpr.outvars]
    if isinstance(value, Literal):
        return [value.val]
    if isinstance(value, dict):
        return sorted(value.items())
    return list(value) if isinstance(value, (tuple, list)) else None


def _bytes_of(value: Any) -> bytes:
    """A constant, a name or a setting."""
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(cast("jax.Array", value))
        array = np.ascontiguousarray(value)
        return f"{array.dtype}{array.shape}".encode() + array.view(np.uint8).tobytes()
    # The address of an object says nothing about it.
    text = getattr(value, "__qualname__", None) or re.sub("0x[0-9a-f]+", "", repr(value))
    return text.encode() + b";"
