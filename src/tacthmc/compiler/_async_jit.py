"""Compiled functions of pytrees whose results nobody waits for yet."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NamedTuple, TypeVar, cast

import equinox as eqx
import jax
import numpy as np

R = TypeVar("R")


class _Fixed(NamedTuple):
    """What is no array: by its type too, since 1 and True are equal and not the same."""

    kind: type
    value: Any


def async_jit(function: Callable[..., R]) -> Callable[..., R]:
    """As ``equinox.filter_jit``, arrays traced and all else fixed, but it returns at once.

    Arguments are given by position. Equinox waits for the end of each call, to say more of its own
    errors than JAX would. Where the next call is to be launched while the host looks at what this
    one gave, nothing may wait.

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
    compiled: Any = partial(jax.jit, static_argnums=(1, 2))(joined)

    @wraps(function)
    def call(*args: Any) -> R:
        leaves, treedef = jax.tree.flatten(args)
        fixed = tuple(None if _traced(x) else _Fixed(type(x), x) for x in leaves)
        return compiled([x for x in leaves if _traced(x)], treedef, fixed)

    return call


def _traced(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, (np.ndarray, np.generic))
