"""A potential whose chains have data sets of their own, so that one program samples them all."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from tacthmc._typing import Batch
from tacthmc.potentials import Batches, Energy, Potential
from tacthmc.potentials._base import Traits
from tacthmc.potentials._batch_noise import CovarianceTerm


class EachData(Potential):
    """The potential ``make(data[c])`` for chain c.

    ``make`` is called while JAX traces the program, once for all chains. Outside chains it stands
    for the potential of the first data set.
    """

    make: Callable[[Any], Potential] = eqx.field(static=True)
    data: Any
    """The data sets, with a leading axis on every array."""
    num_chains: int = eqx.field(static=True)

    def for_chain(self, number: Any) -> Potential:
        return self.make(self.data_of(number))

    def data_of(self, number: Any) -> Any:
        """The data set of chain c."""
        return jax.tree.map(lambda x: x[number], self.data)

    @property
    def first(self) -> Potential:
        """The potential of the first data set."""
        return self.for_chain(0)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        return self.first.estimate(position, batch, model, correction)

    def full(self, position: Any) -> Energy:
        return self.first.full(position)

    @property
    def batches(self) -> Batches:
        return self.first.batches

    @property
    def traits(self) -> Traits:
        return self.first.traits._replace(num_chains=self.num_chains)

    def init_model(self) -> Any:
        return self.first.init_model()

    def kept_model(self, model: Any) -> Any:
        return self.first.kept_model(model)
