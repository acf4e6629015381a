r"""Swaps of neighboring replicas: which pairs are due, their odds, and the noise of the energies.

Even and odd pairs take turns. In this scheme a replica that moves up the ladder goes on upward
until a swap is rejected, so that its way from end to end is not a random walk (S. Syed,
A. Bouchard-Côté, G. Deligiannidis, A. Doucet. *Non-reversible parallel tempering.* JRSS B 2022).
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from tacthmc import _checks as checks
from tacthmc._typing import Number

MAX_AVERAGED_ESTIMATES = 10_000
"""The measured variance is the mean of all estimates, or later of about this many recent ones."""


class MeasuredVariance(eqx.Module):
    """The measured variance of Ũ_i − Ũ_{i+1}, and the data for the next estimate of it."""

    recent: Float[Array, "2 k"]
    """The energies of each rung, one and two steps ago."""
    variance: Float[Array, " p"]
    """The mean of the estimates so far."""
    count: Int[Array, ""]
    """The number of estimates so far."""

    @classmethod
    def nothing(cls, rungs: int, dtype: Any) -> "MeasuredVariance":
        """No estimate yet."""
        recent, variance = jnp.zeros((2, rungs), dtype), jnp.zeros(rungs - 1, dtype)
        return cls(recent, variance, jnp.zeros((), int))

    @staticmethod
    def compares(step: Int[Array, ""], swap_every: Number) -> Bool[Array, ""]:
        """Whether the energies of a step and of the two before are those of the same replicas."""
        return step % jnp.asarray(swap_every).astype(step.dtype) >= 2

    def after(
        self, energies: Float[Array, " k"], step: Int[Array, ""], swap_every: Number
    ) -> "MeasuredVariance":
        """The estimate with the energies of one more step.

        It comes from second differences of Ũ_i − Ũ_j in time, whose mean square is 6v if θ moves
        little.
        """
        second = energies - 2 * self.recent[0] + self.recent[1]
        estimate = (second[:-1] - second[1:]) ** 2 / 6
        whole = self.compares(step, swap_every)
        count = self.count + whole.astype(self.count.dtype)
        averaged = jnp.clip(count, 1, MAX_AVERAGED_ESTIMATES).astype(estimate.dtype)
        share = jnp.where(whole, 1 / averaged, 0)
        variance = self.variance + share * (estimate - self.variance)
        return MeasuredVariance(jnp.stack([energies, self.recent[0]]), variance, count)


def pairs_due(step: Int[Array, ""], swap_every: Number, pairs: int) -> Bool[Array, " p"]:
    """The pairs that try a swap after a step: the even ones in one round, the odd ones in the next.

    A single pair tries in every round.

    >>> [pairs_due(jnp.asarray(step), 2, 3).tolist() for step in (1, 2, 4)]
    [[False, False, False], [True, False, True], [False, True, False]]
    """
    every = jnp.asarray(swap_every).astype(step.dtype)
    numbers, due = jnp.arange(pairs), step % every == 0
    if pairs == 1:
        return due[None]
    return due & (numbers % 2 == (step // every + 1) % 2)


def log_odds(
    energies: Float[Array, " k"],
    inverse_temperatures: Float[Array, " k"],
    energy_noise: tuple[Number, ...] | None,
    measured: MeasuredVariance | None,
) -> Float[Array, " p"]:
    """δ(Ũ_i − Ũ_j) − δ²v/2 with δ = λ_i − λ_j, for neighboring rungs."""
    delta = inverse_temperatures[:-1] - inverse_temperatures[1:]
    if energy_noise is not None:
        variance = jnp.stack([jnp.asarray(v).astype(delta.dtype) for v in energy_noise])
    else:
        assert measured is not None
        variance = jnp.where(measured.count > 0, measured.variance, jnp.inf)
    return delta * (energies[:-1] - energies[1:]) - 0.5 * delta**2 * variance


def accepted(
    due: Bool[Array, " p"], odds: Float[Array, " p"], normals: Float[Array, "2 p"]
) -> Bool[Array, " p"]:
    """The pairs whose swap is accepted, decided by two standard normals for each."""
    # Half the sum of two squared normals is distributed as −log of a uniform number.
    return due & (odds > -0.5 * jnp.sum(normals**2, axis=0))


def shifts(moved: Bool[Array, " p"], dtype: Any) -> Int[Array, " k"]:
    """How far the replica on each rung moves in swaps of disjoint pairs: −1, 0 or 1.

    >>> shifts(jnp.array([True, False, False]), int).tolist()
    [1, -1, 0, 0]
    """
    moves, edge = moved.astype(dtype), jnp.zeros(1, dtype)
    return jnp.concatenate([moves, edge]) - jnp.concatenate([edge, moves])


def checked_energy_noise(given: Any, pairs: int, swap_every: int) -> tuple[Number, ...] | None:
    """The variance for each pair of neighbors, or None if it is to be measured."""
    expected = f'a number >= 0, {pairs} of them (one for each pair of neighbors), or "measured"'
    if isinstance(given, str):
        if given != "measured":
            raise ValueError(f"energy_noise must be {expected}; got {given!r}")
        if swap_every < 3:
            raise ValueError(
                'energy_noise="measured" compares three steps without a swap between them:'
                f" swap_every must be at least 3; got {swap_every}"
            )
        return None
    several = tuple(given) if isinstance(given, (list, tuple)) or jnp.ndim(given) else (given,)
    for value in several:
        checks.non_negative("energy_noise", value)
    if len(several) not in (1, pairs):
        raise ValueError(f"energy_noise must be {expected}; got {given!r}")
    return several if len(several) == pairs else several * pairs
