r"""Labels that change while a chain runs, for studies of robustness against wrong labels.

The paper permutes a share of the training labels at random at the beginning of each epoch. The
authors' code replaces a share of the labels in each batch by random ones. Both are available here,
inside the compiled loop. The result is not the posterior of one data set: averaged over the noise,
the energy is that of labels mixed with the frequencies of the classes,

.. math::
    E[\tilde U(\theta)] = -\log p(\theta) - \sum_i \Big[
        (1 - s)\log p(y_i \mid x_i, \theta) + s \sum_c \pi_c \log p(c \mid x_i, \theta)\Big]

with s the share and π_c the frequency of class c, up to 1/(sN) (uniform in the authors' variant).
The changing labels add to the noise of the gradient.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from tacthmc import _checks as checks
from tacthmc._typing import Batch, PRNGKey
from tacthmc.compiler._mesh import spread_examples
from tacthmc.compiler._random import derive_key, indices
from tacthmc.potentials._base import Energy, Potential, Traits, WrappedPotential
from tacthmc.potentials._batch_noise import CovarianceTerm
from tacthmc.potentials._batches import Batches, Epochs, ResidentBatches
from tacthmc.potentials._posterior import Posterior

# The number that separates the keys for labels from the key of the batch itself.
_KEY_FAMILY = 16


def second(data: Any) -> Any:
    """The labels of (inputs, labels)."""
    return data[1]


class NoisyLabels(WrappedPotential):
    """A posterior of examples with labels, some of which are wrong at any time."""

    inner: eqx.AbstractVar[Potential]
    count: eqx.AbstractVar[Int[Array, "*chains"]]
    """How many labels are wrong: one number, or one for each chain."""
    where: eqx.AbstractVar[Callable[[Any], Any]]

    @property
    def traits(self) -> Traits:
        """There is no full-data energy, because the labels change all the time."""
        traits = self.inner.traits._replace(has_energy=False)
        return traits._replace(num_chains=self.count.shape[0]) if self.count.ndim else traits

    def for_chain(self, number: Any) -> Potential:
        own = super().for_chain(number)
        return eqx.tree_at(lambda p: p.count, own, self.count[number]) if self.count.ndim else own

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        return self.inner.estimate(position, batch, model, correction)

    def full(self, position: Any) -> Energy:
        raise ValueError(
            "a posterior with label noise has no full-data energy: its labels change all the time"
            " (potential.inner.energy is that of the right labels)"
        )


def _number_wrong(count: Int[Array, "*chains"], like: Array) -> Array:
    if count.ndim:
        raise ValueError(
            "this potential has a share of wrong labels for each chain: take that of one chain,"
            " potential.for_chain(number)"
        )
    return count.astype(like.dtype)


class EpochLabels(NamedTuple):
    """The inner memory, the labels of this epoch, and how many examples it has used."""

    inner: Any
    labels: Any
    cursor: Any


class PermutedLabels(NoisyLabels):
    """A share of all labels permuted at random at the start of each epoch; :func:`label_noise`."""

    inner: Potential
    count: Int[Array, "*chains"]
    where: Callable[[Any], Any] = eqx.field(static=True)

    @property
    def batches(self) -> Batches:
        batches = self.inner.batches
        assert isinstance(batches, ResidentBatches)
        return PermutedLabelBatches(batches, self.count, self.where)


class PermutedLabelBatches(Batches):
    """Batches of :class:`PermutedLabels`."""

    inner: ResidentBatches
    count: Int[Array, "*chains"]
    where: Callable[[Any], Any] = eqx.field(static=True)

    def init(self, key: PRNGKey) -> EpochLabels:
        """The memory of the order, and the labels of the first epoch."""
        cursor = jnp.zeros((), int)
        return EpochLabels(self.inner.init(key), self._permuted(key), cursor)

    @property
    def axes(self) -> EpochLabels:
        """Each chain has its own labels. The cursor is shared, so that permuting stays a branch."""
        return EpochLabels(self.inner.axes, 0, None)

    def select(self, data: EpochLabels, key: PRNGKey, position: Any) -> tuple[EpochLabels, Any]:
        """The next indices, with the labels of this epoch.

        With replacement an epoch is ⌈N/n⌉ steps. Otherwise it is the epoch of the order; a batch
        that reaches into the next epoch has the labels of the epoch in which it began.
        """
        inner, chosen = self.inner.select(data.inner, key, position)
        order = self.inner.order
        cursor = data.cursor + order.batch_size
        reshuffled = isinstance(order, Epochs)
        left_over = cursor - order.num_data if reshuffled else jnp.zeros_like(cursor)

        def turn(_: None) -> tuple[Array, Array]:
            return self._permuted(key), left_over

        def stay(_: None) -> tuple[Array, Array]:
            return data.labels, cursor

        labels, cursor = jax.lax.cond(cursor >= order.num_data, turn, stay, None)
        return EpochLabels(inner, labels, cursor), (chosen, data.labels[chosen])

    def fetch(self, selection: Any) -> Batch:
        """The examples, with the labels of this epoch."""
        chosen, labels = selection
        return eqx.tree_at(self.where, self.inner.fetch(chosen), spread_examples(labels))

    def _permuted(self, key: PRNGKey) -> Array:
        """All labels, of which ``count`` are permuted among themselves.

        The number is traced, so that all shares use one program: the first ``count`` examples of a
        random order are put into another random order.
        """
        labels = self.where(self.inner.examples)
        total = labels.shape[0]
        first, again = jax.random.split(derive_key(key, _KEY_FAMILY))
        order = jax.random.permutation(first, total)
        place = jnp.arange(total)
        stays = place >= _number_wrong(self.count, place)
        lots = jax.random.bits(again, (2, total))
        lot = jnp.where(stays, place.astype(lots.dtype), lots[0])
        *_, shuffled = jax.lax.sort((stays, lot, lots[1], place), num_keys=3)
        return labels.at[order].set(labels[order[shuffled]])


class RandomLabels(NoisyLabels):
    """A share of the labels of each batch replaced by random ones; :func:`label_noise`."""

    inner: Potential
    count: Int[Array, "*chains"]
    where: Callable[[Any], Any] = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)

    @property
    def batches(self) -> Batches:
        return RandomLabelBatches(
            self.inner.batches, self.count, self.where, self.batch_size, self.classes
        )


class RandomLabelBatches(Batches):
    """Batches of :class:`RandomLabels`."""

    inner: Batches
    count: Int[Array, "*chains"]
    where: Callable[[Any], Any] = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)

    def init(self, key: PRNGKey) -> Any:
        return self.inner.init(key)

    @property
    def axes(self) -> Any:
        return self.inner.axes

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        """The inner selection, which of its examples have random labels, and those labels."""
        data, chosen = self.inner.select(data, key, position)
        place, label = jax.random.split(derive_key(key, _KEY_FAMILY))
        order = jax.random.permutation(place, self.batch_size)
        wrong = order < _number_wrong(self.count, order)
        return data, (chosen, wrong, indices(label, self.batch_size, self.classes))

    def fetch(self, selection: Any) -> Batch:
        chosen, wrong, others = selection
        batch = self.inner.fetch(chosen)
        labels = self.where(batch)
        mixed = jnp.where(spread_examples(wrong), others.astype(labels.dtype), labels)
        return eqx.tree_at(self.where, batch, mixed)


def label_noise(
    potential: Potential,
    share: float | int | Sequence[float | int],
    kind: Literal["permutation", "random per batch"] = "permutation",
    *,
    labels: Callable[[Any], Any] = second,
    classes: int | None = None,
) -> NoisyLabels:
    """Make a changing share of the training labels wrong.

    Args:
        potential: a posterior of examples with labels, from :func:`tacthmc.posterior`.
        share: the share of wrong labels, 0 to 1: round(share·N) of all labels, or round(share·n)
            of those of a batch. A list has one share for each chain, all in one compiled program.
        kind: "permutation", as in the paper: at the beginning of each epoch this many labels,
            chosen at random, are permuted at random (some may stay in place), and keep their places
            for the epoch. "random per batch", as in the authors' code: this many labels of each
            batch are replaced by labels that are uniform over the classes.
        labels: which leaf of the data has the labels; by default the second of (inputs, labels).
        classes: the number of classes, for "random per batch"; by default one more than the
            largest label.

    Each chain has its own wrong labels, drawn from the key of the run. Batches are the same as
    without label noise under the same key. There is no full-data energy, so
    ``Keep(temperatures="all")`` is refused; ``potential.inner.energy`` is that of the right labels.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> data = (jnp.zeros((6, 2)), jnp.arange(6))
    >>> def log_likelihood(theta, example):
    ...     return jax.nn.log_softmax(theta)[example[1]]
    >>> clean = tacthmc.posterior(lambda theta: -jnp.sum(theta**2), log_likelihood, data, 6)
    >>> wrong = label_noise(clean, 1.0)
    >>> sorted(wrong.batches.init(jax.random.key(0)).labels.tolist())
    [0, 1, 2, 3, 4, 5]
    """
    if not isinstance(potential, Posterior):
        raise TypeError(f"potential must be made by tacthmc.posterior; got {potential!r}")
    _check_share(share)
    if kind not in ("permutation", "random per batch"):
        raise ValueError(f"kind must be 'permutation' or 'random per batch'; got {kind!r}")
    found = _labels(potential, labels)
    if kind == "permutation":
        if classes is not None:
            raise ValueError(
                "classes must be left out for a permutation, which keeps the labels; got"
                f" {classes!r}"
            )
        return PermutedLabels(potential, _rounded(share, potential.num_data), labels)
    most = int(np.asarray(found).max())
    classes = most + 1 if classes is None else classes
    checks.whole("classes", classes, 1)
    if most >= classes:
        raise ValueError(
            f"classes must be more than the largest label, {most}, as labels count from 0; got"
            f" {classes}"
        )
    size = potential.batch_size
    return RandomLabels(potential, _rounded(share, size), labels, size, classes)


def _check_share(share: Any) -> None:
    shares = share if isinstance(share, (list, tuple)) else [share]
    for one in shares or [None]:
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not 0 <= one <= 1:
            raise ValueError(f"share must be a number from 0 to 1; got {one!r}")


def _rounded(share: Any, total: int) -> Int[Array, "*chains"]:
    # An array, so that another share reuses the compiled program.
    return jnp.asarray(np.rint(np.asarray(share, float) * total), jnp.int32)


def _labels(potential: Posterior, where: Callable[[Any], Any]) -> Array:
    try:
        found = where(potential.data)
    except (TypeError, IndexError, KeyError, AttributeError) as error:
        raise ValueError(
            "labels must pick the labels out of the data, as in lambda data: data[1]; on"
            f" {jax.tree.structure(potential.data)} it failed: {error}"
        ) from error
    if not isinstance(found, jax.Array) or found.shape != (potential.num_data,):
        raise ValueError(
            f"labels must pick one array with a label for each of {potential.num_data} examples;"
            f" got shape {jax.tree.map(jnp.shape, found)}"
        )
    if not jnp.issubdtype(found.dtype, jnp.integer):
        raise TypeError(f"labels must be integers; got dtype {found.dtype}")
    least = int(np.asarray(found).min())
    if least < 0:
        raise ValueError(f"labels must be whole numbers from 0; got {least}")
    return found
