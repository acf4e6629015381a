"""Predictions averaged over draws: what a classifier's posterior says of new images."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from tacthmc import _checks as checks
from tacthmc.predict._classifier import Logits, logits_of
from tacthmc.predict._predictive import number_of_draws
from tacthmc.predict._softmax import draws_together, inputs_together, summed


def averaged(
    model: Logits,
    draws: Any,
    images: Num[Array, "n ..."],
    *,
    batch_size: int | None = None,
    together: int | None = None,
) -> Float[Array, "n classes"]:
    r"""The posterior's predictive probabilities, ⟨softmax(logits)⟩ over the draws.

    .. math:: p(y \mid x) = \frac{1}{M}\sum_{k=1}^M \mathrm{softmax}\,f(x; \theta_k)_y

    All on the device, in one program; :class:`tacthmc.predict.Predictive` takes draws as they
    come, and says how good the probabilities are.

    Args:
        model: the network.
        draws: parameters with a leading axis of draws (or of chains).
        images: n images.
        batch_size: how many images at a time; by default 500 on a CPU and 1,000 on a GPU.
        together: how many draws at a time; by default one on a CPU and 32 on a GPU.

    >>> import jax, jax.numpy as jnp
    >>> from tacthmc.paper.networks import mlp
    >>> model = mlp(inputs=4, hidden=3, classes=2)
    >>> draws = jax.vmap(model.init)(jax.random.split(jax.random.key(0), 5))
    >>> probabilities = averaged(model, draws, jnp.ones((7, 4)), batch_size=3)
    >>> probabilities.shape, bool(jnp.allclose(probabilities.sum(axis=1), 1.0))
    ((7, 2), True)
    """
    batch_size = inputs_together(batch_size)
    checks.whole("batch_size", batch_size, 1)
    together = draws_together(together)
    checks.whole("together", together, 1)
    count = number_of_draws(draws)
    if images.shape[0] == 0:
        raise ValueError("images is empty; expected at least one image")
    weights = jnp.full(count, 1 / count)
    images = jnp.asarray(images)
    return summed(logits_of(model), draws, None, weights, images, batch_size, together)[0]
