"""A pytree of arrays as one array of words, with a row per chain.

A checkpoint of one array is written and read faster than one of many small arrays. Arrays that
chains share (such as the place in an epoch) are repeated in every row.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

_WORDS = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}


def _mapped(axes: Any, tree: Any) -> list[bool]:
    """For each leaf, whether it has a chain axis."""
    flags = jax.tree.map(
        lambda axis, part: jax.tree.map(lambda _: axis == 0, part),
        axes,
        tree,
        is_leaf=lambda x: x is None,
    )
    return jax.tree.leaves(flags)


def _words(leaf: Array, lead: int) -> Array:
    bits = leaf.astype(jnp.uint8) if leaf.dtype == bool else leaf
    bits = jax.lax.bitcast_convert_type(bits, _WORDS[bits.dtype.itemsize])
    size = math.prod(bits.shape[lead:])
    return bits.reshape(*bits.shape[:lead], size).astype(jnp.uint32)


def pack_words(tree: Any, axes: Any, count: int) -> UInt32[Array, "c w"]:
    """The bits of all arrays of ``count`` chains; ``axes`` says which have an axis of chains.

    >>> import jax.numpy as jnp
    >>> tree = {"x": jnp.array([1.5, -2.0]), "shared": jnp.array(3)}
    >>> axes = {"x": 0, "shared": None}
    >>> words = pack_words(tree, axes, 2)
    >>> words.shape, unpack_words(words, tree, axes)["x"].tolist()
    ((2, 2), [1.5, -2.0])
    """
    rows = [
        _words(leaf, 1) if mapped else jnp.broadcast_to(w := _words(leaf, 0), (count, w.size))
        for leaf, mapped in zip(jax.tree.leaves(tree), _mapped(axes, tree), strict=True)
    ]
    return jnp.concatenate(rows, axis=1)


def unpack_words(words: UInt32[Array, "c w"], like: Any, axes: Any) -> Any:
    """The inverse of :func:`pack_words`, with the structure and shapes of ``like``."""
    leaves, structure = jax.tree.flatten(like)
    place, found = 0, []
    for leaf, mapped in zip(leaves, _mapped(axes, like), strict=True):
        stored = jnp.dtype(jnp.uint8) if leaf.dtype == bool else jnp.dtype(leaf.dtype)
        width = _WORDS[stored.itemsize]
        parts = stored.itemsize // jnp.dtype(width).itemsize
        size = math.prod(leaf.shape[1:] if mapped else leaf.shape) * parts
        part = words[:, place : place + size] if mapped else words[0, place : place + size]
        place += size
        part = part.astype(width).reshape(*leaf.shape, *([parts] if parts > 1 else []))
        found.append(jax.lax.bitcast_convert_type(part, stored).astype(leaf.dtype))
    return jax.tree.unflatten(structure, found)


def fingerprint(words: UInt32[Array, "c w"]) -> UInt32[Array, ""]:
    """A sum over all words, each weighted by its place, which any flipped bit changes."""
    places = jnp.arange(words.size, dtype=jnp.uint32).reshape(words.shape)
    # Odd weights have inverses modulo 2³², so no single change is lost.
    return jnp.sum(words * (2 * places + jnp.uint32(1)), dtype=jnp.uint32)
