"""Probabilities and entropies summed over draws, a batch of inputs at a time."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

TOGETHER = 32
"""Draws at a time on an accelerator; on a CPU one is as fast, and takes less memory."""

INPUTS, MANY_INPUTS = 500, 1000
"""Inputs at a time on a CPU, and on an accelerator."""


def draws_together(together: int | None) -> int:
    """How many draws are evaluated at a time."""
    if together is not None:
        return together
    return 1 if jax.default_backend() == "cpu" else TOGETHER


def inputs_together(batch_size: int | None) -> int:
    """How many inputs are evaluated at a time."""
    if batch_size is not None:
        return batch_size
    return INPUTS if jax.default_backend() == "cpu" else MANY_INPUTS


def _of_draw(
    logits: Callable[..., Any], draw: Any, state: Any, inputs: Array
) -> tuple[Array, Array]:
    """Probabilities of each input, and their entropies."""
    values = logits(draw, inputs) if state is None else logits(draw, inputs, state)
    if values.ndim != 2 or values.shape[0] != inputs.shape[0]:
        raise ValueError(
            f"logits must return an array of shape ({inputs.shape[0]}, classes); got {values.shape}"
        )
    logs = jax.nn.log_softmax(values, axis=-1)
    # A class that is ruled out has no share in the entropy.
    each = jnp.where(jnp.isfinite(logs), jnp.exp(logs) * logs, jnp.zeros_like(logs))
    return jnp.exp(logs), -jnp.sum(each, axis=-1)


@eqx.filter_jit
def each_draws(
    logits: Callable[..., Any],
    draws: Any,
    inputs: Num[Array, "n ..."],
    batch_size: int,
    together: int,
) -> tuple[Float[Array, "k n classes"], Float[Array, "k n"]]:
    """softmax(logits) and H of each draw by itself, all left on the device."""

    def of_batch(inputs: Array) -> tuple[Array, Array]:
        each = jax.lax.map(
            lambda draw: _of_draw(logits, draw, None, inputs), draws, batch_size=together
        )
        # Batches of inputs are put together along the leading axis.
        return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), each)

    found = _in_batches(of_batch, inputs, batch_size)
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), found)


@eqx.filter_jit
def summed(
    logits: Callable[..., Any],
    draws: Any,
    states: Any,
    weights: Float[Array, " k"],
    inputs: Num[Array, "n ..."],
    batch_size: int,
    together: int,
) -> tuple[Float[Array, "n classes"], Float[Array, " n"]]:
    """Σ_k w_k·softmax(logits) and Σ_k w_k·H over the draws' leading axis.

    ``states`` are the model's states with the draws, or None.
    """

    def of_batch(inputs: Array) -> tuple[Array, Array]:
        def weighed(drawn: tuple[Any, Any, Array]) -> tuple[Array, Array]:
            draw, state, weight = drawn
            # What does not count may be anything.
            return jax.tree.map(
                lambda x: jnp.where(weight > 0, weight.astype(x.dtype) * x, jnp.zeros_like(x)),
                _of_draw(logits, draw, state, inputs),
            )

        each = jax.lax.map(weighed, (draws, states, weights), batch_size=together)
        return jax.tree.map(lambda x: jnp.sum(x, axis=0), each)

    return _in_batches(of_batch, inputs, batch_size)


def _in_batches(function: Callable[[Array], Any], inputs: Array, batch_size: int) -> Any:
    whole = inputs.shape[0] // batch_size
    split = whole * batch_size
    parts = []
    if whole:
        stacked = inputs[:split].reshape(whole, batch_size, *inputs.shape[1:])
        found = jax.lax.map(function, stacked)
        parts.append(jax.tree.map(lambda x: x.reshape(split, *x.shape[2:]), found))
    if split < inputs.shape[0]:
        parts.append(function(inputs[split:]))
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
