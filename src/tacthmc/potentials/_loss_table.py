r"""An energy control variate: each example's last log likelihood, kept.

ξ feels the energy, and a mini-batch's energy has the noise of which examples are in it, however
little θ has moved. With k_i the log likelihood of example i when it was last in a batch,

.. math::
    \tilde U(\theta) = -\log p(\theta) - \sum_{i=1}^N k_i
        - \frac Nn \sum_{j=1}^n \big(\log p(x_{i_j}\mid\theta) - k_{i_j}\big),

after which the batch's k's are what has just been computed. The gradient is that of the ordinary
estimate, so θ moves as before under the same ξ; only what ξ feels has less noise, by as much as the
k's are still up to date.

**Unbiased**, E[Ũ(θ) | past] = U(θ), for whatever k's, since they are made of earlier batches
alone and each batch is drawn independently of those: by ``batches="replacement"``. In an epoch the
batch to come is one of those not seen yet, whose k's are the oldest, and the estimate is biased by
what has changed in them: epochs are refused. Errors of successive steps stay uncorrelated; their
variance changes along the chain, which a thermostat of ξ's has to follow.

**At the start** nothing is kept. An example that was never seen counts with the mean of the batch
before (k_i may be anything known before the batch), in the first step with zero: the ordinary
estimate. After a few N/n steps all have been seen.

**The sum** Σ k_i is kept up with by adding what changes, each example once however often it is in
the batch, with the rounding error of every addition carried along: it does not drift.
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
    """What a chain keeps: k_i (infinite where never seen), and their sum in two numbers."""

    last: Float[Array, " n"]
    total: Scalar
    lost: Scalar
    """What rounding took off ``total``."""
    unseen: Int[Array, ""]
    mean: Scalar
    """Of the batch before, for those never seen."""
    inner: Any
    """The model's own state, where it has one."""


class Drawn(NamedTuple):
    """A batch with its examples' numbers."""

    indices: Int[Array, " n"]
    examples: Any


class NumberedBatches(Batches):
    """The inner batches, with the examples' numbers."""

    inner: Batches

    def init(self, key: PRNGKey) -> Any:
        return self.inner.init(key)

    @property
    def axes(self) -> Any:
        return self.inner.axes

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        return self.inner.select(data, key, position)

    def fetch(self, selection: Any) -> Drawn:
        return Drawn(selection, self.inner.fetch(selection))


class LossTablePotential(WrappedPotential):
    """A posterior whose energy is corrected by kept log likelihoods."""

    inner: Potential

    @property
    def posterior(self) -> Posterior:
        """The one inside."""
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
        """Nothing seen."""
        zero = jnp.zeros(())
        return Losses(
            last=jnp.full(self.posterior.num_data, jnp.inf, zero.dtype),
            total=zero,
            lost=zero,
            unseen=jnp.asarray(self.posterior.num_data),
            mean=zero,
            inner=self.inner.init_model(),
        )

    def kept_model(self, model: Any) -> Any:
        """Without the table, which is as long as the data."""
        return self.inner.kept_model(model.inner)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """Ũ with the table, and the table after the batch."""
        if not isinstance(batch, Drawn):
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


def _updated(model: Losses, batch: Drawn, values: Array, inner: Any) -> Losses:
    kept = model.last[batch.indices]
    seen = jnp.isfinite(kept)
    # Of an example that is there several times one counts: the one whose number is found again
    # where all have written theirs. (Sorting, to find them, takes longer than all else here.)
    numbers = jnp.arange(len(values)).astype(kept.dtype)
    marked = model.last.at[batch.indices].set(numbers)
    once = marked[batch.indices] == numbers
    # A place past the end is none.
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
    """Take most of the mini-batch noise off the energy that ξ feels.

    Every chain keeps each example's last log likelihood, N numbers, and the estimate adds to their
    sum what the batch says has changed (:mod:`tacthmc.potentials._loss_table` has the equation, and why it is
    unbiased). Forces are what they were. A step reads and writes n places of the table: nothing
    beside a network's gradient, as much again as a small regression's. The more often an example
    is seen against how fast its loss changes, the more it gives: a small step size, a large n/N.
    With a model of a state (batch norm) or dropout what is kept is noisy itself.

    :func:`tacthmc.temper_likelihood` goes around it. ``run.model_states`` has no tables: they
    go on with the chains only (and are in a stored run's checkpoints).

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
    >>> bool(abs(energy.total - model.energy(here)) < 0.01)        # all seen, and nothing has changed
    True
    """
    if not isinstance(potential, Posterior):
        raise TypeError(
            "loss_table needs a tacthmc.posterior itself, whose examples it knows by number (what"
            " wraps one goes around it: temper_likelihood(loss_table(…)), subset(loss_table(…), …));"
            f" got a {type(potential).__name__}"
        )
    if not isinstance(potential.order, WithReplacement):
        raise ValueError(
            'loss_table needs batches="replacement": in an epoch the examples to come are those'
            " seen longest ago, and the energy would be biased"
        )
    return LossTablePotential(potential)
