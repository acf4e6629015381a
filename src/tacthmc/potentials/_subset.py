"""Sampling a subset of the leaves of a pytree, with the rest held fixed."""

from typing import Any

import equinox as eqx
import jax

from tacthmc import _checks as checks
from tacthmc._typing import Batch, Position, PRNGKey
from tacthmc.potentials._base import Energy, Potential, WrappedPotential
from tacthmc.potentials._batch_noise import CovarianceTerm
from tacthmc.potentials._batches import Batches


class SubsetPotential(WrappedPotential):
    """A potential of the sampled leaves alone, with the others held fixed."""

    inner: Potential
    rest: Any

    def whole(self, position: Position) -> Any:
        """The full pytree: the sampled leaves joined with the fixed ones."""
        return eqx.combine(position, self.rest)

    @property
    def batches(self) -> Batches:
        return SubsetBatches(self.inner.batches, self.rest)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        return self.inner.estimate(self.whole(position), batch, model, correction)

    def full(self, position: Any) -> Energy:
        return self.inner.full(self.whole(position))


class SubsetBatches(Batches):
    """The inner potential's batches, which may depend on the shapes of the whole pytree."""

    inner: Batches
    rest: Any

    def init(self, key: PRNGKey) -> Any:
        return self.inner.init(key)

    @property
    def axes(self) -> Any:
        return self.inner.axes

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        return self.inner.select(data, key, eqx.combine(position, self.rest))

    def fetch(self, selection: Any) -> Batch:
        return self.inner.fetch(selection)


def subset(potential: Potential, position: Any, sampled: Any) -> tuple[SubsetPotential, Position]:
    """Hold all but a subset of the leaves fixed; returns the potential and the start of the subset.

    Args:
        potential: a potential of the whole pytree.
        position: the whole pytree. Leaves that are not sampled may be anything.
        sampled: a filter as in Equinox: a function of a leaf (``equinox.is_inexact_array``
            selects every float array of a model), or a pytree prefix of booleans.

    ``potential.whole(draw)`` joins a draw with the fixed leaves.

    >>> import jax.numpy as jnp, tacthmc
    >>> u = tacthmc.potential(lambda p: jnp.sum((p["w"] - p["b"]) ** 2))
    >>> some, start = subset(u, {"w": jnp.zeros(2), "b": jnp.ones(2)}, {"w": True, "b": False})
    >>> start["b"] is None, some.value_and_grad(start, ())[1]["w"].tolist()
    (True, [-2.0, -2.0])
    """
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.leaves("position", position)
    for name, leaf in checks.leaves("sampled", sampled):
        if not (isinstance(leaf, bool) or callable(leaf)):
            raise TypeError(
                f"{name} must be True, False or a function of a leaf (a name picks nothing:"
                f' write {{"w": True, "b": False}}); got {leaf!r}'
            )
    try:
        chosen, rest = eqx.partition(position, sampled)
    except ValueError as error:
        raise ValueError(
            "sampled must be a prefix of the position, with its keys; got"
            f" {jax.tree.structure(sampled)} for {jax.tree.structure(position)}"
        ) from error
    if not jax.tree.leaves(chosen):
        raise ValueError("sampled picks no leaf of the position; expected at least one")
    return SubsetPotential(potential, rest), chosen
