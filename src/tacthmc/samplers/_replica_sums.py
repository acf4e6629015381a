r"""Running sums over the steps of all replicas: rejections, acceptances, and log Z along the path.

For neighboring rungs with δ = λ_i − λ_{i+1}, the geometric bridge between their densities gives

.. math:: \frac{Z_i}{Z_{i+1}} =
    \frac{\mathrm E_{i+1}\,e^{-\delta U_1/2}}{\mathrm E_i\,e^{\delta U_1/2}},
    \qquad Z_i = \int e^{-U_0 - \lambda_i U_1},

and the ratios multiply to the one between both ends of the ladder. A constant in U1 cancels, and so
does Gaussian noise of U1 if its variance is the same on both rungs: it multiplies both expectations
by the same factor.

References: X.-L. Meng, W. H. Wong. *Simulating ratios of normalizing constants via a simple
identity.* Statistica Sinica 1996. W. Xie, P. Lewis, Y. Fan, L. Kuo, M.-H. Chen. *Improving marginal
likelihood estimation for Bayesian phylogenetic model selection.* Systematic Biology 2011.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from tacthmc.samplers._conditional_weights import LogEvidence


class LogSum(eqx.Module):
    """log Σexp of values that come one after the other, as their largest value and Σexp(v − top).

    >>> sums = LogSum.empty((), jnp.float32)
    >>> for value in (1000.0, 1000.0):
    ...     sums = sums.plus(jnp.asarray(value))
    >>> float(sums.top), float(sums.rest)
    (1000.0, 2.0)
    """

    top: Float[Array, "*p"]
    rest: Float[Array, "*p"]

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: Any) -> "LogSum":
        """No value yet."""
        return cls(jnp.full(shape, -jnp.inf, dtype), jnp.zeros(shape, dtype))

    def plus(self, value: Float[Array, "*p"]) -> "LogSum":
        """One more value. Values that are not finite count as −∞."""
        return self.joined(LogSum(value, jnp.isfinite(value).astype(value.dtype)))

    def joined(self, other: "LogSum") -> "LogSum":
        """The sum over the values of both."""
        tops = [jnp.where(jnp.isfinite(one.top), one.top, -jnp.inf) for one in (self, other)]
        top = jnp.maximum(*tops)
        shift = jnp.where(jnp.isfinite(top), top, 0)
        parts = (one.rest * jnp.exp(t - shift) for one, t in zip((self, other), tops, strict=True))
        return LogSum(top, sum(parts, jnp.zeros_like(self.rest)))


class Sums(eqx.Module):
    """Sums over some steps; p is the number of pairs of neighbors and k that of rungs."""

    steps: Int[Array, ""]
    rejected: Float[Array, " p"]
    """The probabilities with which swaps would be rejected, whether they are due or not."""
    moved: Float[Array, " k"]
    """The probabilities with which local moves were accepted."""
    above: LogSum
    """e^{−δU1/2} on the hotter rung of each pair."""
    below: LogSum
    """e^{δU1/2} on the colder rung of each pair."""

    @classmethod
    def empty(cls, rungs: int, dtype: Any) -> "Sums":
        """Sums over no steps."""
        pairs = (rungs - 1,)
        return cls(
            jnp.zeros((), int),
            jnp.zeros(pairs, dtype),
            jnp.zeros(rungs, dtype),
            LogSum.empty(pairs, dtype),
            LogSum.empty(pairs, dtype),
        )

    def plus(
        self,
        odds: Float[Array, " p"],
        tempered: Float[Array, " k"],
        lam: Float[Array, " k"],
        accepted: Float[Array, " m"] | None,
    ) -> "Sums":
        """The sums with one more step, whose swaps had these log odds."""
        half = 0.5 * (lam[:-1] - lam[1:])
        probability = jnp.where(jnp.isnan(odds), 0, jnp.exp(jnp.minimum(odds, 0)))
        moved = self.moved
        if accepted is not None:
            moved = moved.at[: accepted.shape[0]].add(accepted)
        return Sums(
            self.steps + 1,
            self.rejected + 1 - probability,
            moved,
            self.above.plus(-half * tempered[1:]),
            self.below.plus(half * tempered[:-1]),
        )


class RecentSums(eqx.Module):
    """Sums over the later part of all steps, so that the start of a chain is forgotten.

    At each step whose number is a power of two, the newer sums become the older ones, and newer
    ones begin. So together they leave out the first quarter of all steps or more, up to a half.
    """

    older: Sums
    newer: Sums

    @classmethod
    def empty(cls, rungs: int, dtype: Any) -> "RecentSums":
        """Sums over no steps."""
        return cls(Sums.empty(rungs, dtype), Sums.empty(rungs, dtype))

    def after(self, newer: Sums, step: Int[Array, ""]) -> "RecentSums":
        """The sums after a step, where ``newer`` includes it."""
        turn: Bool[Array, ""] = step & (step - 1) == 0
        nothing = jax.tree.map(jnp.zeros_like, newer)
        nothing = eqx.tree_at(
            lambda s: (s.above.top, s.below.top),
            nothing,
            (jnp.full_like(newer.above.top, -jnp.inf), jnp.full_like(newer.below.top, -jnp.inf)),
        )
        old, new = (
            jax.tree.map(lambda a, b: jnp.where(turn, a, b), a, b)
            for a, b in ((newer, self.older), (nothing, newer))
        )
        return RecentSums(old, new)

    @property
    def steps(self) -> Int[Array, "*c"]:
        """The number of steps in the sums."""
        return self.older.steps + self.newer.steps

    def mean(self, name: str) -> Float[Array, "*c n"]:
        """The mean of ``rejected`` or ``moved``."""
        summed = getattr(self.older, name) + getattr(self.newer, name)
        steps = jnp.maximum(self.steps, 1).astype(summed.dtype)
        return summed / steps[..., None]


def log_ratio(sums: RecentSums) -> LogEvidence:
    """log Z of the coldest rung over that of the hottest, from sums of several chains.

    The standard error is that over chains, and NaN for one chain.
    """
    steps = np.atleast_1d(np.asarray(sums.steps, float))
    each = [sums.older.above.joined(sums.newer.above), sums.older.below.joined(sums.newer.below)]
    value, influence = 0.0, np.zeros(len(steps))
    for sign, one in zip((1.0, -1.0), each, strict=True):
        top, rest = (np.asarray(x, float).reshape(len(steps), -1) for x in (one.top, one.rest))
        highest = top.max(axis=0)
        means = rest * np.exp(top - highest) / steps[:, None]
        whole = means.mean(axis=0)
        value += sign * float(np.sum(np.log(whole) + highest))
        # The mean of a chain relative to that of all is its share of the error of the logarithm.
        influence += sign * np.sum(means / whole, axis=1)
    count = len(steps)
    error = np.std(influence, ddof=1) / np.sqrt(count) if count > 1 else np.nan
    return LogEvidence(value, float(error))
