r"""Posteriors of data: a log prior and a log likelihood per example, estimated from mini-batches.

U is always the full-data energy, U(θ) = −log p(θ) − Σ_i log p(x_i | θ). On a mini-batch of n
out of N examples

.. math:: \tilde U(\theta) = -\log p(\theta) - \frac{N}{n}\sum_{k=1}^n \log p(x_{i_k}\mid\theta)

and this module is the only place that contains N/n.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._typing import Batch, Scalar
from tacthmc.compiler._async_jit import without_jit
from tacthmc.compiler._mesh import sum_over_examples
from tacthmc.potentials._base import Energy, Potential, Traits, scalar
from tacthmc.potentials._batch_noise import CovarianceTerm, corrected_sum, power_sums
from tacthmc.potentials._batches import Batches, Epochs, ResidentBatches, WithReplacement
from tacthmc.potentials._data import check_functions, common_length, model_arrays, resident


class DataPotential(Potential):
    """A log prior and log likelihoods of examples from any source."""

    log_prior: eqx.AbstractVar[Callable[[Any], Any]]
    log_likelihood: eqx.AbstractVar[Callable[..., Any]]
    batched: eqx.AbstractVar[bool]
    model_state: eqx.AbstractVar[Any]

    @property
    @abstractmethod
    def num_data(self) -> int:
        """The number of examples, N."""

    def init_model(self) -> Any:
        """The model state given by the user."""
        return self.model_state

    def log_prior_at(self, position: Any) -> Scalar:
        """log p(θ), checked."""
        return scalar(self.log_prior(position), "log_prior")

    def log_likelihoods(
        self, likelihood: Callable[..., Any], position: Any, examples: Any, model: Any
    ) -> tuple[Array, Any]:
        """log p(x | θ) of each example, and the model state after them.

        ``likelihood`` is ``log_likelihood``, possibly with its arrays replaced by traced ones.
        """
        size = jax.tree.leaves(examples)[0].shape[0]
        if not self.batched:
            return jax.vmap(lambda x: scalar(likelihood(position, x), "log_likelihood"))(
                examples
            ), model
        if model is None:
            values = likelihood(position, examples)
        else:
            values, new = likelihood(position, examples, model)
            model = _like(new, model)
        values = jnp.asarray(values)
        if values.shape != (size,):
            raise ValueError(
                f"log_likelihood with batched=True must return one number per example, shape"
                f" ({size},); got shape {values.shape}"
            )
        return values, model

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """Ũ on the examples given (a pytree like the data, with any leading length)."""
        if not self.traits.independent_batches:
            correction = None
        model = self.init_model() if model is None else model
        prior = self.log_prior_at(position)
        size = jax.tree.leaves(batch)[0].shape[0]

        def added(values: Array, whole: Array) -> Array:
            return jnp.sum(values) if correction is None else power_sums(values, whole)

        if model is None:
            # Arrays are passed to the devices. Other leaves of a position are the same on each.
            arrays, rest = eqx.partition((position, self.log_likelihood), eqx.is_array)

            def each(batch: Any, arrays: Any) -> Array:
                position, likelihood = eqx.combine(arrays, rest)
                return self.log_likelihoods(likelihood, position, batch, None)[0]

            found = sum_over_examples(each, added, batch, arrays)
        else:
            # A model state is updated from the whole batch at once.
            likelihoods, model = self.log_likelihoods(self.log_likelihood, position, batch, model)
            found = added(likelihoods, likelihoods)
        scale = self.num_data / size
        if correction is not None:
            xi_energy = correction.xi_energy(-scale * found[0], prior)
            found = corrected_sum(found, correction, xi_energy, size, self.num_data)
        return Energy.all_tempered(-prior - scale * found.astype(prior.dtype), model)


class Posterior(DataPotential):
    """A posterior over resident data, estimated from mini-batches."""

    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[..., Any]
    data: Any
    order: WithReplacement | Epochs
    batched: bool = eqx.field(static=True)
    model_state: Any = None

    @property
    def traits(self) -> Traits:
        """Without a model state there is a full-data energy.

        With one, the likelihood depends on the batches that the model has seen. The covariance of
        force and energy can be estimated from independent batches of more than one example.
        """
        order, size = self.order, self.batch_size
        independent = isinstance(order, WithReplacement) and 1 < size < self.num_data
        return Traits(has_energy=self.model_state is None, independent_batches=independent)

    @property
    def batches(self) -> Batches:
        return ResidentBatches(self.order, self.data)

    @property
    def num_data(self) -> int:
        return self.order.num_data

    @property
    def batch_size(self) -> int:
        """The size n of drawn batches; a batch passed by hand may have any size."""
        return self.order.batch_size

    def full(self, position: Any) -> Energy:
        """U(θ) over all N examples, computed batch by batch."""
        if not self.traits.has_energy:
            raise ValueError(
                "a posterior with a model_state has no full-data energy: its likelihood depends"
                " on the batches that the model has seen"
            )
        prior = self.log_prior_at(position)

        def total_of(examples: Any) -> Array:
            likelihoods = self.log_likelihoods(self.log_likelihood, position, examples, None)[0]
            return jnp.sum(likelihoods)

        whole = self.num_data // self.batch_size
        total = jnp.zeros_like(prior)
        if whole:
            split = whole * self.batch_size
            stacked = jax.tree.map(
                lambda x: x[:split].reshape(whole, self.batch_size, *x.shape[1:]), self.data
            )
            total = total + jnp.sum(jax.lax.map(total_of, stacked)).astype(prior.dtype)
        if whole * self.batch_size < self.num_data:
            rest = jax.tree.map(lambda x: x[whole * self.batch_size :], self.data)
            total = total + total_of(rest).astype(prior.dtype)
        return Energy.all_tempered(-prior - total)


def posterior(
    log_prior: Callable[[Any], Any],
    log_likelihood: Callable[..., Any],
    data: Any,
    batch_size: int,
    *,
    batches: Literal["replacement", "epochs"] = "replacement",
    batched: bool = False,
    model_state: Any = None,
) -> Posterior:
    """A posterior estimated from mini-batches of data that stay on the device.

    For data that do not fit on the device, see :func:`tacthmc.streamed`.

    Args:
        log_prior: log p(θ), of the position.
        log_likelihood: log p(x | θ) of ONE example, as ``log_likelihood(position, example)``.
        data: any pytree of arrays that share their leading length N.
        batch_size: n, at most N; N itself takes all of the data in every step, without noise.
        batches: "replacement" draws each example independently, as the theory assumes;
            "epochs" visits every example once per reshuffled epoch (see
            :class:`tacthmc.potentials.Epochs` for what that costs).
        batched: whether ``log_likelihood`` takes a whole batch and returns one number per
            example.
        model_state: a state that the model carries from batch to batch, such as the running
            averages of batch norm: any pytree of arrays. It requires ``batched=True``, and
            ``log_likelihood(position, batch, model_state)`` then returns the numbers and the new
            state. Each chain carries its own, and ``run.model_states`` has that of each draw.

    >>> import jax.numpy as jnp
    >>> data = jnp.arange(10.0)
    >>> model = posterior(lambda mu: -0.5 * mu**2, lambda mu, x: -0.5 * (x - mu) ** 2, data, 5)
    >>> float(model.energy(jnp.array(0.0)))
    142.5
    >>> value, gradient = model.value_and_grad(jnp.array(0.0), data[:5])
    >>> float(value), float(gradient)     # 10/5 times the sum over the batch
    (30.0, -20.0)
    """
    check_functions(log_prior, log_likelihood, batched, model_state)
    num_data = common_length(data)
    order = make_order(batches, num_data, batch_size)
    data, model_state = resident(data), model_arrays(model_state)
    # A likelihood that knows which data are impossible says so before a run.
    check_data = getattr(log_likelihood, "check_data", None)
    if callable(check_data):
        check_data(data)
    return Posterior(
        log_prior=without_jit(log_prior),
        log_likelihood=without_jit(log_likelihood),
        data=data,
        order=order,
        batched=batched,
        model_state=model_state,
    )


def make_order(batches: str, num_data: int, batch_size: int) -> WithReplacement | Epochs:
    """The order in which examples are drawn, checked."""
    checks.whole("batch_size", batch_size, 1)
    if batch_size > num_data:
        raise ValueError(f"batch_size is {batch_size}, but data has only {num_data} examples")
    orders = {"replacement": WithReplacement, "epochs": Epochs}
    if not isinstance(batches, str) or batches not in orders:
        raise ValueError(f"batches must be 'replacement' or 'epochs'; got {batches!r}")
    return orders[batches](num_data, batch_size)


def _like(new: Any, old: Any) -> Any:
    """The new model state, checked to have the structure, shapes and dtypes of the old one."""
    kinds = [
        [(jnp.shape(x), jnp.result_type(x)) for x in jax.tree.leaves(tree)] for tree in (new, old)
    ]
    if jax.tree.structure(new) != jax.tree.structure(old) or kinds[0] != kinds[1]:
        raise ValueError(
            "log_likelihood must return the new model state in the shape and dtypes of the old"
            f" one; expected {kinds[1]}, got {kinds[0]}"
        )
    return jax.tree.map(jnp.asarray, new)
