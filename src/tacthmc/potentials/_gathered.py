"""A streamed posterior with some of its examples in memory, from which batches can be drawn."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from tacthmc.potentials._base import Energy, Potential, Traits, WrappedPotential
from tacthmc.potentials._batches import Batches, Epochs, ResidentBatches, WithReplacement
from tacthmc.potentials._posterior import DataPotential, make_order
from tacthmc.potentials._streamed import StreamedPosterior


class GatheredPosterior(DataPotential):
    """Estimates of a streamed posterior from examples that were gathered from its loader.

    A batch of n examples counts N/n times, with the N of all data. So the noise of the force and
    the curvature are those of the streamed posterior, up to the choice of the M gathered examples.
    The place of the posterior is off by √(N/M) of its standard deviations or so, and therefore
    there is no full-data energy.
    """

    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[..., Any]
    examples: Any
    order: WithReplacement | Epochs
    size: int = eqx.field(static=True)
    batched: bool = eqx.field(static=True)
    model_state: Any = None

    @property
    def traits(self) -> Traits:
        independent = isinstance(self.order, WithReplacement) and self.order.batch_size > 1
        return Traits(has_energy=False, independent_batches=independent)

    @property
    def batches(self) -> Batches:
        return ResidentBatches(self.order, self.examples)

    @property
    def num_data(self) -> int:
        return self.size

    def full(self, position: Any) -> Energy:
        raise ValueError("a streamed posterior has no full-data energy")


def gathered(streamed: StreamedPosterior, examples: Any, batch_size: int) -> GatheredPosterior:
    """The streamed posterior with these examples, and batches of this size.

    >>> import jax.numpy as jnp, numpy as np, tacthmc
    >>> batches = [np.arange(4.0), np.arange(4.0, 8.0)]
    >>> model = tacthmc.streamed(lambda m: 0.0, lambda m, x: -0.5 * (x - m) ** 2, batches, 80)
    >>> held = gathered(model, jnp.arange(8.0), 4)
    >>> float(held.estimate(jnp.array(0.0), jnp.array([1.0, 1.0])).total)
    40.0
    """
    count = jax.tree.leaves(examples)[0].shape[0]
    return GatheredPosterior(
        log_prior=streamed.log_prior,
        log_likelihood=streamed.log_likelihood,
        examples=examples,
        order=make_order("replacement", count, batch_size),
        size=streamed.size,
        batched=streamed.batched,
        model_state=streamed.model_state,
    )


def with_innermost(potential: Potential, inner: Potential) -> Potential:
    """The same wrappers around another potential."""
    if not isinstance(potential, WrappedPotential):
        return inner
    return eqx.tree_at(lambda p: p.inner, potential, with_innermost(potential.inner, inner))
