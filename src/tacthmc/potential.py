r"""Energies: from a log density, or a log prior and per-example log likelihoods, to Ũ and ∇Ũ.

U is always the full-data energy, U(θ) = −log p(θ) − Σ_i log p(x_i | θ). On a mini-batch of n
out of N examples

.. math:: \tilde U(\theta) = -\log p(\theta) - \frac{N}{n}\sum_{k=1}^n \log p(x_{i_k}\mid\theta)

and this module is the one place where N/n stands. A potential never draws at random by
itself: ``select`` turns a key into a selection (indices, noise), ``fetch`` turns a selection
into a batch, ``value_and_grad`` estimates from the batch it is given.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc import checks
from tacthmc._typing import Batch, Number, Position, PRNGKey, Scalar
from tacthmc.batches import Epochs, WithReplacement


class Potential(eqx.Module):
    """An energy and its gradient, estimated from a batch."""

    @abstractmethod
    def estimate(self, position: Any, batch: Batch) -> Scalar:
        """An unbiased estimate Ũ(θ), whose derivative is an unbiased estimate of ∇U(θ)."""

    @abstractmethod
    def energy(self, position: Any) -> Scalar:
        """The full-data energy U(θ), without noise."""

    @abstractmethod
    def init_data(self, key: PRNGKey) -> Any:
        """What has to be remembered from batch to batch."""

    @property
    @abstractmethod
    def data_axes(self) -> Any:
        """How chains are mapped over that memory (a pytree prefix for ``vmap``)."""

    @abstractmethod
    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        """The new memory, and the random part of one batch.

        Only the shapes and dtypes of ``position`` may matter: selections are made for many
        steps ahead.
        """

    @abstractmethod
    def fetch(self, selection: Any) -> Batch:
        """The batch that a selection stands for."""

    def value_and_grad(self, position: Any, batch: Batch) -> tuple[Scalar, Position]:
        """Ũ(θ) and ∇Ũ(θ)."""
        return jax.value_and_grad(self.estimate)(position, batch)

    def batch(self, key: PRNGKey, position: Any) -> Batch:
        """One batch, for loops that want no memory from batch to batch."""
        first, second = jax.random.split(key)
        return self.fetch(self.select(self.init_data(first), second, position)[1])


class FullPotential(Potential):
    """A full-batch energy: no data to draw, no noise."""

    function: Callable[[Any], Any]

    def energy(self, position: Any) -> Scalar:
        """U(θ)."""
        return _scalar(self.function(position), "energy")

    def estimate(self, position: Any, batch: Batch) -> Scalar:
        """U(θ) itself."""
        return self.energy(position)

    def init_data(self, key: PRNGKey) -> tuple[()]:
        """Nothing."""
        return ()

    @property
    def data_axes(self) -> tuple[()]:
        """Nothing."""
        return ()

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[tuple[()], tuple[()]]:
        """Nothing."""
        return (), ()

    def fetch(self, selection: Any) -> tuple[()]:
        """Nothing."""
        return ()


class Posterior(Potential):
    """A posterior over resident data, estimated from mini-batches."""

    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[[Any, Any], Any]
    data: Any
    order: WithReplacement | Epochs
    batched: bool = eqx.field(static=True)

    @property
    def num_data(self) -> int:
        """N."""
        return self.order.num_data

    @property
    def batch_size(self) -> int:
        """The n that :meth:`select` draws; a batch passed by hand may have any size."""
        return self.order.batch_size

    def _log_likelihoods(self, position: Any, examples: Any) -> Array:
        size = jax.tree.leaves(examples)[0].shape[0]
        if self.batched:
            values = jnp.asarray(self.log_likelihood(position, examples))
            if values.shape != (size,):
                raise ValueError(
                    f"log_likelihood with batched=True must return one number per example, shape"
                    f" ({size},); got shape {values.shape}"
                )
            return values
        return jax.vmap(
            lambda example: _scalar(self.log_likelihood(position, example), "log_likelihood")
        )(examples)

    def estimate(self, position: Any, batch: Batch) -> Scalar:
        """Ũ on the examples given (a pytree like the data, with any leading length)."""
        likelihoods = self._log_likelihoods(position, batch)
        prior = _scalar(self.log_prior(position), "log_prior")
        scale = self.num_data / likelihoods.shape[0]
        return -prior - scale * jnp.sum(likelihoods).astype(prior.dtype)

    def energy(self, position: Any) -> Scalar:
        """U(θ) over all N examples, a batch at a time."""
        prior = _scalar(self.log_prior(position), "log_prior")
        whole = self.num_data // self.batch_size
        total = jnp.zeros_like(prior)
        if whole:
            split = whole * self.batch_size
            stacked = jax.tree.map(
                lambda x: x[:split].reshape(whole, self.batch_size, *x.shape[1:]), self.data
            )
            sums = jax.lax.map(lambda x: jnp.sum(self._log_likelihoods(position, x)), stacked)
            total = total + jnp.sum(sums).astype(prior.dtype)
        if whole * self.batch_size < self.num_data:
            rest = jax.tree.map(lambda x: x[whole * self.batch_size :], self.data)
            total = total + jnp.sum(self._log_likelihoods(position, rest)).astype(prior.dtype)
        return -prior - total

    def init_data(self, key: PRNGKey) -> Any:
        """The order's memory."""
        return self.order.init(key)

    @property
    def data_axes(self) -> Any:
        """The order's."""
        return self.order.axes

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Array]:
        """The next indices."""
        return self.order.next(data, key)

    def fetch(self, selection: Any) -> Batch:
        """The examples at those indices."""
        return jax.tree.map(lambda x: x[selection], self.data)


class WrappedPotential(Potential):
    """A potential around another one, whose memory of the data it keeps."""

    inner: eqx.AbstractVar[Potential]

    def init_data(self, key: PRNGKey) -> Any:
        """The inner potential's."""
        return self.inner.init_data(key)

    @property
    def data_axes(self) -> Any:
        """The inner potential's."""
        return self.inner.data_axes


class SameBatchPotential(WrappedPotential):
    """A potential that also takes the same batches as the one that it is around."""

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        """The inner potential's."""
        return self.inner.select(data, key, position)

    def fetch(self, selection: Any) -> Batch:
        """The inner potential's."""
        return self.inner.fetch(selection)


class TemperedPotential(SameBatchPotential):
    """U/τ: the posterior at a temperature of its own."""

    inner: Potential
    posterior_temperature: Number

    def estimate(self, position: Any, batch: Batch) -> Scalar:
        """Ũ/τ."""
        value = self.inner.estimate(position, batch)
        return value / jnp.asarray(self.posterior_temperature).astype(value.dtype)

    def energy(self, position: Any) -> Scalar:
        """U/τ."""
        value = self.inner.energy(position)
        return value / jnp.asarray(self.posterior_temperature).astype(value.dtype)


def potential(energy: Callable[[Any], Any]) -> FullPotential:
    """A full-batch potential from U(θ) = −log p(θ) + const.

    >>> import jax.numpy as jnp
    >>> gaussian = potential(lambda theta: 0.5 * jnp.sum(theta**2))
    >>> value, gradient = gaussian.value_and_grad(jnp.array([1.0, 2.0]), ())
    >>> float(value), gradient.tolist()
    (2.5, [1.0, 2.0])
    """
    if not callable(energy):
        raise TypeError(f"energy must be a function of the position; got {energy!r}")
    return FullPotential(energy)


def posterior(
    log_prior: Callable[[Any], Any],
    log_likelihood: Callable[[Any, Any], Any],
    data: Any,
    batch_size: int,
    *,
    batches: Literal["replacement", "epochs"] = "replacement",
    batched: bool = False,
) -> Posterior:
    """A posterior estimated from mini-batches of data that stay on the device.

    Args:
        log_prior: log p(θ), of the position.
        log_likelihood: log p(x | θ) of ONE example, as ``log_likelihood(position, example)``.
        data: any pytree of arrays that share their leading length N.
        batch_size: n, at most N.
        batches: "replacement" draws each example independently, as the theory assumes;
            "epochs" visits every example once per reshuffled epoch (see
            :class:`tacthmc.batches.Epochs` for what that costs).
        batched: whether ``log_likelihood`` takes a whole batch and returns one number per
            example, for models that are written so.

    >>> import jax.numpy as jnp
    >>> data = jnp.arange(10.0)
    >>> model = posterior(lambda mu: -0.5 * mu**2, lambda mu, x: -0.5 * (x - mu) ** 2, data, 5)
    >>> float(model.energy(jnp.array(0.0)))
    142.5
    >>> value, gradient = model.value_and_grad(jnp.array(0.0), data[:5])
    >>> float(value), float(gradient)     # 10/5 times the batch's share
    (30.0, -20.0)
    """
    for name, function in (("log_prior", log_prior), ("log_likelihood", log_likelihood)):
        if not callable(function):
            raise TypeError(f"{name} must be a function; got {function!r}")
    checks.whole("batch_size", batch_size, 1)
    leaves = jax.tree.leaves(data)
    if not leaves:
        raise ValueError("data has no arrays; expected a pytree of arrays with N rows each")
    shapes = [np.shape(leaf) for leaf in leaves]
    if any(not shape for shape in shapes) or len({shape[0] for shape in shapes}) != 1:
        raise ValueError(
            f"data's arrays must share their leading length (the number of examples); got shapes"
            f" {shapes}"
        )
    num_data = shapes[0][0]
    if batch_size > num_data:
        raise ValueError(f"batch_size is {batch_size}, but data has only {num_data} examples")
    for leaf in leaves:
        if jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.inexact):
            bad = int(np.sum(~np.isfinite(np.asarray(leaf))))
            if bad:
                raise ValueError(f"data has {bad} values that are NaN or infinite")
    orders = {"replacement": WithReplacement, "epochs": Epochs}
    if batches not in orders:
        raise ValueError(f"batches must be 'replacement' or 'epochs'; got {batches!r}")
    order = orders[batches](num_data, batch_size)
    return Posterior(log_prior, log_likelihood, jax.tree.map(jnp.asarray, data), order, batched)


def tempered(potential: Potential, posterior_temperature: Number) -> TemperedPotential:
    """The posterior at a temperature τ of its own, exp(−U/τ): τ < 1 is a cold posterior.

    This changes what is sampled. The temperature of ξ's excursions, T/λ(ξ), and the bath
    temperature T of the thermostats do not.

    >>> import jax.numpy as jnp
    >>> cold = tempered(potential(lambda theta: theta**2), 0.5)
    >>> float(cold.energy(jnp.array(1.0)))
    2.0
    """
    checks.positive("posterior_temperature", posterior_temperature)
    # An array, so that another temperature finds the same compiled program.
    return TemperedPotential(potential, jnp.asarray(posterior_temperature))


def _scalar(value: Any, name: str) -> Scalar:
    value = jnp.asarray(value)
    if value.shape != ():
        raise ValueError(
            f"{name} must return a scalar; got shape {value.shape} (sum over what is left)"
        )
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(f"{name} must return a floating-point number; got dtype {value.dtype}")
    return value
