"""The posterior predictive probabilities of a classifier for new images."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from tacthmc import _checks as checks
from tacthmc.predict._classifier import Logits, logits_of
from tacthmc.predict._softmax import (
    check_code,
    chosen_batch_size,
    chosen_draws_at_once,
    number_of_draws,
    summed,
)


def averaged(
    model: Logits,
    draws: Any,
    images: Num[Array, "n ..."],
    *,
    batch_size: int | None = None,
    draws_at_once: int | None = None,
) -> Float[Array, "n classes"]:
    r"""The posterior predictive probabilities, ⟨softmax(logits)⟩ over the draws.

    .. math:: p(y \mid x) = \frac{1}{M}\sum_{k=1}^M \mathrm{softmax}\,f(x; \theta_k)_y

    Everything runs on the device, in one program. :class:`tacthmc.predict.Predictive` instead takes
    draws one after the other, and scores the probabilities.

    Args:
        model: the network.
        draws: parameters with a leading axis of draws (or of chains).
        images: n images.
        batch_size: the number of images evaluated at a time; by default 500, or 1,000 on an
            accelerator.
        draws_at_once: the number of draws evaluated at a time; by default one, or 32 on an
            accelerator.

    >>> import jax, jax.numpy as jnp
    >>> from tacthmc.paper.networks import mlp
    >>> model = mlp(inputs=4, hidden=3, classes=2)
    >>> draws = jax.vmap(model.init)(jax.random.split(jax.random.key(0), 5))
    >>> probabilities = averaged(model, draws, jnp.ones((7, 4)), batch_size=3)
    >>> probabilities.shape, bool(jnp.allclose(probabilities.sum(axis=1), 1.0))
    ((7, 2), True)
    """
    batch_size = chosen_batch_size(batch_size)
    checks.whole("batch_size", batch_size, 1)
    draws_at_once = chosen_draws_at_once(draws_at_once)
    checks.whole("draws_at_once", draws_at_once, 1)
    count = number_of_draws(draws)
    images = checks.array("images", images)
    if not images.shape or not images.shape[0]:
        raise ValueError("images is empty; expected at least one image")
    weights = jnp.full(count, 1 / count)
    logits = logits_of(model)
    check_code(logits, draws, None, images)
    return summed(logits, draws, None, weights, images, batch_size, draws_at_once)[0]
