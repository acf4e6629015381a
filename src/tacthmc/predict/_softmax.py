"""Probabilities and entropies over draws, computed batch by batch."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from tacthmc import _checks as checks
from tacthmc.compiler._async_jit import forget_outdated
from tacthmc.compiler._backend import has_accelerator

DRAWS_AT_ONCE = 32
"""Draws evaluated at a time on an accelerator. Elsewhere one is as fast, and takes less memory."""

BATCH_SIZE, ACCELERATOR_BATCH_SIZE = 500, 1000
"""Inputs evaluated at a time, and those on an accelerator."""


def chosen_draws_at_once(given: int | None) -> int:
    """How many draws are evaluated at a time."""
    if given is not None:
        return given
    return DRAWS_AT_ONCE if has_accelerator() else 1


def chosen_batch_size(given: int | None) -> int:
    """How many inputs are evaluated at a time."""
    if given is not None:
        return given
    return ACCELERATOR_BATCH_SIZE if has_accelerator() else BATCH_SIZE


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
    # A class of probability zero adds nothing to the entropy.
    each = jnp.where(jnp.isfinite(logs), jnp.exp(logs) * logs, jnp.zeros_like(logs))
    return jnp.exp(logs), -jnp.sum(each, axis=-1)


def number_of_draws(draws: Any) -> int:
    """The length of the leading axis that all leaves share."""
    arrays = [checks.quiet_array(name, leaf) for name, leaf in checks.leaves("draws", draws)]
    counts = {array.shape[:1] for array in arrays}
    if len(counts) != 1 or counts == {()}:
        raise ValueError(
            "draws must be parameters that share a leading axis of draws; got leaves of shape"
            f" {jax.tree.map(jnp.shape, draws)}"
        )
    return next(iter(counts))[0]


def check_code(logits: Callable[..., Any], draws: Any, states: Any, inputs: Array) -> None:
    """Forget the compiled programs if ``logits`` is no longer the function that it was."""

    def first(tree: Any) -> Any:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), tree)

    forget_outdated(_of_draw, logits, first(draws), first(states), inputs)


def per_draw(
    logits: Callable[..., Any],
    draws: Any,
    inputs: Num[Array, "n ..."],
    batch_size: int | None = None,
    draws_at_once: int | None = None,
) -> tuple[Float[Array, "k n classes"], Float[Array, "k n"]]:
    """softmax(logits) and the entropy H for each draw, as arrays on the device.

    ``batch_size`` and ``draws_at_once`` are those of :class:`tacthmc.predict.Predictive`.

    >>> weights = jnp.array([[[1.0, 0.0]], [[0.0, 0.0]]])     # two draws of a (1, 2) matrix
    >>> probabilities, entropies = per_draw(lambda w, x: x @ w, weights, jnp.zeros((3, 1)))
    >>> probabilities.shape, round(float(entropies[1, 0]), 4)
    ((2, 3, 2), 0.6931)
    """
    size, at_once = chosen_batch_size(batch_size), chosen_draws_at_once(draws_at_once)
    checks.whole("batch_size", size, 1)
    checks.whole("draws_at_once", at_once, 1)
    if not callable(logits):
        raise TypeError(f"logits must be a function of a draw and inputs; got {logits!r}")
    number_of_draws(draws)
    inputs = checks.array("inputs", inputs)
    if not inputs.shape or not inputs.shape[0]:
        raise ValueError(f"inputs must be at least one; got shape {inputs.shape}")
    check_code(logits, draws, None, inputs)
    return _per_draw(logits, draws, inputs, size, at_once)


@eqx.filter_jit
def _per_draw(
    logits: Callable[..., Any], draws: Any, inputs: Array, size: int, at_once: int
) -> tuple[Array, Array]:
    def of_batch(inputs: Array) -> tuple[Array, Array]:
        each = jax.lax.map(
            lambda draw: _of_draw(logits, draw, None, inputs), draws, batch_size=at_once
        )
        # Batches of inputs are joined along the leading axis.
        return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), each)

    found = _in_batches(of_batch, inputs, size)
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), found)


@eqx.filter_jit
def summed(
    logits: Callable[..., Any],
    draws: Any,
    states: Any,
    weights: Float[Array, " k"],
    inputs: Num[Array, "n ..."],
    batch_size: int,
    draws_at_once: int,
) -> tuple[Float[Array, "n classes"], Float[Array, " n"]]:
    """Σ_k w_k·softmax(logits) and Σ_k w_k·H over the leading axis of the draws.

    ``states`` are the model states of the draws, or None.
    """

    def of_batch(inputs: Array) -> tuple[Array, Array]:
        def weighed(drawn: tuple[Any, Any, Array]) -> tuple[Array, Array]:
            draw, state, weight = drawn
            # A draw of weight zero may give NaN.
            return jax.tree.map(
                lambda x: jnp.where(weight > 0, weight.astype(x.dtype) * x, jnp.zeros_like(x)),
                _of_draw(logits, draw, state, inputs),
            )

        each = jax.lax.map(weighed, (draws, states, weights), batch_size=draws_at_once)
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
