"""Sampling a part of a pytree, the rest held fixed."""

from typing import Any

import equinox as eqx
import jax

from tacthmc._typing import Batch, Position, PRNGKey, Scalar
from tacthmc.potentials._base import Potential, WrappedPotential


class PartPotential(WrappedPotential):
    """A potential of the sampled part alone, the other leaves held where they are."""

    inner: Potential
    rest: Any

    def whole(self, position: Position) -> Any:
        """The full pytree, with the rest put back."""
        return eqx.combine(position, self.rest)

    def estimate_with(self, position: Any, batch: Batch, model: Any) -> tuple[Scalar, Any]:
        """Ũ with the rest put back: its gradient is that of the sampled part."""
        return self.inner.estimate_with(self.whole(position), batch, model)

    def parts_with(self, position: Any, batch: Batch, model: Any) -> tuple[Scalar, Scalar, Any]:
        """Ũ0 and Ũ1 with the rest put back."""
        return self.inner.parts_with(self.whole(position), batch, model)

    def energy(self, position: Any) -> Scalar:
        """U with the rest put back."""
        return self.inner.energy(self.whole(position))

    def energy_parts(self, position: Any) -> tuple[Scalar, Scalar]:
        """U0 and U1 with the rest put back."""
        return self.inner.energy_parts(self.whole(position))

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        """The inner potential's, for the whole pytree."""
        return self.inner.select(data, key, self.whole(position))

    def fetch(self, selection: Any) -> Batch:
        """The inner potential's."""
        return self.inner.fetch(selection)


def subset(potential: Potential, position: Any, sampled: Any) -> tuple[PartPotential, Position]:
    """Hold all but a part of the position fixed; returns a potential of that part, and it.

    Args:
        potential: a potential of the whole pytree.
        position: the whole pytree; leaves that are not sampled may be anything.
        sampled: a filter as in Equinox: a function of a leaf (``equinox.is_inexact_array``
            takes every float array of a model), or a pytree prefix of booleans.

    ``potential.whole(part)`` puts the rest back.

    >>> import jax.numpy as jnp, tacthmc
    >>> u = tacthmc.potential(lambda p: jnp.sum((p["w"] - p["b"]) ** 2))
    >>> some, start = subset(u, {"w": jnp.zeros(2), "b": jnp.ones(2)}, {"w": True, "b": False})
    >>> start["b"] is None, some.value_and_grad(start, ())[1]["w"].tolist()
    (True, [-2.0, -2.0])
    """
    chosen, rest = eqx.partition(position, sampled)
    if not jax.tree.leaves(chosen):
        raise ValueError("sampled picks no leaf of the position; expected at least one")
    return PartPotential(potential, rest), chosen
