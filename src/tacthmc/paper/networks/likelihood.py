"""The log likelihood and log prior of network parameters, for :func:`tacthmc.posterior`."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from tacthmc.paper import checks
from tacthmc.paper.networks.model import Model
from tacthmc.paper.types import Number, Scalar


class Categorical(eqx.Module):
    """log softmax(logits)[label] of each example of a batch."""

    model: Model

    def __call__(
        self, params: Mapping[str, Array], batch: tuple[Num[Array, "n ..."], Array]
    ) -> Float[Array, " n"]:
        """One number per example."""
        images, labels = batch
        if labels.shape != images.shape[:1]:
            raise ValueError(
                f"labels must have shape ({images.shape[0]},), one per image;"
                f" got shape {labels.shape}"
            )
        if not jnp.issubdtype(labels.dtype, jnp.integer):
            raise TypeError(f"labels must be integers; got dtype {labels.dtype}")
        values = jax.nn.log_softmax(self.model.logits(params, images), axis=-1)
        # A comparison instead of a gather, whose gradient would be a scatter.
        classes = jnp.arange(self.model.classes, dtype=jnp.int32)
        selected = labels.astype(jnp.int32)[:, None] == classes[None, :]
        found = jnp.sum(jnp.where(selected, values, jnp.zeros_like(values)), axis=-1)
        # No class has the log likelihood 0: a label outside of them is no certainty.
        known = (labels >= 0) & (labels < self.model.classes)
        return jnp.where(known, found, jnp.full_like(found, jnp.nan))

    def check_data(self, data: Any) -> None:
        """Require that every label is a class."""
        labels = np.asarray(data[1])
        if labels.size and not (labels.min() >= 0 and labels.max() < self.model.classes):
            raise ValueError(
                f"labels must be 0 to {self.model.classes - 1}, the classes of the model; got"
                f" {labels.min()} to {labels.max()}"
            )


def categorical(model: Model) -> Categorical:
    """The log likelihood of a classifier, for ``tacthmc.posterior(…, batched=True)``.

    The data are (images, labels) with integer labels from 0. A label outside the classes is an
    error, or NaN where the labels are not known in advance.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> from tacthmc.paper.networks import mlp
    >>> model = mlp(inputs=4, hidden=3, classes=2)
    >>> data = (jnp.zeros((10, 4), jnp.uint8), jnp.zeros(10, jnp.int32))
    >>> potential = tacthmc.posterior(
    ...     gaussian_prior(scale=1.0), categorical(model), data, batch_size=5, batched=True
    ... )
    >>> potential.energy(model.init(jax.random.key(0))).shape
    ()
    """
    checks.instance("model", model, Model, "a model, such as tacthmc.paper.networks.mlp()")
    return Categorical(model)


class GaussianPrior(eqx.Module):
    """−½ τ Σ θ² over all numbers of a pytree."""

    precision: Array

    def __call__(self, params: Any) -> Scalar:
        """The log density, up to a constant."""
        leaves = jax.tree.leaves(params)
        squares = sum(jnp.sum(leaf * leaf) for leaf in leaves)
        return jnp.asarray(-0.5 * self.precision.astype(leaves[0].dtype) * squares)


def gaussian_prior(
    *, scale: Number | None = None, precision: Number | None = None
) -> GaussianPrior:
    """Independent N(0, scale²) for every parameter: log p(θ) = −½ τ Σ θ², τ = 1/scale².

    The normalizing constant is left out. Give either argument.

    Args:
        scale: the standard deviation.
        precision: τ, the weight decay of an optimizer.

    >>> import jax.numpy as jnp
    >>> prior = gaussian_prior(scale=0.5)
    >>> float(prior({"weight": jnp.ones((2, 2)), "bias": jnp.ones(1)}))
    -10.0
    >>> float(gaussian_prior(precision=4.0)(jnp.ones(5)))
    -10.0
    """
    if (scale is None) == (precision is None):
        raise ValueError(
            f"gaussian_prior takes either scale or precision; got scale={scale!r},"
            f" precision={precision!r}"
        )
    if precision is None:
        checks.positive("scale", scale)
        return GaussianPrior(1.0 / jnp.asarray(scale, float) ** 2)
    checks.positive("precision", precision)
    return GaussianPrior(jnp.asarray(precision, float))
