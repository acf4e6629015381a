"""Rounds: short runs of all replicas, after which step sizes and ladder are chosen anew."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from tacthmc._typing import Position, PRNGKey
from tacthmc.potentials import Potential
from tacthmc.run._keep import Keep
from tacthmc.run._program import Chains, Program
from tacthmc.run._start import PerChain
from tacthmc.samplers._replica_ladder import Barrier
from tacthmc.samplers._replica_path import PathState, ReplicaPath
from tacthmc.samplers._replica_sums import RecentSums

ACCEPTANCE = 0.65
"""The intended probability of accepting a trajectory."""
ACCEPTANCE_POWER = 2.5
"""The change of the energy in a trajectory grows as ε³ for one leapfrog step, and as ε² for many.
This lies between."""
MAX_SWAPS = 128
"""The largest number of tries of swaps in a round."""
MAX_STEP_RATIO = 4.0
"""The largest factor by which the length of a step changes from round to round."""


class Round(NamedTuple):
    """What a round measured."""

    barrier: Barrier
    accepted: Float[np.ndarray, " k"]
    """The acceptance rates of local moves, zero on a rung that is drawn."""
    draws: Float[np.ndarray, "c n d"]
    """The draws of the target."""
    energies: Float[np.ndarray, "c n"]
    """Their energies."""
    finite: bool
    is_drawn: bool
    """Whether the last rung is drawn from the base."""


@dataclass
class Rounds:
    """Runs rounds of chains of replicas, and counts their gradients."""

    potential: Potential
    chains: int
    gradients: int = field(default=0, init=False)
    now: Chains | None = field(default=None, init=False)

    def start(self, key: PRNGKey, sampler: ReplicaPath, positions: Position) -> None:
        """Begin with positions for each chain and rung. Energies are not known yet."""
        target = jax.tree.map(lambda x: x[:, 0], positions)
        first, second = jax.random.split(key)
        chains = self._program(sampler).start(first, PerChain(target))
        keys = jax.random.split(second, self.chains)
        state = jax.vmap(sampler.init_at)(keys, positions, chains.each.state.model)
        self.now = chains._replace(each=chains.each._replace(state=state))

    def run(self, sampler: ReplicaPath, swaps: int) -> Round:
        """A round with so many tries of swaps, at most ``MAX_SWAPS``."""
        assert self.now is not None
        state = jax.vmap(_without_sums)(self.now.each.state)
        before = self.now._replace(each=self.now.each._replace(state=state))
        self.now, chunk = self._program(sampler).advance(before, swaps)
        self.gradients += self.chains * swaps * sampler.swap_every * sampler.gradients_per_step
        state = self.now.each.state
        kept = [np.asarray(x, float)[:, :swaps] for x in jax.tree.leaves(chunk.kept.position)]
        return Round(
            sampler.barrier(state),
            np.asarray(sampler.acceptance_rates(state), float).mean(axis=0),
            np.concatenate([x.reshape(self.chains, swaps, -1) for x in kept], axis=2),
            np.asarray(chunk.rows.energy, float)[:, :swaps],
            bool(np.all(np.asarray(chunk.rows.finite)[:, :swaps])),
            sampler.ends_at_base and sampler.reference is not None,
        )

    def positions(self, sampler: ReplicaPath) -> Position:
        """The positions of all replicas by chain and rung."""
        assert self.now is not None
        return jax.vmap(jax.vmap(sampler.move.position))(self.now.each.state.replicas)

    def _program(self, sampler: ReplicaPath) -> Program:
        keep = Keep(every=sampler.swap_every, after=0)
        return Program(sampler, self.potential, keep, num_chains=self.chains, room=MAX_SWAPS)


def _without_sums(state: PathState) -> PathState:
    """The state of a chain whose sums begin anew."""
    rungs, dtype = state.number.shape[0], state.sums.now.rejected.dtype
    trips = jnp.zeros_like(state.round_trips)
    return replace(state, sums=RecentSums.empty(rungs, dtype), round_trips=trips)


def better_step_sizes(
    step_sizes: Float[np.ndarray, " k"], accepted: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """Step sizes with which the intended share of trajectories would be accepted.

    A change of the energy that is normal with variance s² and mean s²/2 is accepted with
    probability 2Φ(−s/2), and s grows as a power of the length of a step.

    >>> better_step_sizes(np.ones(3), np.array([0.65, 0.9, 0.0])).round(2).tolist()
    [1.0, 2.79, 0.2]
    """

    def spread(rate: Any) -> Any:
        return -2 * norm.ppf(np.clip(rate, 1e-3, 1 - 1e-3) / 2)

    ratio = (spread(ACCEPTANCE) / spread(accepted)) ** (1 / ACCEPTANCE_POWER)
    return step_sizes * np.clip(ratio, 1 / MAX_STEP_RATIO, MAX_STEP_RATIO) ** 2


def on_ladder(
    values: Float[np.ndarray, " k"], old: Float[np.ndarray, " k"], new: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Positive numbers of the rungs of one ladder, interpolated for another one.

    >>> on_ladder(np.array([1.0, 4.0]), np.array([1.0, 0.0]), np.array([1.0, 0.5, 0.0])).tolist()
    [1.0, 2.0, 4.0]
    """
    return np.exp(np.interp(new[::-1], old[::-1], np.log(values)[::-1]))[::-1]
