r"""A potential on the path between a base and the target: U0 + λU1 at a fixed λ.

.. math:: \pi_\lambda(\theta) \propto \exp(-U_0(\theta) - \lambda\,U_1(\theta))

The path begins at exp(−U0), the base, for λ = 0 and ends at the target for λ = 1.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from tacthmc._positions import scalar_dtype
from tacthmc._typing import Batch, Scalar
from tacthmc.dynamics import Info, State
from tacthmc.potentials import (
    CovarianceTerm,
    Energy,
    Potential,
    Traits,
    WrappedPotential,
)


class Parts(NamedTuple):
    """The model state of a potential on a path, with both energies of the last estimate."""

    model: Any
    fixed: Scalar
    """Ũ0."""
    tempered: Scalar
    """Ũ1."""


class PathPotential(WrappedPotential):
    """U0 + λU1 as one energy. Its model state also holds U0 and U1."""

    inner: Potential
    inverse_temperature: Array

    @property
    def traits(self) -> Traits:
        """The energy is not split, because λ is fixed."""
        return self.inner.traits._replace(is_split=False, independent_batches=False)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        inside = model.model if isinstance(model, Parts) else model
        return self._joined(self.inner.estimate(position, batch, inside))

    def full(self, position: Any) -> Energy:
        return self._joined(self.inner.full(position))

    def _joined(self, energy: Energy) -> Energy:
        dtype = self.inverse_temperature.dtype
        fixed, tempered = (jnp.asarray(x).astype(dtype) for x in (energy.fixed, energy.tempered))
        value = fixed + self.inverse_temperature * tempered
        return Energy.all_tempered(value, Parts(energy.model, fixed, tempered))


def advanced_on_path(
    advance: Callable[[State, Potential], tuple[State, Info]],
    state: State,
    potential: Potential,
    inverse_temperature: Array,
) -> tuple[State, Info, Parts]:
    """One step of Langevin dynamics at λ, and U0 and U1 of the estimate that moved it."""
    dtype = scalar_dtype(state.position)
    zero = jnp.zeros((), dtype)
    path = PathPotential(potential, inverse_temperature.astype(dtype))
    after, info = advance(replace(state, model=Parts(state.model, zero, zero)), path)
    parts = after.model
    return replace(after, model=parts.model), info, parts
