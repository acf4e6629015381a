r"""Running sums over the steps of all replicas: rejections, acceptances, and log Z along the path.

For neighboring rungs with δ = λ_i − λ_{i+1}, the geometric bridge between their densities gives

.. math:: \frac{Z_i}{Z_{i+1}} =
    \frac{\mathrm E_{i+1}\,e^{-\delta U_1/2}}{\mathrm E_i\,e^{\delta U_1/2}},
    \qquad Z_i = \int e^{-U_0 - \lambda_i U_1},

and the ratios multiply to the one between both ends of the ladder. A constant in U1 cancels.

Gaussian noise of U1 with variance σ² multiplies such an expectation by exp(δ²σ²/8), which cancels
only if σ is the same on both rungs. If there are three estimates a, b, c of U1 at one place, their
mean m is independent of d = a − 2b + c, and

.. math:: \mathrm E\big[e^{\pm\delta m/2}\cos(\delta d/\sqrt{72})\big]
    = e^{\pm\delta U_1/2}\,e^{\delta^2\sigma^2/24}\,e^{-\delta^2\sigma^2/24},

so these terms (:func:`bridge_terms`) are right for noise of any variance, which may differ between
places.

References: X.-L. Meng, W. H. Wong. *Simulating ratios of normalizing constants via a simple
identity.* Statistica Sinica 1996. W. Xie, P. Lewis, Y. Fan, L. Kuo, M.-H. Chen. *Improving marginal
likelihood estimation for Bayesian phylogenetic model selection.* Systematic Biology 2011.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from tacthmc.samplers._conditional_weights import LogEvidence

BATCHES = 16
"""The number of places for batches."""
MAX_BATCH_STEPS = 1 << 20
"""The number of steps of the longest batch: over many more, float32 loses what each one adds."""


class LogSum(eqx.Module):
    """log Σexp of values that come one after the other, as their largest value and Σexp(v − top).

    >>> sums = LogSum.empty((), jnp.float32)
    >>> for value in (1000.0, 1000.0):
    ...     sums = sums.plus(jnp.asarray(value), jnp.asarray(1.0))
    >>> float(sums.top), float(sums.rest)
    (1000.0, 2.0)
    """

    top: Float[Array, "*p"]
    rest: Float[Array, "*p"]

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: Any) -> "LogSum":
        """No value yet."""
        return cls(jnp.full(shape, -jnp.inf, dtype), jnp.zeros(shape, dtype))

    def plus(self, value: Float[Array, "*p"], weight: Float[Array, "*p"]) -> "LogSum":
        """One more value, whose exponential counts so often. One that is not finite is left out."""
        return self.joined(LogSum(value, jnp.where(jnp.isfinite(value), weight, 0)))

    def joined(self, other: "LogSum") -> "LogSum":
        """The sum over the values of both."""
        tops = [jnp.where(jnp.isfinite(one.top), one.top, -jnp.inf) for one in (self, other)]
        top = jnp.maximum(*tops)
        shift = jnp.where(jnp.isfinite(top), top, 0)
        parts = (one.rest * jnp.exp(t - shift) for one, t in zip((self, other), tops, strict=True))
        return LogSum(top, sum(parts, jnp.zeros_like(self.rest)))


class Terms(NamedTuple):
    """What one step adds to the bridges between neighbors: exponents, and how often they count."""

    above: tuple[Float[Array, " p"], Float[Array, " p"]]
    """−δU1/2 on the hotter rung of each pair."""
    below: tuple[Float[Array, " p"], Float[Array, " p"]]
    """δU1/2 on the colder rung of each pair."""
    is_seen: Bool[Array, ""]
    """Whether the step counts."""


def bridge_terms(
    tempered: Float[Array, " k"],
    lam: Float[Array, " k"],
    recent: Float[Array, "2 k"] | None = None,
    same_places: Bool[Array, ""] | None = None,
) -> Terms:
    """The terms of a step with these energies.

    With noise, ``recent`` has the energies one and two steps ago, by other batches. They count
    where no swap came between (``same_places``).

    >>> lam, ones = jnp.array([1.0, 0.0]), jnp.ones(2)
    >>> [float(x[0]) for x in bridge_terms(ones, lam).below]
    [0.5, 1.0]
    >>> noisy = bridge_terms(ones, lam, jnp.array([[-2.0, 1.0], [1.0, 1.0]]), jnp.asarray(True))
    >>> [round(float(x[0]), 3) for x in noisy.below]     # cos(6/√72)
    [0.0, 0.76]
    """
    half = 0.5 * (lam[:-1] - lam[1:])
    if recent is None or same_places is None:
        once = jnp.ones_like(half)
        return Terms((-half * tempered[1:], once), (half * tempered[:-1], once), jnp.asarray(True))
    mean = (tempered + recent[0] + recent[1]) / 3
    turn = (tempered - 2 * recent[0] + recent[1]) / np.sqrt(18).astype(lam.dtype)

    def weight(phase: Float[Array, " p"]) -> Float[Array, " p"]:
        return jnp.where(same_places & jnp.isfinite(phase), jnp.cos(phase), 0)

    above = (-half * mean[1:], weight(half * turn[1:]))
    return Terms(above, (half * mean[:-1], weight(half * turn[:-1])), same_places)


class Sums(eqx.Module):
    """Sums over some steps; p is the number of pairs of neighbors and k that of rungs."""

    steps: Int[Array, "*b"]
    seen: Int[Array, "*b"]
    """The number of steps that count for log Z."""
    rejected: Float[Array, "*b p"]
    """The probabilities with which swaps would be rejected, whether they are due or not."""
    moved: Float[Array, "*b k"]
    """The probabilities with which local moves were accepted."""
    above: LogSum
    """e^{−δU1/2} on the hotter rung of each pair."""
    below: LogSum
    """e^{δU1/2} on the colder rung of each pair."""

    @classmethod
    def empty(cls, rungs: int, dtype: Any, batches: tuple[int, ...] = ()) -> "Sums":
        """Sums over no steps, perhaps several of them."""
        pairs = (*batches, rungs - 1)
        return cls(
            jnp.zeros(batches, int),
            jnp.zeros(batches, int),
            jnp.zeros(pairs, dtype),
            jnp.zeros((*batches, rungs), dtype),
            LogSum.empty(pairs, dtype),
            LogSum.empty(pairs, dtype),
        )

    def plus(
        self, odds: Float[Array, " p"], terms: Terms, accepted: Float[Array, " m"] | None
    ) -> "Sums":
        """The sums with one more step, whose swaps had these log odds."""
        probability = jnp.where(jnp.isnan(odds), 0, jnp.exp(jnp.minimum(odds, 0)))
        moved = self.moved
        if accepted is not None:
            moved = moved.at[: accepted.shape[0]].add(accepted)
        return Sums(
            self.steps + 1,
            self.seen + terms.is_seen.astype(self.seen.dtype),
            self.rejected + 1 - probability,
            moved,
            self.above.plus(*terms.above),
            self.below.plus(*terms.below),
        )

    def joined(self, other: "Sums") -> "Sums":
        """The sums over the steps of both."""
        return Sums(
            self.steps + other.steps,
            self.seen + other.seen,
            self.rejected + other.rejected,
            self.moved + other.moved,
            self.above.joined(other.above),
            self.below.joined(other.below),
        )


class RecentSums(eqx.Module):
    """Sums over batches of steps that come one after the other, without the start of a chain.

    When all places are taken, batches are joined in pairs, and the next ones are twice as long. So
    there are always 8 to 15 of them, as soon as there are enough steps. The first quarter of the
    batches is left out. That there are several shows the error of their mean, even in one chain.
    Batches of ``MAX_BATCH_STEPS`` are not joined any more: the older half of them is forgotten.
    """

    done: Sums
    """Whole batches, with a leading axis of places."""
    now: Sums
    """The batch that has begun."""
    full: Int[Array, "*c"]
    """The number of whole batches."""
    length: Int[Array, "*c"]
    """The number of steps in a whole batch."""

    @classmethod
    def empty(cls, rungs: int, dtype: Any) -> "RecentSums":
        """Sums over no steps."""
        done, now = Sums.empty(rungs, dtype, (BATCHES,)), Sums.empty(rungs, dtype)
        return cls(done, now, jnp.zeros((), int), jnp.ones((), int))

    def after(self, now: Sums) -> "RecentSums":
        """The sums after a step, where ``now`` includes it."""
        rungs, dtype = now.moved.shape[-1], now.moved.dtype
        whole = now.steps >= self.length
        here = whole & (jnp.arange(BATCHES) == self.full)
        done = _chosen(here, jax.tree.map(lambda x: x[None], now), self.done)
        full = self.full + whole.astype(self.full.dtype)
        now = _chosen(whole, Sums.empty(rungs, dtype), now)
        crowded = full == BATCHES
        even, odd = (jax.tree.map(lambda x, k=k: x[k::2], done) for k in (0, 1))
        free = Sums.empty(rungs, dtype, (BATCHES // 2,))
        grows = self.length < MAX_BATCH_STEPS
        recent = jax.tree.map(lambda x: x[BATCHES // 2 :], done)
        half = _chosen(grows, even.joined(odd), recent)
        fewer = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), half, free)
        return RecentSums(
            _chosen(crowded, fewer, done),
            now,
            jnp.where(crowded, BATCHES // 2, full),
            jnp.where(crowded & grows, 2 * self.length, self.length),
        )

    def kept(self) -> Bool[Array, "*c b"]:
        """Whether each place has a batch that is not left out."""
        full = self.full[..., None]
        number = jnp.arange(BATCHES).reshape(*[1] * self.full.ndim, BATCHES)
        return (number >= full // 4) & (number < full)

    def mean(self, name: str) -> Float[Array, "*c n"]:
        """The mean of ``rejected`` or ``moved``."""
        kept = self.kept()
        now = getattr(self.now, name)
        summed = now + jnp.sum(jnp.where(kept[..., None], getattr(self.done, name), 0), axis=-2)
        steps = self.now.steps + jnp.sum(jnp.where(kept, self.done.steps, 0), axis=-1)
        return summed / jnp.maximum(steps, 1).astype(summed.dtype)[..., None]


def _chosen(condition: Bool[Array, "*b"], yes: Sums, no: Sums) -> Sums:
    """One or the other, where the condition has the first axes."""

    def one(a: Array, b: Array) -> Array:
        lifted = condition.reshape(*condition.shape, *[1] * (b.ndim - condition.ndim))
        return jnp.where(lifted, jnp.broadcast_to(a, b.shape), b)

    return jax.tree.map(one, yes, no)


def log_ratio(sums: RecentSums) -> LogEvidence:
    """log Z of the coldest rung over that of the hottest, from sums of one or several chains.

    The standard error is the larger one of two: that by the differences between chains, and that by
    those between batches. Few chains know their differences badly, and batches are not independent
    if chains change slowly. It is NaN for a chain of less than 2 batches.
    """
    if sums.full.ndim == 0:
        sums = jax.tree.map(lambda x: x[None], sums)
    kept = np.asarray(sums.kept())
    # The batch that has begun is the last of all.
    done, now = sums.done, jax.tree.map(lambda x: x[:, None], sums.now)
    both = jax.tree.map(lambda a, b: np.concatenate([a, b], axis=1, dtype=float), done, now)
    used = np.pad(kept, ((0, 0), (0, 1)), constant_values=True)
    seen = np.where(used, both.seen, 0)
    value, batches, chains = 0.0, np.zeros(kept.shape), np.zeros(len(kept))
    for sign, one in ((1.0, both.above), (-1.0, both.below)):
        filled = used[..., None] & (one.rest != 0)
        highest = np.where(filled, one.top, -np.inf).max(axis=(0, 1))
        parts = np.where(filled, one.rest * np.exp(np.where(filled, one.top - highest, 0)), 0)
        whole = parts.sum(axis=(0, 1)) / seen.sum()
        value += sign * float(np.sum(np.log(whole) + highest))
        # A mean relative to that of all is its share of the error of the logarithm.
        shares = np.sum(parts / whole, axis=2)
        batches += sign * shares[:, :-1] / np.maximum(seen[:, :-1], 1)
        chains += sign * shares.sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    several = [x for x in (chains, batches[kept]) if len(x) > 1]
    errors = [np.std(x, ddof=1) / np.sqrt(len(x)) for x in several]
    return LogEvidence(value, float(np.max(errors)) if errors else np.nan)
