"""The interface that every sampler and optimizer shares."""

from abc import abstractmethod
from typing import Any

import equinox as eqx

from tacthmc._notebook import Readable
from tacthmc._typing import Batch, Position, PRNGKey
from tacthmc.dynamics._state import Info
from tacthmc.potentials import Potential


class Sampler(Readable, eqx.Module):
    """A Markov chain driven by estimates of an energy.

    ``init`` and ``step`` are for loops of your own. The caller passes the batch; a step never
    draws data.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> sampler, target = tacthmc.sgnht(0.01), tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> state = sampler.init(jax.random.key(0), jnp.zeros(3))
    >>> state, info = sampler.step(jax.random.key(1), state, target, batch=())
    >>> state.position.shape, float(info.energy) > 0
    ((3,), True)
    """

    @property
    def gradients_per_step(self) -> int:
        """The number of gradients per step. Samplers are compared at equal numbers of gradients."""
        return 1

    @abstractmethod
    def init(self, key: PRNGKey, position: Any, model: Any = None) -> Any:
        """The first state of a chain; ``model`` is the model state of the potential, if any."""

    @abstractmethod
    def noise(self, key: PRNGKey, position: Position) -> Any:
        """The random numbers of one step."""

    @abstractmethod
    def advance(
        self, noise: Any, state: Any, potential: Potential, batch: Batch
    ) -> tuple[Any, Info]:
        """One step with these random numbers and this batch."""

    def position(self, state: Any) -> Position:
        """θ of a state."""
        return state.position

    def step(
        self, key: PRNGKey, state: Any, potential: Potential, batch: Batch
    ) -> tuple[Any, Info]:
        """One step, with random numbers from a key."""
        return self.advance(self.noise(key, state.position), state, potential, batch)
