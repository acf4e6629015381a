"""Predictions averaged over draws: what a classifier's posterior says of new images."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from tacthmc import checks
from tacthmc.models.model import Model


def averaged(
    model: Model,
    draws: Any,
    images: Num[Array, "n ..."],
    *,
    batch_size: int = 500,
    together: int | None = None,
) -> Float[Array, "n classes"]:
    r"""The posterior's predictive probabilities, ⟨softmax(logits)⟩ over the draws.

    .. math:: p(y \mid x) = \frac{1}{M}\sum_{k=1}^M \mathrm{softmax}\,f(x; \theta_k)_y

    Args:
        model: the network.
        draws: parameters with a leading axis of draws (or of chains).
        images: n images.
        batch_size: how many images at a time.
        together: how many draws at a time; by default one on a CPU and 32 on a GPU.

    >>> import jax, jax.numpy as jnp
    >>> from tacthmc.models import mlp
    >>> model = mlp(inputs=4, hidden=3, classes=2)
    >>> draws = jax.vmap(model.init)(jax.random.split(jax.random.key(0), 5))
    >>> probabilities = averaged(model, draws, jnp.ones((7, 4)), batch_size=3)
    >>> probabilities.shape, bool(jnp.allclose(probabilities.sum(axis=1), 1.0))
    ((7, 2), True)
    """
    checks.whole("batch_size", batch_size, 1)
    if together is None:
        together = 1 if jax.default_backend() == "cpu" else 32
    checks.whole("together", together, 1)
    counts = {leaf.shape[:1] for leaf in jax.tree.leaves(draws)}
    if len(counts) != 1 or counts == {()}:
        raise ValueError(
            "draws must be parameters that share a leading axis of draws; got leaves of shape"
            f" {jax.tree.map(jnp.shape, draws)}"
        )
    if images.shape[0] == 0:
        raise ValueError("images is empty; expected at least one image")
    return _averaged(model, draws, jnp.asarray(images), batch_size, together)


@eqx.filter_jit
def _averaged(model: Model, draws: Any, images: Array, batch_size: int, together: int) -> Array:
    def probabilities(params: Any, images: Array) -> Array:
        return jax.nn.softmax(model.logits(params, images), axis=-1)

    def of_batch(images: Array) -> Array:
        each = jax.lax.map(lambda p: probabilities(p, images), draws, batch_size=together)
        return jnp.mean(each, axis=0)

    return _in_batches(of_batch, images, batch_size)


def _in_batches(function: Any, images: Array, batch_size: int) -> Array:
    whole = images.shape[0] // batch_size
    split = whole * batch_size
    parts = []
    if whole:
        stacked = images[:split].reshape(whole, batch_size, *images.shape[1:])
        found = jax.lax.map(function, stacked)
        parts.append(found.reshape(split, found.shape[-1]))
    if split < images.shape[0]:
        parts.append(function(images[split:]))
    return jnp.concatenate(parts)
