r"""An energy control variate: a table of the last log likelihood of each example.

The energy of a mini-batch acts on ξ, and it depends on which examples are in the batch, even if θ
has hardly moved. With k_i the log likelihood of example i when it was last in a batch,

.. math::
    \tilde U(\theta) = -\log p(\theta) - \sum_{i=1}^N k_i
        - \frac Nn \sum_{j=1}^n \big(\log p(x_{i_j}\mid\theta) - k_{i_j}\big),

and afterward the k's of the batch are set to the values just computed. The gradient is that of the
ordinary estimate, so θ moves as before for the same ξ. Only the energy that acts on ξ has less
noise, depending on how up to date the k's are.

**Unbiased**, E[Ũ(θ) | past] = U(θ), for any k's, because they depend on earlier batches only and
each batch is drawn independently of those (``batches="replacement"``). In an epoch the next batch
consists of examples not yet seen, whose k's are the oldest, and the changes in these bias the
estimate. Epochs are therefore refused. Errors of successive steps stay uncorrelated. Their variance
changes along the chain, and the thermostat of ξ has to follow it.

**At the start** the table is empty. An example that was never seen counts with the mean of the
previous batch (k_i may be anything known before the batch). In the first step it counts with zero,
which is the ordinary estimate. After a few N/n steps all examples have been seen.

**The sum** Σ k_i is updated by adding the changes, each example once even if the batch contains it
several times. The rounding error of every addition is carried along, so the sum does not drift.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tacthmc._typing import Batch, PRNGKey, Scalar
from tacthmc.potentials._base import Energy, Potential, Traits, WrappedPotential
from tacthmc.potentials._batch_noise import CovarianceTerm, corrected_sum, power_sums
from tacthmc.potentials._batches import Batches, WithReplacement
from tacthmc.potentials._posterior import Posterior


class Losses(NamedTuple):
    """The table of a chain: k_i (infinite if never seen), and their sum in two numbers."""

    last: Float[Array, " n"]
    """k_i."""
    total: Scalar
    """Σ k_i over the examples seen, rounded."""
    lost: Scalar
    """The rounding error of ``total``, to be added."""
    unseen: Int[Array, ""]
    """The number of examples never seen."""
    mean: Scalar
    """The mean of the previous batch, for examples never seen."""
    inner: Any
    """The state of the model itself, if it has one."""


class NumberedBatch(NamedTuple):
    """A batch with the indices of its examples."""

    indices: Int[Array, " n"]
    examples: Any


class NumberedBatches(Batches):
    """The inner batches, with the indices of their examples."""

    inner: Batches

    def init(self, key: PRNGKey) -> Any:
        return self.inner.init(key)

    @property
    def axes(self) -> Any:
        return self.inner.axes

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        return self.inner.select(data, key, position)

    def fetch(self, selection: Any) -> NumberedBatch:
        return NumberedBatch(selection, self.inner.fetch(selection))


class LossTablePotential(WrappedPotential):
    """A posterior whose energy is corrected by a table of log likelihoods."""

    inner: Potential

    @property
    def posterior(self) -> Posterior:
        """The posterior inside."""
        assert isinstance(self.inner, Posterior)
        return self.inner

    @property
    def traits(self) -> Traits:
        return self.inner.traits._replace(remembers=True)

    @property
    def batches(self) -> Batches:
        return NumberedBatches(self.inner.batches)

    def full(self, position: Any) -> Energy:
        """The energy of all data, which needs no table."""
        return self.inner.full(position)

    def init_model(self) -> Losses:
        """An empty table."""
        zero = jnp.zeros(())
        return Losses(
            last=jnp.full(self.posterior.num_data, jnp.inf, zero.dtype),
            total=zero,
            lost=zero,
            unseen=jnp.full((), self.posterior.num_data, int),
            mean=zero,
            inner=self.inner.init_model(),
        )

    def kept_model(self, model: Any) -> Any:
        """The inner state, without the table, which is as long as the data."""
        return self.inner.kept_model(model.inner)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """Ũ by the table, and the table after the batch."""
        if not isinstance(batch, NumberedBatch):
            raise TypeError(
                "a posterior with a table of losses has to know which examples a batch has: make"
                f" batches with potential.batch(key, position); got a {type(batch).__name__}"
            )
        model = self.init_model() if model is None else model
        posterior = self.posterior
        prior = posterior.log_prior_at(position)
        values, inner = posterior.log_likelihoods(
            posterior.log_likelihood, position, batch.examples, model.inner
        )
        values = values.astype(model.last.dtype)
        kept = model.last[batch.indices]
        seen = jnp.isfinite(kept)
        missing = model.unseen.astype(kept.dtype) * model.mean
        scale = posterior.num_data / len(batch.indices)
        changes = values - jnp.where(seen, kept, model.mean)
        known = model.total + model.lost + missing
        if correction is None or not posterior.traits.independent_batches:
            change = jnp.sum(changes)
        else:
            sums, size = power_sums(changes, changes), len(changes)
            xi_energy = correction.xi_energy(-known - scale * jnp.sum(changes), prior)
            change = corrected_sum(sums, correction, xi_energy, size, posterior.num_data)
        whole = known + scale * change
        after = _updated(model, batch, jax.lax.stop_gradient(values), inner)
        return Energy.all_tempered(-prior - whole.astype(prior.dtype), after)


def _updated(model: Losses, batch: NumberedBatch, values: Array, inner: Any) -> Losses:
    kept = model.last[batch.indices]
    seen = jnp.isfinite(kept)
    # An example that occurs several times in the batch counts once. All its places write their
    # number to one slot of a table; the place that reads back its own number counts. (Sorting the
    # indices instead would take longer than everything else here.)
    numbers = jnp.arange(len(values)).astype(kept.dtype)
    marked = model.last.at[batch.indices].set(numbers)
    once = marked[batch.indices] == numbers
    # Writes to a place past the end are dropped.
    places = jnp.where(once, batch.indices, len(model.last))
    new = jnp.sum(jnp.where(once, values - jnp.where(seen, kept, 0), 0)) + model.lost
    total = model.total + new
    back = total - model.total
    return Losses(
        last=marked.at[places].set(values, mode="drop"),
        total=total,
        lost=(model.total - (total - back)) + (new - back),
        unseen=model.unseen - jnp.sum(once & ~seen).astype(model.unseen.dtype),
        mean=jnp.mean(values),
        inner=inner,
    )


def loss_table(potential: Potential) -> LossTablePotential:
    """Remove most of the mini-batch noise from the energy that acts on ξ.

    Every chain keeps the last log likelihood of each example, N numbers. The estimate is their sum
    plus the changes that the batch shows (:mod:`tacthmc.potentials._loss_table` has the equation,
    and why it is unbiased). Forces are unchanged. A step reads and writes n places of the table:
    negligible beside the gradient of a network, but as much again as that of a small regression.
    The gain is large where examples are seen often compared with how fast their losses change: with
    a small step size and a large n/N. With a model state (batch norm) or dropout the values in the
    table are noisy themselves.

    :func:`tacthmc.temper_likelihood` goes around it. ``run.model_states`` does not include the
    tables. They are part of the chains, and of the checkpoints of a stored run.

    Args:
        potential: a :func:`tacthmc.posterior` with ``batches="replacement"``.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> data = jax.random.normal(jax.random.key(0), (1000,))
    >>> model = tacthmc.posterior(lambda m: 0.0 * m, lambda m, x: -0.5 * (x - m) ** 2, data, 100)
    >>> table, here = loss_table(model), jnp.array(0.3)
    >>> losses = table.init_model()
    >>> for key in jax.random.split(jax.random.key(1), 100):
    ...     energy = table.estimate(here, table.batch(key, here), losses)
    ...     losses = energy.model
    >>> bool(abs(energy.total - model.energy(here)) < 0.01)   # all seen, at an unchanged position
    True
    """
    if not isinstance(potential, Posterior):
        raise TypeError(
            "potential must be a tacthmc.posterior itself, whose examples have indices (put"
            " wrappers around it: temper_likelihood(loss_table(…)), subset(loss_table(…), …));"
            f" got a {type(potential).__name__}"
        )
    if not isinstance(potential.order, WithReplacement):
        raise ValueError(
            'loss_table needs batches="replacement": in an epoch the next examples are those'
            " seen longest ago, and the energy would be biased"
        )
    return LossTablePotential(potential)
