"""The energy as a function of a vector: of all data, or of a part of large data."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float

from tacthmc._positions import flatten, scalar_dtype, unflatten
from tacthmc._typing import Position, PRNGKey, Scalar
from tacthmc.potentials import Posterior, Potential, SubsetPotential, WrappedPotential
from tacthmc.potentials._base import TemperedPotential, innermost
from tacthmc.potentials._energy_terms import LikelihoodPotential

MIN_PART, MAX_PART, PART_BATCHES = 512, 2048, 8
"""The number of examples with which minimizations begin, and that in batches of a step. With more
data, the energy of a random part leads to the neighborhood of a mode, and that of all data to the
mode itself."""


class Objective(eqx.Module):
    """Two energies of a vector, and their costs in gradients of a step."""

    potential: Potential
    like: Position
    part: Any
    """A part of the data, or None."""
    full_cost: float = eqx.field(static=True)
    """The cost of the energy of all data, or of its gradient."""
    part_cost: float = eqx.field(static=True)
    """The cost of the energy of the part."""

    def full(self, vector: Float[Array, " d"]) -> Scalar:
        """U of all data."""
        energy = self.potential.energy(unflatten(vector, self.like))
        return energy.astype(vector.dtype)

    def rough(self, vector: Float[Array, " d"]) -> Scalar:
        """U estimated from the part, the same part in every call."""
        if self.part is None:
            return self.full(vector)
        energy = self.potential.estimate(unflatten(vector, self.like), self.part).total
        return energy.astype(vector.dtype)

    def vector(self, position: Position) -> Float[Array, " d"]:
        """A position as a vector."""
        return flatten(position, scalar_dtype(self.like))


def objective(key: PRNGKey, potential: Potential, like: Position) -> Objective:
    """The energies of a potential that has a full-data energy."""
    inner, part = innermost(potential), None
    full_cost = part_cost = 1.0
    if isinstance(inner, Posterior):
        full_cost = part_cost = inner.num_data / inner.batch_size
        size = min(max(MIN_PART, PART_BATCHES * inner.batch_size), MAX_PART)
        if inner.num_data > 2 * size and _takes_examples(potential):
            chosen = jax.random.choice(key, inner.num_data, (size,), replace=False)
            part = jax.tree.map(lambda x: x[chosen], inner.data)
            part_cost = size / inner.batch_size
    return Objective(potential, like, part, full_cost, part_cost)


def _takes_examples(potential: Potential) -> bool:
    """Whether a batch of the potential is nothing but examples of the posterior inside."""
    while isinstance(potential, LikelihoodPotential | SubsetPotential | TemperedPotential):
        potential = potential.inner
    return isinstance(potential, Posterior)


def prior_energy(potential: Potential, like: Position) -> Callable[[Array], Scalar] | None:
    """−log p(θ) of a vector, if the potential knows its prior."""
    subsets: list[SubsetPotential] = []
    while isinstance(potential, WrappedPotential):
        if isinstance(potential, SubsetPotential):
            subsets.append(potential)
        potential = potential.inner
    if not isinstance(potential, Posterior):
        return None
    inner = potential

    def energy(vector: Array) -> Scalar:
        position = unflatten(vector, like)
        for subset in subsets:
            position = subset.whole(position)
        return -inner.log_prior_at(position).astype(vector.dtype)

    return energy
