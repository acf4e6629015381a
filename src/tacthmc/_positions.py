"""Arithmetic on positions, which are pytrees of floating-point arrays, and on rates."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float

from tacthmc import _checks as checks
from tacthmc._typing import Position, Rate


def dimension(position: Any) -> int:
    """The number of scalars in a position."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(position))


def leaf_names(position: Any) -> list[str]:
    """A readable name for each leaf, no two alike; ``theta`` for a position of one array."""
    names: list[str] = []
    for path, _ in jax.tree_util.tree_leaves_with_path(position):
        name = jax.tree_util.keystr(path, simple=True, separator=".").replace("/", "_") or "theta"
        while name in names:
            name += "_"
        names.append(name)
    return names


def scalar_names(position: Any, most: int) -> list[tuple[int, tuple[int, ...], str]]:
    """The first ``most`` scalars of a position: the leaf's number, the index in it, and a name."""
    found: list[tuple[int, tuple[int, ...], str]] = []
    leaves = zip(leaf_names(position), jax.tree.leaves(position), strict=True)
    for number, (name, leaf) in enumerate(leaves):
        for i in range(min(math.prod(leaf.shape), most - len(found))):
            index = tuple(int(k) for k in np.unravel_index(i, leaf.shape))
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            found.append((number, index, label))
    return found


def scalar_dtype(position: Position) -> jnp.dtype:
    """The dtype of the scalars that accompany a position (ξ, thermostats, energies)."""
    wide = any(leaf.dtype == jnp.float64 for leaf in jax.tree.leaves(position))
    return jnp.dtype(jnp.float64 if wide else jnp.float32)


def checked(position: Any, what: str = "position") -> Position:
    """The position as JAX arrays of at least float32, or an error that names the leaf."""
    checks.leaves(what, position)
    leaves, treedef = jax.tree.flatten(position)
    if not leaves:
        raise ValueError(f"{what} has no leaves; expected at least one floating-point array")
    names = leaf_names(position)
    arrays = []
    for leaf_name, leaf in zip(names, leaves, strict=True):
        name = f"{what} leaf {leaf_name!r}"
        try:
            array = checks.quiet_array(name, leaf)
        except TypeError as error:
            raise TypeError(
                f"{name} is {leaf!r}, not an array of numbers; sample a subset of the"
                " leaves with tacthmc.potentials.subset(potential, init, equinox.is_inexact_array)"
            ) from error
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError(
                f"{name} has dtype {array.dtype}; expected floating point"
                " (write 0.0 for 0, or leave the leaf out with tacthmc.potentials.subset)"
            )
        used = array.dtype if array.dtype.itemsize >= 4 else jnp.dtype(jnp.float32)
        checks.tell_precision(name, leaf, used)
        # astype also makes weakly typed arrays strong, as the results of a step are. Otherwise
        # the second chunk of a run would be compiled again.
        arrays.append(array.astype(used))
    return jax.tree.unflatten(treedef, arrays)


def finite(position: Any, what: str) -> Position:
    """:func:`checked`, and all numbers are finite."""
    position = checked(position, what)
    for name, leaf in zip(leaf_names(position), jax.tree.leaves(position), strict=True):
        bad = int(np.sum(~np.isfinite(np.asarray(leaf))))
        if bad:
            raise ValueError(
                f"{what} leaf {name!r} must be finite; got {bad} values that are NaN or infinite"
            )
    return position


def spread(prefix: Any, position: Position, name: str, *, whole: bool = False) -> Position:
    """Broadcast a pytree prefix of numbers or arrays to the leaves of a position.

    A number stays a scalar unless ``whole``: arithmetic with it is then done once for a leaf, not
    once for each coordinate. A single number is one object for all leaves of a dtype.
    """
    single: dict[Any, Array] = {}

    def fitted(value: Any, leaf: Array) -> Array:
        if value is prefix:
            value = single.setdefault(leaf.dtype, jnp.asarray(value).astype(leaf.dtype))
        else:
            value = jnp.asarray(value).astype(leaf.dtype)
        return value if value.ndim == 0 and not whole else jnp.broadcast_to(value, leaf.shape)

    try:
        return jax.tree.map(fitted, jax.tree.broadcast(prefix, position), position)
    except ValueError as error:
        raise ValueError(
            f"{name} must be a number, or a pytree that matches the position with numbers or"
            f" arrays that broadcast to its leaves; got {jax.tree.map(jnp.shape, prefix)} for"
            f" leaves of shape {jax.tree.map(jnp.shape, position)}"
        ) from error


def sum_of_squares(mass: Position, r: Position) -> list[Array]:
    """Σ m·r² of each leaf: m·Σ r² where a leaf has one mass."""

    def summed(m: Array, r: Array) -> Array:
        return m * jnp.sum(r * r) if m.ndim == 0 else jnp.sum(m * r * r)

    return jax.tree.leaves(jax.tree.map(summed, mass, r))


def total(sums: list[Array], dtype: DTypeLike) -> Array:
    """The sum of the sums over leaves."""
    return sum((s.astype(dtype) for s in sums), jnp.zeros((), dtype))


def flatten(position: Position, dtype: DTypeLike) -> Float[Array, " d"]:
    """All scalars of a position in one vector."""
    return jnp.concatenate([leaf.ravel().astype(dtype) for leaf in jax.tree.leaves(position)])


def unflatten(vector: Float[Array, " d"], like: Position) -> Position:
    """The inverse of :func:`flatten`, with the shapes and dtypes of ``like``."""
    leaves, treedef = jax.tree.flatten(like)
    parts, start = [], 0
    for leaf in leaves:
        size = math.prod(leaf.shape)
        parts.append(vector[start : start + size].reshape(leaf.shape).astype(leaf.dtype))
        start += size
    return jax.tree.unflatten(treedef, parts)


def rate_at(rate: Rate, step: Any, dtype: DTypeLike) -> Array:
    """The value of a rate at a step, in the dtype of the dynamics.

    >>> import jax.numpy as jnp
    >>> float(rate_at(0.5, 3, jnp.float32)), float(rate_at(lambda k: 1.0 / (k + 1), 3, jnp.float32))
    (0.5, 0.25)
    """
    return jnp.asarray(rate(step) if callable(rate) else rate).astype(dtype)
