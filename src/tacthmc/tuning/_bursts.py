"""Bursts: short runs at one temperature."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc._positions import dimension, flatten, scalar_dtype, unflatten
from tacthmc._typing import Batch, Position, PRNGKey, Scalar
from tacthmc.dynamics import ScalarThermostat, TensorThermostat, Thermostat
from tacthmc.potentials import (
    CovarianceTerm,
    Energy,
    Potential,
    Traits,
    WrappedPotential,
    forces,
)
from tacthmc.run._failure import DivergedWarning
from tacthmc.run._keep import Keep
from tacthmc.run._result import Run
from tacthmc.run._sample import run_chains
from tacthmc.run._start import PerChain
from tacthmc.samplers import sgnht
from tacthmc.tuning._thermostats import thermostat_steps

MAX_DRAW_NUMBERS = 1 << 24
"""The largest number of values in the draws of one burst."""
MIN_FRICTION = 0.05
"""The smallest friction for which a thermostat is made. The noise of the force adds to c."""
MAX_DRAWS = 25
"""The largest number of draws that a burst keeps of each chain."""


class Heated(WrappedPotential):
    """The posterior at temperature 1/λ: λ·U, or U0 + λ·U1 if only a part is tempered."""

    inner: Potential
    weight: Array

    @property
    def traits(self) -> Traits:
        """The energy is not split, because λ is fixed."""
        return self.inner.traits._replace(is_split=False)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """λ·Ũ, or Ũ0 + λ·Ũ1."""
        return self._heated(self.inner.estimate(position, batch, model))

    def full(self, position: Any) -> Energy:
        return self._heated(self.inner.full(position))

    def _heated(self, energy: Energy) -> Energy:
        value = energy.fixed + self.weight.astype(energy.tempered.dtype) * energy.tempered
        return Energy.all_tempered(value, energy.model)


@dataclass(frozen=True)
class Burst:
    """The result of a short run."""

    positions: Position
    """The last positions."""
    draws: Float[np.ndarray, "chains draws d"]
    """The draws of the second half."""
    energies: Float[np.ndarray, "chains draws"]
    """The energies of the heated posterior at these draws."""
    every: int
    """The number of steps between draws."""
    finite: bool
    """Whether all chains stayed finite."""
    least_friction: float = 0.0
    """The mean of the thermostat in the second half, less a standard error. Without noise in the
    force it is c, and more if steps are so long that they heat."""


@dataclass
class Bursts:
    """Runs bursts of chains of one potential, and counts their gradients."""

    potential: Potential
    chains: int
    steps: int
    per_tensor: bool = field(default=False, init=False)
    """Whether each tensor has its own friction."""
    gradients: int = field(default=0, init=False)

    def run(
        self,
        key: PRNGKey,
        positions: Position,
        eta: float,
        c: float,
        temperature: float = 1.0,
        share: float = 1.0,
    ) -> Burst:
        """Run ``share`` of the usual number of steps with a thermostat, at a temperature."""
        one = jax.tree.map(lambda x: x[0], positions)
        room = max(2, MAX_DRAW_NUMBERS // (dimension(one) * self.chains))
        every = max(1, self.steps // (2 * min(MAX_DRAWS, room)))
        heated = Heated(self.potential, jnp.asarray(1 / temperature, scalar_dtype(one)))
        steps = max(int(share * self.steps), 2 * every)
        sampler = sgnht(eta, noise=c, thermostat=self._thermostat(one, c))
        run = quiet_run(key, sampler, heated, positions, steps, Keep(every, after=steps // 2))
        self.gradients += self.chains * run.num_steps
        if not run.num_draws:
            nothing = np.zeros((self.chains, 0, dimension(one)))
            return Burst(run.state.position, nothing, nothing[..., 0], every, finite=False)
        energies = np.asarray(run.stats["energy"], float)
        finite = not run.failures and bool(np.all(np.isfinite(energies)))
        friction = _least_friction(np.asarray(run.stats["thermostat"], float))
        return Burst(run.state.position, flat_draws(run.draws), energies, every, finite, friction)

    def _thermostat(self, one: Position, c: float) -> Thermostat:
        if not self.per_tensor:
            return ScalarThermostat()
        least = min(leaf.size for leaf in jax.tree.leaves(one) if leaf.size)
        friction = max(c, MIN_FRICTION)
        steps, _ = thermostat_steps(friction, least, noisy=True, changes_modes=True)
        return TensorThermostat(steps=steps)


def _least_friction(thermostats: Float[np.ndarray, "chains draws"]) -> float:
    means = thermostats.mean(axis=1)
    return float(means.mean() - means.std(ddof=1) / np.sqrt(len(means)))


def quiet_run(
    key: PRNGKey,
    sampler: Any,
    potential: Potential,
    starts: Any,
    steps: int,
    keep: Keep,
) -> Run:
    """A run without output and warnings. The caller checks for failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)
        return run_chains(
            key,
            sampler,
            potential,
            PerChain(starts),
            steps,
            jax.tree.leaves(starts)[0].shape[0],
            keep=keep,
            progress=False,
        )


def flat_draws(draws: Any) -> Float[np.ndarray, "chains draws d"]:
    """Draws as an array of vectors."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(draws)]
    return np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)


def stacked(vectors: Float[np.ndarray, "n d"], like: Position) -> Position:
    """An array of vectors as a stack of positions."""
    return jax.vmap(lambda x: unflatten(x, like))(jnp.asarray(vectors, scalar_dtype(like)))


@eqx.filter_jit
def estimates(
    key: PRNGKey, potential: Potential, positions: Position, lam: Array
) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    """Ũ1, and g with the force −λg on θ, at each of a stack of positions.

    Each uses its own batch. At λ = 1, g is ∇Ũ.
    """

    def one(key: PRNGKey, position: Position) -> tuple[Scalar, Array]:
        dtype = scalar_dtype(position)
        batch = potential.batch(key, position)
        found = forces(potential, position, batch, lam=lam.astype(dtype))
        return found.tempered, flatten(found.gradient, dtype)

    count = jax.tree.leaves(positions)[0].shape[0]
    return jax.lax.map(lambda pair: one(*pair), (jax.random.split(key, count), positions))
