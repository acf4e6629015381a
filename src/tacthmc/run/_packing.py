"""A run's state as one array of words, a row per chain.

A checkpoint of one array is written and read faster than one of many small ones. What chains
have in common (a place in an epoch) stands in every row.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

from tacthmc.compiler._mesh import arranged
from tacthmc.potentials._base import Potential
from tacthmc.run._chunk import Chain, chain_axes

_WORDS = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}


def _mapped(potential: Potential, chains: Chain) -> list[bool]:
    """For each leaf, whether it has a chain axis."""
    flags = jax.tree.map(
        lambda axis, part: jax.tree.map(lambda _: axis == 0, part),
        chain_axes(potential),
        chains,
        is_leaf=lambda x: x is None,
    )
    return jax.tree.leaves(flags)


def _words(leaf: Array, lead: int) -> Array:
    bits = leaf.astype(jnp.uint8) if leaf.dtype == bool else leaf
    bits = jax.lax.bitcast_convert_type(bits, _WORDS[bits.dtype.itemsize])
    size = math.prod(bits.shape[lead:])
    return bits.reshape(*bits.shape[:lead], size).astype(jnp.uint32)


def pack(potential: Potential, chains: Chain, spmd: str | None) -> UInt32[Array, "c w"]:
    """A state's bits."""
    count = chains.health.step.shape[0]
    rows = [
        _words(leaf, 1) if mapped else jnp.broadcast_to(w := _words(leaf, 0), (count, w.size))
        for leaf, mapped in zip(jax.tree.leaves(chains), _mapped(potential, chains), strict=True)
    ]
    return arranged(jnp.concatenate(rows, axis=1), spmd)


def unpack(
    potential: Potential, words: UInt32[Array, "c w"], like: Chain, spmd: str | None
) -> Chain:
    """The state again, in the shapes of ``like``."""
    leaves, structure = jax.tree.flatten(like)
    place, found = 0, []
    for leaf, mapped in zip(leaves, _mapped(potential, like), strict=True):
        stored = jnp.dtype(jnp.uint8) if leaf.dtype == bool else jnp.dtype(leaf.dtype)
        width = _WORDS[stored.itemsize]
        parts = stored.itemsize // jnp.dtype(width).itemsize
        size = math.prod(leaf.shape[1:] if mapped else leaf.shape) * parts
        part = words[:, place : place + size] if mapped else words[0, place : place + size]
        place += size
        part = part.astype(width).reshape(*leaf.shape, *([parts] if parts > 1 else []))
        value = jax.lax.bitcast_convert_type(part, stored).astype(leaf.dtype)
        found.append(arranged(value, spmd if mapped else None))
    return jax.tree.unflatten(structure, found)


def fingerprint(words: UInt32[Array, "c w"]) -> UInt32[Array, ""]:
    """A sum over all words, each weighted by its place: a flipped bit always shows."""
    places = jnp.arange(words.size, dtype=jnp.uint32).reshape(words.shape)
    # Odd weights have inverses modulo 2³², so no single change is lost.
    return jnp.sum(words * (2 * places + jnp.uint32(1)), dtype=jnp.uint32)
