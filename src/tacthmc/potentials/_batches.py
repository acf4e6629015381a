"""Where batches come from: what a chain remembers of its data, and how a batch is drawn."""

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
    """Draws the batches of one chain.

    A chain carries a memory (``data``) from batch to batch. A key turns it into a selection,
    which is small (indices, noise), and a selection into a batch.
    """

    @abstractmethod
    def init(self, key: PRNGKey) -> Any:
        """The memory that a chain starts with."""

    @property
    @abstractmethod
    def axes(self) -> Any:
        """How chains are mapped over the memory (a pytree prefix for ``vmap``)."""

    @abstractmethod
    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        """The new memory, and the random part of one batch.

        Only the shapes and dtypes of ``position`` may matter: selections are made for many
        steps ahead.
        """

    @abstractmethod
    def fetch(self, selection: Any) -> Batch:
        """The batch that a selection stands for."""


class NoBatches(Batches):
    """The energy needs no data: every batch is empty."""

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
    """Each index is drawn independently: the noise that the theory of every sampler assumes."""

    num_data: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    def init(self, key: PRNGKey) -> tuple[()]:
        """No memory."""
        return ()

    @property
    def axes(self) -> Any:
        """How chains are mapped over the memory."""
        return ()

    def next(self, memory: tuple[()], key: PRNGKey) -> tuple[tuple[()], Int[Array, " n"]]:
        """The next batch's indices."""
        return (), indices(key, self.batch_size, self.num_data)


class EpochMemory(NamedTuple):
    """This epoch's and the next one's order, and how far this one has come."""

    order: Any
    following: Any
    cursor: Any


class Epochs(eqx.Module):
    """Every example once per epoch, in an order shuffled anew each time.

    A last partial batch is filled up from the next epoch. Successive batches of an epoch
    are anticorrelated, which is not the independent noise that thermostats assume: where
    mini-batch noise dominates, posterior variances come out too small (0.51 to 0.71 of the
    truth was measured on a conjugate model).
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
        """Orders are each chain's own; the cursor is common, so that reshuffling stays a branch."""
        return EpochMemory(order=0, following=0, cursor=None)

    def next(self, memory: EpochMemory, key: PRNGKey) -> tuple[EpochMemory, Int[Array, " n"]]:
        """The next batch's indices."""
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
        """The examples at those indices, spread over devices where a mesh says so."""
        selection = spread_examples(selection)
        return spread_examples(jax.tree.map(lambda x: x[selection], self.examples))
