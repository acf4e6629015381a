r"""Replicas on a path from a base to the target, with swaps: parallel tempering."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tacthmc._positions import checked, scalar_dtype
from tacthmc._typing import Batch, Number, Position, PRNGKey
from tacthmc.compiler._random import normals
from tacthmc.dynamics import Info, Sampler
from tacthmc.potentials import Potential
from tacthmc.samplers import _replica_swaps as swaps
from tacthmc.samplers._base_density import BasedPotential, GaussianBase, with_base
from tacthmc.samplers._conditional_weights import LogEvidence
from tacthmc.samplers._gaussian_reference import Gaussian, GaussianReference
from tacthmc.samplers._local_move import Energies, LocalMove
from tacthmc.samplers._replica_ladder import Barrier
from tacthmc.samplers._replica_sums import RecentSums, bridge_terms, log_ratio


class PathState(eqx.Module):
    """All replicas by rung; 0 is the target."""

    position: Position
    """θ of the replica at the target."""
    replicas: Any
    """What the local move needs of each replica, with a leading axis of rungs."""
    number: Int[Array, " k"]
    """The number of the replica on each rung. A swap exchanges the numbers of two rungs."""
    from_base: Array
    """Whether the replica on each rung has been at the base since it was last at the target."""
    round_trips: Int[Array, ""]
    """How often a replica arrived at the target from the base."""
    sums: RecentSums
    measured: swaps.MeasuredVariance | None
    """The measured variance of the energy, if it is to be measured."""
    step: Int[Array, ""]
    model: Any = None


class PathNoise(NamedTuple):
    """The standard normals of one step."""

    replicas: Position
    """Those of θ, with a leading axis of rungs. The last ones may be a draw from the base."""
    extra: Float[Array, "k e"]
    swaps: Float[Array, "2 p"]


class ReplicaPath(Sampler):
    """Replicas on a path from a base to the target, as made by :func:`replica_exchange`."""

    inverse_temperatures: Float[Array, " k"]
    """λ of each rung, from 1 on."""
    move: LocalMove
    base: Potential | None
    """The base of a potential that is not tempered in part."""
    reference: Gaussian | None
    """The Gaussian at λ = 0, if it is known to be one."""
    energy_noise: tuple[Number, ...] | None
    """The variance for each pair of neighbors, or None if it is measured."""
    tuning: Any
    """The choices of :func:`tacthmc.tune` and their reasons; None for numbers given by hand."""
    swap_every: int = eqx.field(static=True)
    ends_at_base: bool = eqx.field(static=True)
    """Whether the last λ is 0."""

    def __init__(
        self,
        inverse_temperatures: Float[np.ndarray, " k"],
        move: LocalMove,
        *,
        base: Potential | None = None,
        reference: Gaussian | None = None,
        energy_noise: tuple[Number, ...] | None,
        swap_every: int = 1,
        tuning: Any = None,
    ):
        """Join the parts; :func:`replica_exchange` explains them."""
        self.inverse_temperatures = jnp.asarray(inverse_temperatures, float)
        self.move, self.base, self.energy_noise = move, base, energy_noise
        is_gaussian = isinstance(base, (GaussianBase, GaussianReference))
        self.reference = base if is_gaussian and reference is None else reference
        self.swap_every, self.tuning = swap_every, tuning
        self.ends_at_base = bool(inverse_temperatures[-1] == 0)

    @property
    def rungs(self) -> int:
        """The number of replicas."""
        return self.inverse_temperatures.shape[-1]

    @property
    def gradients_per_step(self) -> int:
        """The sum over replicas. Drawing from the base takes one energy, counted as a gradient."""
        drawn = self.ends_at_base and self.reference is not None
        return (self.rungs - drawn) * self.move.gradients + drawn

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> PathState:
        """Every replica at ``position``."""
        position, rungs = checked(position), self.rungs
        several = jax.tree.map(lambda x: jnp.broadcast_to(x, (rungs, *x.shape)), position)
        return self.init_at(key, several, model)

    def init_at(self, key: PRNGKey, positions: Position, model: Any = None) -> PathState:
        """The first state of a chain with a position for each rung, the target first."""
        dtype, rungs, measured = scalar_dtype(positions), self.rungs, None
        if self.energy_noise is None:
            measured = swaps.MeasuredVariance.nothing(rungs, dtype)
        return PathState(
            # A copy, because states are donated.
            position=jax.tree.map(lambda x: jnp.copy(x[0]), positions),
            replicas=self.move.init(key, positions, model),
            number=jnp.arange(rungs),
            from_base=jnp.zeros(rungs, bool),
            round_trips=jnp.zeros((), int),
            sums=RecentSums.empty(rungs, dtype),
            measured=measured,
            step=jnp.zeros((), int),
            model=model,
        )

    def noise(self, key: PRNGKey, position: Position) -> PathNoise:
        """Standard normals for all replicas and swaps."""
        rungs, pairs = self.rungs, self.rungs - 1
        like = jax.tree.map(lambda x: jnp.broadcast_to(x, (rungs, *x.shape)), position)
        each = rungs * self.move.extra_normals
        theta, extra = normals(key, like, extra=each + 2 * pairs)
        return PathNoise(theta, extra[:each].reshape(rungs, -1), extra[each:].reshape(2, pairs))

    def advance(
        self, noise: PathNoise, state: PathState, potential: Potential, batch: Batch
    ) -> tuple[PathState, Info]:
        """A step of every replica, then swaps if they are due."""
        path = self._path(potential)
        dtype = scalar_dtype(state.position)
        lam = self.inverse_temperatures.astype(dtype)
        replicas, energies, report = self._moved(noise, state, path, lam, batch)
        # Neighbors compare Ũ1 where a swap would exchange them.
        odds = swaps.log_odds(energies.tempered, lam, self.energy_noise, state.measured)
        step = state.step + 1
        due = swaps.pairs_due(step, self.swap_every, self.rungs - 1)
        taken = swaps.accepted(due, odds, noise.swaps)
        source = jnp.arange(self.rungs) + swaps.shifts(taken, int)
        measured, terms = state.measured, bridge_terms(energies.tempered, lam)
        if measured is not None:
            same = measured.compares(state.step, self.swap_every)
            terms = bridge_terms(energies.tempered, lam, measured.recent, same)
            measured = measured.after(energies.tempered, state.step, self.swap_every)
        replicas = self.move.exchanged(replicas, source)
        number, came = state.number[source], state.from_base.at[-1].set(True)[source]
        cold = jax.tree.map(lambda x: x[0], replicas)
        after = PathState(
            position=self.move.position(cold),
            replicas=replicas,
            number=number,
            from_base=came.at[0].set(False),
            round_trips=state.round_trips + came[0].astype(state.round_trips.dtype),
            sums=state.sums.after(state.sums.now.plus(odds, terms, report.accepted)),
            measured=measured,
            step=step,
            model=cold.model,
        )
        total = energies.fixed + energies.tempered
        info = Info(
            energy=total[source[0]],
            at_unit_temperature=number[0] == 0,
            is_draw=jnp.asarray(True),
            kinetic_temperature=report.kinetic_temperature,
            thermostat=report.thermostat,
            hot=number[-1] == 0,
        )
        return after, info

    def _path(self, potential: Potential) -> Potential:
        """The potential with its parts U0 and U1."""
        self.move.check(potential)
        if potential.traits.is_split:
            if self.base is not None:
                raise ValueError(
                    "the potential is tempered in part, which sets the base: leave out base"
                )
            return potential
        if self.base is None:
            raise ValueError(
                "replicas on a path need a base: replica_exchange(…, base=samplers.gaussian_base("
                "mean, scale)), or a potential from tacthmc.temper_likelihood or samplers.with_base"
            )
        return with_base(potential, self.base)

    def _gaussian(self, path: Potential) -> Gaussian | None:
        """The Gaussian from which the replica at λ = 0 is drawn, if there is one."""
        if not self.ends_at_base:
            return None
        if self.reference is not None:
            return self.reference
        base = path.base if isinstance(path, BasedPotential) else None
        return base if isinstance(base, (GaussianBase, GaussianReference)) else None

    def _moved(
        self,
        noise: PathNoise,
        state: PathState,
        path: Potential,
        lam: Float[Array, " k"],
        batch: Batch,
    ) -> tuple[Any, Energies, Any]:
        """All replicas after the local moves, and the last one perhaps drawn from the base."""
        gaussian = self._gaussian(path)
        count = self.rungs - (gaussian is not None)
        normal, extra, replicas = jax.tree.map(
            lambda x: x[:count], (noise.replicas, noise.extra, state.replicas)
        )
        replicas, energies, report = self.move.moved(
            (normal, extra), replicas, path, lam[:count], batch
        )
        if gaussian is None:
            return replicas, energies, report
        last, normal = jax.tree.map(lambda x: x[-1], (state.replicas, noise.replicas))
        # It stays there until the next swap, so that the noise of its energy can be measured.
        due = state.step % self.swap_every == 0
        position = jax.tree.map(
            lambda new, old: jnp.where(due, new, old),
            gaussian.drawn(normal),
            self.move.position(last),
        )
        base, own = self.move.placed(last, position, path, batch)

        def appended(some: Any, one: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), some, one)

        return appended(replicas, base), appended(energies, own), report

    def barrier(self, state: PathState) -> Barrier:
        """The barrier Λ along the ladder, from the mean rejection rates of all chains.

        >>> import jax, jax.numpy as jnp, tacthmc
        >>> from tacthmc.samplers import gaussian_base
        >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
        >>> sampler = tacthmc.replica_exchange(
        ...     1.0, inverse_temperatures=(1, 0.2, 0), base=gaussian_base(0.0, 5.0), num_leapfrog=2)
        >>> run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(2), 4_000, 4)
        >>> bool(abs(sampler.barrier(run.state).total - 1.33) < 0.05)
        True
        """
        rates = np.asarray(state.sums.mean("rejected"), float).reshape(-1, self.rungs - 1)
        lam = np.asarray(self.inverse_temperatures, float)
        return Barrier(lam if lam.ndim == 1 else lam[0], rates.mean(axis=0))

    def swap_rates(self, state: PathState) -> Float[Array, "*c p"]:
        """The mean probability that a swap is accepted, for each pair of neighbors."""
        return 1 - state.sums.mean("rejected")

    def acceptance_rates(self, state: PathState) -> Float[Array, "*c k"]:
        """The mean probability that a local move is accepted on each rung.

        It is zero on a rung that is drawn from the base, and without a Metropolis test.
        """
        return state.sums.mean("moved")

    def evidence(self, state: PathState) -> LogEvidence:
        r"""log Z of the target relative to the base, and its standard error.

        Z is ∫exp(−U) for a normalized base such as :func:`tacthmc.samplers.gaussian_base`, and the
        marginal likelihood for a normalized prior. A ladder that ends at λ > 0 gives
        ∫exp(−U)/∫exp(−U0 − λU1).

        It comes from the last three quarters of all steps, by geometric bridges between neighbors
        (:mod:`tacthmc.samplers._replica_sums`). The error is that by the differences between chains
        or between batches of steps, whichever is larger.

        >>> import jax, jax.numpy as jnp, tacthmc
        >>> from tacthmc.samplers import gaussian_base
        >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
        >>> sampler = tacthmc.replica_exchange(
        ...     1.0, inverse_temperatures=(1, 0.2, 0), base=gaussian_base(0.0, 5.0), num_leapfrog=2)
        >>> run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(2), 4_000, 4)
        >>> found = sampler.evidence(run.state)
        >>> bool(abs(found.value - jnp.log(2 * jnp.pi)) < 0.1), found.error < 0.05
        (True, True)
        """
        return log_ratio(state.sums)
