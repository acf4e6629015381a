r"""Replica exchange: chains at several temperatures that swap their temperatures."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from tacthmc import _checks as checks
from tacthmc._positions import checked, rate_at, scalar_dtype
from tacthmc._typing import Batch, Number, Position, PRNGKey, Rate
from tacthmc.compiler._random import normals
from tacthmc.dynamics import Info, Langevin, NoThermostat, Sampler, State, StepNoise
from tacthmc.potentials import Potential, at_temperature

LADDER = (1.0, 9.0 ** (1 / 3), 9.0 ** (2 / 3), 9.0)
"""A geometric ladder, on which the energies of all pairs of neighbors overlap equally."""

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


class ReplicaState(eqx.Module):
    """All replicas, each on a rung of the ladder of temperatures.

    Replicas keep their place in memory. A swap changes their rungs.
    """

    position: Position
    """θ of the coldest replica, a copy of its row in ``replicas``."""
    replicas: State
    """The states of all replicas, with a leading axis."""
    rung: Int[Array, " k"]
    """The rung of each replica; 0 is the coldest."""
    tried: Int[Array, " p"]
    """The number of swaps tried for each pair of neighboring rungs."""
    accepted: Int[Array, " p"]
    """The number of swaps accepted for each pair of neighboring rungs."""
    measured: MeasuredVariance | None
    """The measured variance of the energy, if it is to be measured."""
    step: Int[Array, ""]
    """The number of steps made."""
    model: Any = None


class ReplicaNoise(NamedTuple):
    """The standard normals of one step: for each replica, and two for the swap of each pair."""

    replicas: StepNoise
    swaps: Float[Array, "2 p"]


class HeatedRate(eqx.Module):
    """A rate times a temperature."""

    rate: Any
    temperature: Array

    def __call__(self, step: Any) -> Array:
        """η·T at a step."""
        return rate_at(self.rate, step, self.temperature.dtype) * self.temperature


class ReplicaExchange(Sampler):
    """SGHMC at several temperatures with swaps, as made by :func:`replica_exchange`."""

    step_size: Rate
    injected: Rate
    mass: Any
    noise_estimate: Any
    temperatures: tuple[Number, ...]
    swap_every: Number
    energy_noise: tuple[Number, ...] | None
    """The variance for each pair of neighbors, or None if it is measured."""

    @property
    def gradients_per_step(self) -> int:
        """One per replica."""
        return len(self.temperatures)

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> ReplicaState:
        """Every replica at ``position``, with momenta from its own law N(0, ηT_k/m)."""
        position = checked(position)
        dtype, count = scalar_dtype(position), len(self.temperatures)

        def one(key: PRNGKey, temperature: Array) -> State:
            return self._at(temperature).init(key, position, model)

        measured = None
        if self.energy_noise is None:
            recent, variance = jnp.zeros((2, count), dtype), jnp.zeros(count - 1, dtype)
            measured = MeasuredVariance(recent, variance, jnp.zeros((), int))
        return ReplicaState(
            position=position,
            replicas=jax.vmap(one)(jax.random.split(key, count), self._ladder(dtype)),
            rung=jnp.arange(count),
            tried=jnp.zeros(count - 1, int),
            accepted=jnp.zeros(count - 1, int),
            measured=measured,
            step=jnp.zeros((), int),
            model=model,
        )

    def noise(self, key: PRNGKey, position: Position) -> ReplicaNoise:
        """Standard normals for all replicas and swaps."""
        count = len(self.temperatures)
        like = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), position)
        theta, extra = normals(key, like, extra=2 * (count - 1))
        return ReplicaNoise(
            StepNoise(theta, jnp.zeros((count, 0)), None), extra.reshape(2, count - 1)
        )

    def advance(
        self, noise: ReplicaNoise, state: ReplicaState, potential: Potential, batch: Batch
    ) -> tuple[ReplicaState, Info]:
        """A step of every replica on the same batch, then swaps if they are due."""
        if potential.traits.is_split:
            raise ValueError(
                "replica exchange heats the whole energy: give it the potential without"
                " temper_likelihood or temper_block"
            )
        ladder = self._ladder(scalar_dtype(state.position))
        before = ladder[state.rung]

        def one(noise: StepNoise, replica: State, temperature: Array) -> tuple[State, Info]:
            own = at_temperature(potential, temperature)
            return self._at(temperature).advance(noise, replica, own, batch)

        replicas, each = jax.vmap(one)(noise.replicas, state.replicas, before)
        energies = each.energy * before
        here = jnp.arange(len(self.temperatures))[:, None] == state.rung[None, :]
        by_rung = energies[jnp.argmax(here, axis=1)]
        tried = self._pairs_due(state.step + 1)
        odds = self._log_odds(by_rung, ladder, state.measured)
        # Half the sum of two squared normals is distributed as −log of a uniform number.
        accepted = tried & (odds > -0.5 * jnp.sum(noise.swaps**2, axis=0))
        rung = _swapped(state.rung, accepted)
        replicas = jax.vmap(_rescaled)(replicas, jnp.sqrt(ladder[rung] / before))
        cold = jnp.argmin(rung)
        after = ReplicaState(
            position=jax.tree.map(lambda x: x[cold], replicas.position),
            replicas=replicas,
            rung=rung,
            tried=state.tried + tried.astype(state.tried.dtype),
            accepted=state.accepted + accepted.astype(state.accepted.dtype),
            measured=self._measured(state, by_rung),
            step=state.step + 1,
            model=jax.tree.map(lambda x: x[cold], replicas.model),
        )
        info = Info(
            energy=energies[cold],
            at_unit_temperature=rung[0] == 0,
            is_draw=jnp.asarray(True),
            # The mean over all replicas, so that any replica that is not finite shows.
            kinetic_temperature=_mean(each.kinetic_temperature),
            thermostat=_mean(each.thermostat),
            hot=rung[0] == len(self.temperatures) - 1,
        )
        return after, info

    def swap_rates(self, state: ReplicaState) -> Float[Array, "*c p"]:
        """The acceptance rate of swaps for each pair of neighboring rungs.

        >>> import jax, jax.numpy as jnp, tacthmc
        >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
        >>> sampler = tacthmc.replica_exchange(0.1, temperatures=(1, 2, 4))
        >>> run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(2), 10_000)
        >>> bool((sampler.swap_rates(run.state) > 0.3).all())
        True
        """
        return state.accepted / jnp.maximum(state.tried, 1)

    def _ladder(self, dtype: Any) -> Float[Array, " k"]:
        return jnp.stack([jnp.asarray(t).astype(dtype) for t in self.temperatures])

    def _at(self, temperature: Array) -> Langevin:
        """SGHMC on U/T with the step size η·T, so that drift and friction are equal for all T."""
        rate = HeatedRate(self.step_size, temperature)
        known = jax.tree.map(
            lambda v: jnp.asarray(v).astype(temperature.dtype) / temperature**2,
            self.noise_estimate,
        )
        return Langevin(
            rate if callable(self.step_size) else rate(0),
            noise=self.injected,
            thermostat=NoThermostat(),
            noise_estimate=known,
            mass=self.mass,
        )

    def _pairs_due(self, step: Array) -> Bool[Array, " p"]:
        every = jnp.asarray(self.swap_every).astype(step.dtype)
        pairs, due = jnp.arange(len(self.temperatures) - 1), step % every == 0
        if len(pairs) == 1:
            return due[None]
        return due & (pairs % 2 == (step // every + 1) % 2)

    def _log_odds(
        self, energies: Array, ladder: Array, measured: MeasuredVariance | None
    ) -> Float[Array, " p"]:
        """δ(Ũ_i − Ũ_j) − δ²v/2 with δ = 1/T_i − 1/T_j, for neighboring rungs."""
        delta = 1 / ladder[:-1] - 1 / ladder[1:]
        if self.energy_noise is not None:
            variance = jnp.stack([jnp.asarray(v).astype(ladder.dtype) for v in self.energy_noise])
        else:
            assert measured is not None
            variance = jnp.where(measured.count > 0, measured.variance, jnp.inf)
        return delta * (energies[:-1] - energies[1:]) - 0.5 * delta**2 * variance

    def _measured(self, state: ReplicaState, energies: Array) -> MeasuredVariance | None:
        """Estimate v from second differences of Ũ_i − Ũ_j in time.

        Their mean square is 6v if θ moves little.
        """
        old = state.measured
        if old is None:
            return None
        second = energies - 2 * old.recent[0] + old.recent[1]
        estimate = (second[:-1] - second[1:]) ** 2 / 6
        # A swap in between would compare different replicas.
        whole = state.step % jnp.asarray(self.swap_every).astype(state.step.dtype) >= 2
        count = old.count + whole.astype(old.count.dtype)
        averaged = jnp.clip(count, 1, MAX_AVERAGED_ESTIMATES).astype(estimate.dtype)
        share = jnp.where(whole, 1 / averaged, 0)
        variance = old.variance + share * (estimate - old.variance)
        return MeasuredVariance(jnp.stack([energies, old.recent[0]]), variance, count)


def _swapped(rung: Int[Array, " k"], accepted: Bool[Array, " p"]) -> Int[Array, " k"]:
    """The rungs after swaps of disjoint pairs."""
    moves, edge = accepted.astype(rung.dtype), jnp.zeros(1, rung.dtype)
    up, down = jnp.concatenate([moves, edge]), jnp.concatenate([edge, moves])
    return rung + (up - down)[rung]


def _rescaled(replica: State, scale: Array) -> State:
    """A replica at another temperature, as if it had changed in the middle of the step.

    The energies that decide on swaps are those of the middle, half a drift before the end of the
    step. That half drift is repeated with the new momentum.
    """

    def moved(x: Array, r: Array) -> Array:
        return x + 0.5 * (scale - 1).astype(x.dtype) * r

    momentum = jax.tree.map(lambda r: scale.astype(r.dtype) * r, replica.momentum)
    position = jax.tree.map(moved, replica.position, replica.momentum)
    return replace(replica, position=position, momentum=momentum)


def _mean(values: Array | None) -> Array | None:
    return None if values is None else jnp.mean(values)


def replica_exchange(
    step_size: Rate,
    *,
    temperatures: Sequence[Number] = LADDER,
    swap_every: int = 10,
    noise: Rate = 0.1,
    noise_estimate: Any = None,
    energy_noise: Number | Sequence[Number] | Literal["measured"] = 0.0,
    mass: Any = 1.0,
) -> ReplicaExchange:
    r"""Replica-exchange SGHMC (Deng et al. 2020): replicas at several temperatures, with swaps.

    .. math::
        d\theta_k = r_k, \qquad dr_k = \eta\tilde f(\theta_k) - c\,r_k + N(0, 2c\eta T_k)

    Every ``swap_every`` steps replicas on neighboring rungs i, j = i + 1 (even i in one round, odd
    i in the next) swap temperatures with probability

    .. math::
        \min\big(1, \exp\big(\delta(\tilde U_i - \tilde U_j) - \tfrac12\delta^2 v\big)\big),
        \qquad \delta = \frac1{T_i} - \frac1{T_j},

    where v is the variance of the error of Ũ_i − Ũ_j. The sampler leaves

    .. math:: \prod_k \exp(-U(\theta_k)/T_k)\,N(r_k; 0, \eta T_k)

    invariant as η → 0. Only the coldest replica is kept, and it follows the posterior.

    **The correction.** For a Gaussian error ε of variance v, E[exp(δ(Δ + ε) − δ²v/2)] = exp(δΔ).
    In addition, the probability above averaged over ε is
    a(y) = Φ(y/s − s/2) + e^y·Φ(−y/s − s/2) with y = δΔ and s² = δ²v, and a(y) = e^y·a(−y). So
    detailed balance holds exactly, in spite of the min, at the price of fewer swaps.

    **The momenta** of a replica that moves from T_i to T_j are multiplied by √(T_j/T_i). That maps
    N(0, ηT_i) to N(0, ηT_j), and the factors of the two replicas cancel. So the energies alone
    decide, and no momentum has to be drawn afresh. (Unchanged momenta would enter the decision.)

    **Assumptions.** The error is Gaussian, and v is known and the same everywhere. All replicas
    of a chain get the same batch, so v is the variance of the *difference*. It is smaller than the
    sum of the variances of two energies, and zero for noise that does not depend on θ. If v is too
    small, the cold replica is too hot; if v is too large, swaps are rarer than necessary. The noise
    of the force heats all replicas by ηv_f/(2c), as in :func:`tacthmc.sghmc`, unless
    ``noise_estimate`` compensates for it. The batch that decides a swap is also that of the step,
    which couples their errors to the order of η.

    A step costs as many gradients as there are replicas (``gradients_per_step``).
    ``run.round_trips`` counts the trips coldest → hottest → coldest of one replica.
    ``run.plateau_share`` is its share of time on the coldest rung, 1/K for K replicas, which is
    also the share of gradients spent on the posterior itself.
    ``run.sampler.swap_rates(run.state)`` has the acceptance rate of each pair.

    Args:
        step_size: η in full-data units, the same for all replicas.
        temperatures: T_k, at least two numbers that rise from 1; by default a geometric ladder to
            9. The required number of temperatures grows as √D.
        swap_every: the number of steps between rounds of swaps.
        noise: c, the level of injected noise and the friction per step.
        noise_estimate: v̂, as in :func:`tacthmc.sghmc`.
        energy_noise: v, one number or one for each pair of neighbors; or "measured": a running
            mean of the squared second differences of Ũ_i − Ũ_j in time, over 6. Second differences
            contain the noise of each batch, and only the unsteady part of the motion of θ over
            three steps. At a large η and T this makes v slightly too large, never too small.
        mass: as in :func:`tacthmc.tact`.

    References: W. Deng, Q. Feng, L. Gao, F. Liang, G. Lin. *Non-convex learning via replica
    exchange stochastic gradient MCMC.* ICML 2020. D. Ceperley, M. Dewing. *The penalty method for
    random walks with uncertain energies.* J. Chem. Phys. 1999. S. Syed, A. Bouchard-Côté,
    G. Deligiannidis, A. Doucet. *Non-reversible parallel tempering.* JRSS B 2022.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 4.0 * jnp.sum((x**2 - 1.0) ** 2))
    >>> sampler = replica_exchange(1e-2)
    >>> run = tacthmc.sample(jax.random.key(0), sampler, target, init=jnp.ones(1),
    ...                      num_steps=10_000, num_chains=4)
    >>> bool((run.draws > 0.5).any() and (run.draws < -0.5).any())     # both wells
    True
    >>> sampler.gradients_per_step
    4
    """
    checks.positive("step_size", step_size)
    checks.non_negative("noise", noise)
    for leaf in jax.tree.leaves(mass):
        checks.positive("mass", leaf)
    for leaf in jax.tree.leaves(noise_estimate):
        checks.non_negative("noise_estimate", leaf)
    checks.whole("swap_every", swap_every, 1)
    ladder = _checked_ladder(temperatures)
    return ReplicaExchange(
        step_size=step_size,
        injected=noise,
        mass=mass,
        noise_estimate=noise_estimate,
        temperatures=ladder,
        swap_every=swap_every,
        energy_noise=_checked_energy_noise(energy_noise, len(ladder) - 1, swap_every),
    )


def _checked_ladder(temperatures: Any) -> tuple[Number, ...]:
    ladder = tuple(temperatures)
    for one in ladder:
        checks.positive("temperatures", one, "finite numbers > 0")
    # Traced numbers are unknown here and not checked.
    known = [value for value in map(checks.concrete, ladder) if value is not None]
    scalars = all(value.shape == () for value in known)
    traced = len(known) < len(ladder)
    if len(ladder) < 2 or not scalars or not (traced or _rises_from_one(known)):
        raise ValueError(
            "temperatures must be at least two numbers that rise from 1, such as (1, 3, 9); got"
            f" {temperatures!r}"
        )
    return ladder if traced else tuple(float(value) for value in known)


def _rises_from_one(ladder: Sequence[Any]) -> bool:
    return bool(ladder[0] == 1.0) and all(bool(a < b) for a, b in pairwise(ladder))


def _checked_energy_noise(given: Any, pairs: int, swap_every: int) -> tuple[Number, ...] | None:
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
