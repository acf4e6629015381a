"""How batches are drawn, and the memory that a chain carries from batch to batch."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from tacthmc._typing import Batch, PRNGKey
from tacthmc.compiler._mesh import spread_examples
from tacthmc.compiler._random import indices


class Batches(eqx.Module):
    """The source of a chain's batches.

    A chain carries a memory (``data``) from batch to batch. ``select`` draws a selection, which is
    small (indices, noise), and ``fetch`` turns a selection into a batch.
    """

    @abstractmethod
    def init(self, key: PRNGKey) -> Any:
        """The initial memory of a chain."""

    @property
    @abstractmethod
    def axes(self) -> Any:
        """How chains are mapped over the memory (a pytree prefix for ``vmap``)."""

    @abstractmethod
    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        """The new memory, and the random part of one batch.

        It may depend on the shapes and dtypes of ``position`` only, because selections are made
        many steps ahead.
        """

    @abstractmethod
    def fetch(self, selection: Any) -> Batch:
        """The batch of a selection."""


class NoBatches(Batches):
    """Empty batches, for an energy without data."""

    def init(self, key: PRNGKey) -> tuple[()]:
        return ()

    @property
    def axes(self) -> tuple[()]:
        return ()

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[tuple[()], tuple[()]]:
        return (), ()

    def fetch(self, selection: Any) -> tuple[()]:
        return ()


class WithReplacement(eqx.Module):
    """Indices drawn independently, which gives the noise that the theory of samplers assumes.

    A batch as large as the data is all of the data, once each, and has no noise.
    """

    num_data: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    def init(self, key: PRNGKey) -> tuple[()]:
        """An empty memory."""
        return ()

    @property
    def axes(self) -> Any:
        """How chains are mapped over the memory."""
        return ()

    def next(self, memory: tuple[()], key: PRNGKey) -> tuple[tuple[()], Int[Array, " n"]]:
        """The indices of the next batch."""
        if self.batch_size == self.num_data:
            return (), jnp.arange(self.num_data)
        return (), indices(key, self.batch_size, self.num_data)


class EpochMemory(NamedTuple):
    """The orders of this epoch and the next, and the place in this one."""

    order: Any
    following: Any
    cursor: Any


class Epochs(eqx.Module):
    """Every example once per epoch, in an order that is reshuffled each time.

    A partial batch at the end is filled up from the next epoch. Successive batches of an epoch
    are anticorrelated, while thermostats assume independent noise. Where mini-batch noise
    dominates, posterior variances come out too small: 0.51 to 0.71 of the true values on a
    conjugate model.
    """

    num_data: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    def init(self, key: PRNGKey) -> EpochMemory:
        """The first two orders."""
        first, second = jax.random.split(key)
        order = jax.random.permutation(first, self.num_data)
        return EpochMemory(order, jax.random.permutation(second, self.num_data), jnp.zeros((), int))

    @property
    def axes(self) -> Any:
        """Each chain has its own order. The cursor is shared, so reshuffling stays a branch."""
        return EpochMemory(order=0, following=0, cursor=None)

    def next(self, memory: EpochMemory, key: PRNGKey) -> tuple[EpochMemory, Int[Array, " n"]]:
        """The indices of the next batch."""
        places = memory.cursor + jnp.arange(self.batch_size)
        wrapped = places >= self.num_data
        indices = jnp.where(
            wrapped,
            memory.following[jnp.where(wrapped, places - self.num_data, 0)],
            memory.order[jnp.where(wrapped, 0, places)],
        )
        cursor = memory.cursor + self.batch_size

        def turn(_: None) -> EpochMemory:
            shuffled = jax.random.permutation(key, self.num_data)
            return EpochMemory(memory.following, shuffled, cursor - self.num_data)

        def stay(_: None) -> EpochMemory:
            return EpochMemory(memory.order, memory.following, cursor)

        return jax.lax.cond(cursor >= self.num_data, turn, stay, None), indices


class ResidentBatches(Batches):
    """Mini-batches of data that stay on the device.

    >>> import jax, jax.numpy as jnp
    >>> batches = ResidentBatches(Epochs(num_data=4, batch_size=4), jnp.arange(4))
    >>> first, second = jax.random.split(jax.random.key(0))
    >>> memory, selection = batches.select(batches.init(first), second, None)
    >>> sorted(batches.fetch(selection).tolist())
    [0, 1, 2, 3]
    """

    order: WithReplacement | Epochs
    examples: Any
    """A pytree of arrays that share their leading length N."""

    def init(self, key: PRNGKey) -> Any:
        return self.order.init(key)

    @property
    def axes(self) -> Any:
        return self.order.axes

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Int[Array, " n"]]:
        return self.order.next(data, key)

    def fetch(self, selection: Any) -> Batch:
        """The examples at those indices, spread over the devices of a mesh."""
        selection = spread_examples(selection)
        return spread_examples(jax.tree.map(lambda x: x[selection], self.examples))
