"""Each chain's predictions averaged over its draws, as they come, all on the device.

The chains' latest draws are evaluated together and added to sums that stay on the device: what
:class:`tacthmc.predict.Predictive` does on the host for one chain after the other would take
longer than an epoch's steps. Sums of a few thousand probabilities are right to 1e-4 in float32.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num

from tacthmc.predict._prediction import Prediction
from tacthmc.predict._softmax import draws_together, each_draws, inputs_together


class Averages(NamedTuple):
    """Sums over draws, by chain."""

    probabilities: Float[Array, "chains n classes"]
    entropies: Float[Array, "chains n"]
    draws: Float[Array, " chains"]

    @classmethod
    def none(cls, chains: int, images: int, classes: int) -> "Averages":
        """Over no draw."""
        return cls(
            jnp.zeros((chains, images, classes)), jnp.zeros((chains, images)), jnp.zeros(chains)
        )

    def prediction(self, chain: int) -> Prediction | None:
        """A chain's, if it had a draw."""
        count = float(self.draws[chain])
        if not count:
            return None
        mean, entropy = (
            np.asarray(x[chain], float) / count for x in (self.probabilities, self.entropies)
        )
        return Prediction(mean, entropy, count)


@eqx.filter_jit
def last_kept(kept: Any, keep: Bool[Array, "chains rows"]) -> tuple[Any, Bool[Array, " chains"]]:
    """The latest of each chain's draws of a chunk, and whether there is one."""
    used = jnp.sum(keep, axis=1, dtype=jnp.int32)
    place = jnp.maximum(used - 1, 0)
    return jax.tree.map(lambda x: jax.vmap(lambda f, k: f[k])(x, place), kept), used > 0


def predicted(
    logits: Callable[..., Any], draws: Any, images: Num[Array, "n ..."]
) -> tuple[Float[Array, "chains n classes"], Float[Array, "chains n"]]:
    """Each chain's probabilities and entropies under one draw."""
    return each_draws(logits, draws, images, inputs_together(None), draws_together(None))


@eqx.filter_jit
def added(
    averages: Averages,
    probabilities: Float[Array, "chains n classes"],
    entropies: Float[Array, "chains n"],
    there: Bool[Array, " chains"],
) -> Averages:
    """With one more draw of those chains that have one."""

    def plus(total: Array, value: Array) -> Array:
        counts = jnp.expand_dims(there, tuple(range(1, value.ndim)))
        return total + jnp.where(counts, value, jnp.zeros_like(value))

    return Averages(
        plus(averages.probabilities, probabilities),
        plus(averages.entropies, entropies),
        averages.draws + there.astype(averages.draws.dtype),
    )


@eqx.filter_jit
def quick_scores(
    sums: Float[Array, "chains n classes"], counts: Float[Array, " chains"], labels: Array
) -> tuple[Float[Array, " chains"], Float[Array, " chains"]]:
    """Accuracy and log-loss of each chain, NaN where there is nothing to judge."""
    right = jnp.argmax(sums, axis=2) == labels.astype(jnp.int32)[None, :]
    places = jnp.broadcast_to(labels.astype(jnp.int32)[None, :, None], (*sums.shape[:2], 1))
    own = jnp.take_along_axis(sums, places, axis=2)[:, :, 0] / counts[:, None]
    there = counts > 0
    nan = jnp.full_like(counts, jnp.nan)
    accuracy = jnp.mean(right.astype(sums.dtype), axis=1)
    return (
        jnp.where(there, accuracy, nan),
        jnp.where(there, -jnp.mean(jnp.log(own), axis=1), nan),
    )
