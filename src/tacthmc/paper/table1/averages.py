"""Each chain's predictions averaged over its draws as they come, all on the device.

The chains' latest draws are evaluated together and added to sums that stay on the device. A
:class:`tacthmc.predict.Predictive` adds on the host, one chain after the other, which would take
longer than an epoch's steps. Sums of a few thousand probabilities are right to 1e-4 in float32.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tacthmc.predict import Prediction


class LatestDraws(NamedTuple):
    """The latest draw of each chain in an epoch."""

    positions: Any
    """With a leading axis of chains."""
    there: Bool[Array, " chains"]
    """Whether the chain has a draw in this epoch; without one its position means nothing."""

    @classmethod
    def none(cls, positions: Any) -> "LatestDraws":
        """No draw of any chain; ``positions`` has the shapes."""
        return cls(positions, jnp.zeros(len(jax.tree.leaves(positions)[0]), bool))


@eqx.filter_jit
def latest_draws(before: LatestDraws, kept: Any, keep: Bool[Array, "chains rows"]) -> LatestDraws:
    """The latest draws after a chunk, whose draws are packed without gaps.

    Args:
        before: the latest draws before the chunk.
        kept: the chunk's draws, (chain, draw, …).
        keep: which of the chunk's rows have a draw.
    """
    used = jnp.sum(keep, axis=1, dtype=jnp.int32)
    place = jnp.maximum(used - 1, 0)

    def latest(old: Array, new: Array) -> Array:
        last = jax.vmap(lambda x, k: x[k])(new, place)
        return jnp.where(jnp.expand_dims(used > 0, tuple(range(1, last.ndim))), last, old)

    positions = jax.tree.map(latest, before.positions, kept)
    return LatestDraws(positions, before.there | (used > 0))


class Averages(NamedTuple):
    """Sums over draws, by chain."""

    probabilities: Float[Array, "chains n classes"]
    entropies: Float[Array, "chains n"]
    draws: Float[Array, " chains"]

    @classmethod
    def none(cls, chains: int, images: int, classes: int) -> "Averages":
        """The sums over no draws."""
        return cls(
            jnp.zeros((chains, images, classes)), jnp.zeros((chains, images)), jnp.zeros(chains)
        )

    def prediction(self, chain: int) -> Prediction | None:
        """A chain's average prediction; None for a chain without draws."""
        count = float(self.draws[chain])
        if not count:
            return None
        mean, entropy = (
            np.asarray(x[chain], float) / count for x in (self.probabilities, self.entropies)
        )
        return Prediction(mean, entropy, count)


@eqx.filter_jit
def added(
    averages: Averages,
    probabilities: Float[Array, "chains n classes"],
    entropies: Float[Array, "chains n"],
    there: Bool[Array, " chains"],
) -> Averages:
    """The sums with one more draw of those chains that have one."""

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
    """Accuracy and log-loss of each chain; NaN where ``counts`` is 0."""
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
