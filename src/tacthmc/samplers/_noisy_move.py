r"""Langevin dynamics by estimates of the energy: the local move of replicas with noisy energies."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tacthmc._typing import Batch, Position, PRNGKey, Scalar
from tacthmc.dynamics import Info, Langevin, State, StepNoise
from tacthmc.potentials import Potential
from tacthmc.samplers._local_move import Energies, LocalMove, Report
from tacthmc.samplers._path_potential import Parts, advanced_on_path


class NoisyMove(LocalMove):
    r"""One step of SGHMC or SGNHT on each rung, all with the same batch.

    It leaves

    .. math:: \exp(-U_0(\theta) - \lambda_k U_1(\theta))\,N(r; 0, \eta_k/m)

    times the law of the thermostat invariant as η_k → 0. Momenta and thermostats are independent of
    θ in it and belong to a rung. So a swap exchanges places only, and the energies alone decide.
    The energies of a step are those of its middle, half a drift before its end. A swap exchanges
    those places, and each half drift is then made with the momentum of the new rung.
    """

    dynamics: Langevin
    """The dynamics, with a step size that :attr:`step_sizes` replaces."""
    step_sizes: Float[Array, " k"]

    @property
    def gradients(self) -> int:
        return 1

    @property
    def extra_normals(self) -> int:
        return 0

    def check(self, potential: Potential) -> None:
        pass

    def init(self, key: PRNGKey, positions: Position, model: Any) -> State:
        def one(key: PRNGKey, position: Position, step_size: Array) -> State:
            return self._at(step_size).init(key, position, model)

        keys = jax.random.split(key, self.step_sizes.shape[0])
        return jax.vmap(one)(keys, positions, self.step_sizes)

    def moved(
        self,
        normal: tuple[Position, Float[Array, "k e"]],
        replicas: State,
        potential: Potential,
        lam: Float[Array, " k"],
        batch: Batch,
    ) -> tuple[State, Energies, Report]:
        """One step of each replica."""

        def one(
            normal: Position, state: State, lam: Scalar, step_size: Array
        ) -> tuple[State, Info, Parts]:
            noise = StepNoise(normal, jnp.zeros(0, lam.dtype), None)

            def advance(state: State, path: Potential) -> tuple[State, Info]:
                return self._at(step_size).advance(noise, state, path, batch)

            return advanced_on_path(advance, state, potential, lam)

        after, info, parts = jax.vmap(one)(
            normal[0], replicas, lam, self.step_sizes[: lam.shape[0]]
        )
        # The mean over all replicas, so that any replica that is not finite shows.
        report = Report(None, _mean(info.kinetic_temperature), _mean(info.thermostat))
        return after, Energies(parts.fixed, parts.tempered), report

    def placed(
        self, replica: State, position: Position, potential: Potential, batch: Batch
    ) -> tuple[State, Energies]:
        energy = potential.estimate(position, batch, replica.model)
        dtype = jax.tree.leaves(replica.momentum)[0].dtype
        found = [jnp.asarray(x).astype(dtype) for x in (energy.fixed, energy.tempered)]
        inside = self.dynamics.coordinates.from_theta(position)
        rest = jax.tree.map(jnp.zeros_like, replica.momentum)
        after = replace(replica, position=inside, momentum=rest, model=energy.model)
        return after, Energies(*found)

    def exchanged(self, replicas: State, source: Int[Array, " k"]) -> State:
        moved = source != jnp.arange(source.shape[0])

        def one(x: Array, r: Array, moved: Array) -> Array:
            there = (x - 0.5 * r)[source] + 0.5 * r
            # A replica that stays keeps all digits.
            return jnp.where(moved.reshape(-1, *[1] * (x.ndim - 1)), there, x)

        position = jax.tree.map(partial(one, moved=moved), replicas.position, replicas.momentum)
        model = jax.tree.map(lambda x: x[source], replicas.model)

        def at(replica: State, position: Position, model: Any) -> State:
            return replace(replica, position=position, model=model)

        return jax.vmap(at)(replicas, position, model)

    def position(self, replica: State) -> Position:
        return self.dynamics.position(replica)

    def _at(self, step_size: Array) -> Langevin:
        return eqx.tree_at(lambda d: d.step_size, self.dynamics, step_size)


def _mean(values: Array | None) -> Array | None:
    return None if values is None else jnp.mean(values)
