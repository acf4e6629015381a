"""Compiled functions of pytrees that return before they have finished."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

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
