r"""Replicas at several temperatures, with swaps: SGHMC on U/T."""

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from tacthmc._positions import checked, rate_at, scalar_dtype
from tacthmc._typing import Batch, Number, Position, PRNGKey, Rate, Scalar
from tacthmc.compiler._random import normals
from tacthmc.dynamics import Info, Langevin, NoThermostat, Sampler, State, StepNoise
from tacthmc.potentials import Potential, at_temperature
from tacthmc.samplers import _replica_swaps as swaps
from tacthmc.samplers._path_potential import advanced_on_path


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
    measured: swaps.MeasuredVariance | None
    """The measured variance of the energy, if it is to be measured."""
    step: Int[Array, ""]
    """The number of steps made."""
    model: Any = None


class ReplicaNoise(NamedTuple):
    """The standard normals of one step: for each replica, and two for the swap of each pair."""

    replicas: StepNoise
    swaps: Float[Array, "2 p"]


class ScaledRate(eqx.Module):
    """A rate times a number."""

    rate: Any
    speed: Array

    def __call__(self, step: Any) -> Array:
        """The product at a step."""
        return rate_at(self.rate, step, self.speed.dtype) * self.speed


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
            return self._at(temperature, temperature).init(key, position, model)

        measured = None
        if self.energy_noise is None:
            measured = swaps.MeasuredVariance.nothing(count, dtype)
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
        ladder = self._ladder(scalar_dtype(state.position))
        before = ladder[state.rung]
        is_split = potential.traits.is_split
        advanced = self._on_path if is_split else self._heated
        replicas, each, energies, tempered = jax.vmap(
            lambda noise, replica, temperature: advanced(
                noise, replica, potential, batch, temperature
            )
        )(noise.replicas, state.replicas, before)
        here = jnp.arange(len(self.temperatures))[:, None] == state.rung[None, :]
        by_rung = tempered[jnp.argmax(here, axis=1)]
        due = self._pairs_due(state.step + 1)
        odds = swaps.log_odds(by_rung, 1 / ladder, self.energy_noise, state.measured)
        accepted = swaps.accepted(due, odds, noise.swaps)
        rung = state.rung + swaps.shifts(accepted, state.rung.dtype)[state.rung]
        scale = jnp.ones_like(before) if is_split else jnp.sqrt(ladder[rung] / before)
        replicas = jax.vmap(_rescaled)(replicas, scale)
        measured = state.measured
        if measured is not None:
            measured = measured.after(by_rung, state.step, self.swap_every)
        cold = jnp.argmin(rung)
        after = ReplicaState(
            position=jax.tree.map(lambda x: x[cold], replicas.position),
            replicas=replicas,
            rung=rung,
            tried=state.tried + due.astype(state.tried.dtype),
            accepted=state.accepted + accepted.astype(state.accepted.dtype),
            measured=measured,
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

    def _heated(
        self, noise: StepNoise, replica: State, potential: Potential, batch: Batch, heat: Array
    ) -> tuple[State, Info, Scalar, Scalar]:
        """A step at U/T, with the step size η·T so that drift and friction are equal for all T."""
        own = at_temperature(potential, heat)
        after, info = self._at(heat, heat).advance(noise, replica, own, batch)
        energy = info.energy * heat
        return after, info, energy, energy

    def _on_path(
        self, noise: StepNoise, replica: State, potential: Potential, batch: Batch, heat: Array
    ) -> tuple[State, Info, Scalar, Scalar]:
        """A step at U0 + U1/T, with the step size η, because heat does not flatten U0."""
        dynamics = self._at(jnp.ones_like(heat), heat)

        def advance(state: State, path: Potential) -> tuple[State, Info]:
            return dynamics.advance(noise, state, path, batch)

        after, info, parts = advanced_on_path(advance, replica, potential, 1 / heat)
        return after, info, parts.fixed + parts.tempered, parts.tempered

    def _at(self, speed: Array, temperature: Array) -> Langevin:
        """SGHMC with the step size η·speed, for the noise of ∇Ũ/T."""
        rate = ScaledRate(self.step_size, speed)
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
        return swaps.pairs_due(step, self.swap_every, len(self.temperatures) - 1)


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
