"""Posterior means over the draws of a run, read in blocks."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

if TYPE_CHECKING:
    from tacthmc.run._result import Run


def expectation(run: "Run", function: Callable[..., Any], block: int) -> Any:
    """See :meth:`tacthmc.Run.expectation`."""

    @eqx.filter_jit
    def total(position: Any, model: Any, weights: Array) -> Any:
        def one(position: Any, model: Any) -> Any:
            position = run.whole(position)
            return function(position) if model is None else function(position, model)

        values = jax.vmap(one)(position, model)
        return jax.tree.map(lambda v: _weighted_sum(weights, v), values)

    sums, mass = None, 0.0
    for _, kept, part in run.blocks(block):
        # A short block is filled up with draws of weight zero, so one program fits all blocks.
        fill = block - len(part)
        kept = jax.tree.map(lambda x, f=fill: np.concatenate([x, x[:1].repeat(f, 0)]), kept)
        added = total(kept.position, kept.model, jnp.asarray(np.pad(part, (0, fill))))
        added = jax.tree.map(lambda x: np.asarray(x, float), added)
        sums = added if sums is None else jax.tree.map(np.add, sums, added)
        mass += float(part.sum())
    return jax.tree.map(lambda x: x / mass, sums)


def _weighted_sum(weights: Array, values: Array) -> Array:
    """Σ_i w_i v_i over the leading axis; booleans and integers are converted to floats."""
    if not jnp.issubdtype(values.dtype, jnp.inexact):
        values = values.astype(jnp.float32)
    return jnp.tensordot(weights.astype(values.dtype), values, axes=1)
