"""The interface that every sampler and optimizer shares."""

from abc import abstractmethod
from typing import Any

import equinox as eqx

from tacthmc._typing import Batch, Position, PRNGKey
from tacthmc.dynamics._state import Info
from tacthmc.potentials import Potential


class Sampler(eqx.Module):
    """A Markov chain driven by estimates of an energy.

    ``init`` and ``step`` are for people who write their own loop. The caller passes the
    batch: a step never draws data.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> sampler, target = tacthmc.sgnht(0.01), tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> state = sampler.init(jax.random.key(0), jnp.zeros(3))
    >>> state, info = sampler.step(jax.random.key(1), state, target, batch=())
    >>> state.position.shape, float(info.energy) > 0
    ((3,), True)
    """

    @property
    def gradients_per_step(self) -> int:
        """How many gradients a step costs: samplers are compared at equal numbers of these."""
        return 1

    @abstractmethod
    def init(self, key: PRNGKey, position: Any, model: Any = None) -> Any:
        """A chain's first state; ``model`` is the potential's model state, where it has one."""

    @abstractmethod
    def noise(self, key: PRNGKey, position: Position) -> Any:
        """The random numbers that one step uses."""

    @abstractmethod
    def advance(
        self, noise: Any, state: Any, potential: Potential, batch: Batch
    ) -> tuple[Any, Info]:
        """One step with these random numbers and this batch."""

    def position(self, state: Any) -> Position:
        """The θ that a state stands for."""
        return state.position

    def step(
        self, key: PRNGKey, state: Any, potential: Potential, batch: Batch
    ) -> tuple[Any, Info]:
        """One step; one estimate of energy and gradient."""
        return self.advance(self.noise(key, state.position), state, potential, batch)
