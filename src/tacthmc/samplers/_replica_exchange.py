r"""Replica exchange: chains at several temperatures that trade places."""

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
"""A geometric ladder: neighbors' energies overlap alike all the way up."""

MEMORY = 10_000
"""Estimates that the measured variance is a mean of: all at first, about the last so many later."""


class Measured(eqx.Module):
    """The variance of Ũ_i − Ũ_{i+1} so far, and what the next estimate of it needs."""

    recent: Float[Array, "2 k"]
    """Energies by rung, one and two steps ago."""
    variance: Float[Array, " p"]
    count: Int[Array, ""]


class ReplicaState(eqx.Module):
    """All replicas, each on a rung of the ladder of temperatures.

    Replicas stay where they are in memory; what a swap moves is their rung.
    """

    position: Position
    """The coldest replica's θ, a copy of its row in ``replicas``."""
    replicas: State
    """All of them, with a leading axis."""
    rung: Int[Array, " k"]
    """Where each replica stands: 0 is the coldest."""
    tried: Int[Array, " p"]
    """Swaps tried of each pair of neighboring rungs."""
    accepted: Int[Array, " p"]
    measured: Measured | None
    step: Int[Array, ""]
    model: Any = None


class ReplicaNoise(NamedTuple):
    """The standard normals of one step: each replica's, and two for each pair's swap."""

    replicas: StepNoise
    swaps: Float[Array, "2 p"]


class Warmer(eqx.Module):
    """A schedule times a temperature."""

    rate: Any
    temperature: Array

    def __call__(self, step: Any) -> Array:
        """η(step)·T."""
        return rate_at(self.rate, step, self.temperature.dtype) * self.temperature


class ReplicaExchange(Sampler):
    """SGHMC at several temperatures with swaps; :func:`replica_exchange` makes it."""

    step_size: Rate
    injected: Rate
    mass: Any
    noise_estimate: Any
    temperatures: tuple[Number, ...]
    swap_every: Number
    energy_noise: tuple[Number, ...] | None
    """The variance for each pair of neighbors; None where it is measured."""

    @property
    def gradients_per_step(self) -> int:
        """One for each replica."""
        return len(self.temperatures)

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> ReplicaState:
        """Every replica at θ as given, with momenta from its own law N(0, ηT_k/m)."""
        position = checked(position)
        dtype, count = scalar_dtype(position), len(self.temperatures)

        def one(key: PRNGKey, temperature: Array) -> State:
            return self._at(temperature).init(key, position, model)

        measured = None
        if self.energy_noise is None:
            recent, variance = jnp.zeros((2, count), dtype), jnp.zeros(count - 1, dtype)
            measured = Measured(recent, variance, jnp.zeros((), int))
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
        """A step of every replica on the same batch, then swaps where they are due."""
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
        # Half the sum of two squared normals is −log of a uniform number.
        accepted = tried & (odds > -0.5 * jnp.sum(noise.swaps**2, axis=0))
        rung = _climbed(state.rung, accepted)
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
            # Of all replicas: one that is not finite shows, whichever it is.
            kinetic_temperature=_mean(each.kinetic_temperature),
            thermostat=_mean(each.thermostat),
            hot=rung[0] == len(self.temperatures) - 1,
        )
        return after, info

    def swap_rates(self, state: ReplicaState) -> Float[Array, "*c p"]:
        """The share of swaps that was accepted, for each pair of neighboring rungs.

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
        """SGHMC on U/T with η·T for η: the cold chain's step, drift and friction at any T."""
        rate = Warmer(self.step_size, temperature)
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
        self, energies: Array, ladder: Array, measured: Measured | None
    ) -> Float[Array, " p"]:
        """δ(Ũ_i − Ũ_j) − δ²v/2, δ = 1/T_i − 1/T_j, of neighboring rungs."""
        delta = 1 / ladder[:-1] - 1 / ladder[1:]
        if self.energy_noise is not None:
            variance = jnp.stack([jnp.asarray(v).astype(ladder.dtype) for v in self.energy_noise])
        else:
            assert measured is not None
            variance = jnp.where(measured.count > 0, measured.variance, jnp.inf)
        return delta * (energies[:-1] - energies[1:]) - 0.5 * delta**2 * variance

    def _measured(self, state: ReplicaState, energies: Array) -> Measured | None:
        """Second differences of Ũ_i − Ũ_j in time, whose mean square is 6v where θ moves little."""
        old = state.measured
        if old is None:
            return None
        second = energies - 2 * old.recent[0] + old.recent[1]
        estimate = (second[:-1] - second[1:]) ** 2 / 6
        # A swap in between would compare different replicas.
        whole = state.step % jnp.asarray(self.swap_every).astype(state.step.dtype) >= 2
        count = old.count + whole.astype(old.count.dtype)
        share = jnp.where(whole, 1 / jnp.clip(count, 1, MEMORY).astype(estimate.dtype), 0)
        variance = old.variance + share * (estimate - old.variance)
        return Measured(jnp.stack([energies, old.recent[0]]), variance, count)


def _climbed(rung: Int[Array, " k"], accepted: Bool[Array, " p"]) -> Int[Array, " k"]:
    """Rungs after swaps of pairs that have none in common."""
    moves, edge = accepted.astype(rung.dtype), jnp.zeros(1, rung.dtype)
    up, down = jnp.concatenate([moves, edge]), jnp.concatenate([edge, moves])
    return rung + (up - down)[rung]


def _rescaled(replica: State, scale: Array) -> State:
    """A replica at another temperature, as if it had changed in the middle of the step.

    The energies that decide are those of the middle, half a drift before the step's end: that
    half is made anew with the new momentum.
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
    r"""Replica-exchange SGHMC (Deng et al. 2020): several temperatures, neighbors trade places.

    .. math::
        d\theta_k = r_k, \qquad dr_k = \eta\tilde f(\theta_k) - c\,r_k + N(0, 2c\eta T_k)

    and every ``swap_every`` steps replicas on neighboring rungs i, j = i + 1 (even i in one
    round, odd i in the next) trade temperatures with probability

    .. math::
        \min\big(1, \exp\big(\delta(\tilde U_i - \tilde U_j) - \tfrac12\delta^2 v\big)\big),
        \qquad \delta = \frac1{T_i} - \frac1{T_j},

    v being the variance of the error of Ũ_i − Ũ_j. Leaves

    .. math:: \prod_k \exp(-U(\theta_k)/T_k)\,N(r_k; 0, \eta T_k)

    invariant as η → 0, so that the coldest replica, which alone is kept, follows the posterior.

    **The correction.** For a Gaussian error ε of variance v, E[exp(δ(Δ + ε) − δ²v/2)] = exp(δΔ).
    More than that: averaged over ε, the probability above is
    a(y) = Φ(y/s − s/2) + e^y·Φ(−y/s − s/2) with y = δΔ and s² = δ²v, and a(y) = e^y·a(−y). So
    detailed balance holds exactly, in spite of the min, at the price of fewer swaps.

    **The momenta** of a replica that goes from T_i to T_j are multiplied by √(T_j/T_i). That takes
    N(0, ηT_i) to N(0, ηT_j), and the two factors of a swap cancel: energies alone decide, and
    nothing has to be redrawn. (Momenta left as they are would have to enter the decision.)

    **Assumptions.** The error is Gaussian, and v is known and the same everywhere; all replicas
    of a chain are given the same batch, so v is that of the *difference*, which is less than the
    sum of two energies' and zero for noise that does not depend on θ. With errors of another law
    or another v, the cold replica comes out too hot (v too small) or swaps are rarer than they
    need be (v too large). The force's noise heats all replicas by ηv_f/(2c), as in
    :func:`tacthmc.sghmc`, unless ``noise_estimate`` says how much to leave out. The batch that
    decides a swap is also the step's own, which couples their errors to the order of η.

    A step costs as many gradients as there are replicas (``gradients_per_step``).
    ``run.round_trips`` counts the journeys coldest → hottest → coldest of one replica, and
    ``run.plateau_share`` is its share of time on the coldest rung: 1/K of K replicas, which is also
    the share of gradients spent on the posterior itself. ``run.sampler.swap_rates(run.state)`` has
    the acceptance of each pair.

    Args:
        step_size: η in full-data units, the same for all replicas.
        temperatures: T_k, from 1 upwards, at least two; a geometric ladder to 9 by default. The
            number that is needed grows with √D.
        swap_every: steps from one round of swaps to the next.
        noise: c, the level of injected noise and the friction per step.
        noise_estimate: v̂, as in :func:`tacthmc.sghmc`.
        energy_noise: v, one number or one for each pair of neighbors; or "measured": a running
            mean of the squared second differences of Ũ_i − Ũ_j in time over 6. That counts what is
            new in each batch, and of θ's motion only what is not steady over three steps, which
            makes v a little too large at a large η and T, never too small.
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
    expected = "at least two numbers that rise from 1, such as (1, 3, 9)"
    known = [checks.concrete(t) for t in ladder]
    plain = [float(t) for t in known if t is not None and t.shape == ()]
    if len(ladder) < 2 or any(t is not None and t.shape != () for t in known):
        raise ValueError(f"temperatures must be {expected}; got {temperatures!r}")
    if len(plain) == len(ladder):
        rising = all(a < b for a, b in pairwise(plain))
        if plain[0] != 1.0 or not rising:
            raise ValueError(f"temperatures must be {expected}; got {temperatures!r}")
        return tuple(plain)
    return ladder


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
