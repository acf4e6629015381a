"""Mixtures of isotropic Gaussians in any dimension."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tacthmc._typing import PRNGKey, Scalar


class GaussianMixture(eqx.Module):
    """Σ_k w_k N(μ_k, s²·I); an instance is its own energy function.

    >>> import jax.numpy as jnp
    >>> pair = GaussianMixture(jnp.array([[-3.0], [3.0]]), jnp.array([0.3, 0.7]), 1.0)
    >>> pair.mode(jnp.array([[2.0], [-1.0]])).tolist()
    [1, 0]
    """

    means: Float[Array, "k d"]
    weights: Float[Array, " k"]
    scale: float | Array

    def __init__(
        self, means: Float[Array, "k d"], weights: Float[Array, " k"], scale: float | Array
    ):
        """Set the components' means, weights (normalised here) and common sd."""
        self.means, self.scale = means, scale
        self.weights = weights / jnp.sum(weights)

    def __call__(self, theta: Float[Array, " d"]) -> Scalar:
        """−log density, normalised."""
        scale = jnp.asarray(self.scale).astype(theta.dtype)
        squares = jnp.sum((theta[None, :] - self.means) ** 2, axis=1) / scale**2
        constant = theta.shape[0] * (0.5 * np.log(2 * np.pi) + jnp.log(scale))
        return constant - jax.nn.logsumexp(jnp.log(self.weights) - 0.5 * squares)

    def mode(self, theta: Float[Array, "*n d"]) -> Int[Array, "*n"]:
        """The index of the nearest component."""
        away = theta[..., None, :] - jnp.broadcast_to(
            self.means, (*theta.shape[:-1], *self.means.shape)
        )
        return jnp.argmin(jnp.sum(away**2, axis=-1), axis=-1)

    def draw(self, key: PRNGKey, count: int) -> Float[Array, "n d"]:
        """Exact samples."""
        which, where = jax.random.split(key)
        index = jax.random.choice(which, len(self.weights), (count,), p=self.weights)
        shape = (count, self.means.shape[1])
        return self.means[index] + self.scale * jax.random.normal(where, shape, self.means.dtype)

    @property
    def mean(self) -> Float[Array, " d"]:
        """The mixture's mean."""
        return self.weights @ self.means

    @property
    def covariance(self) -> Float[Array, "d d"]:
        """The mixture's covariance."""
        away = self.means - self.mean[None, :]
        between = (self.weights[:, None] * away).T @ away
        return between + self.scale**2 * jnp.eye(self.means.shape[1], dtype=self.means.dtype)


def three_gaussians() -> GaussianMixture:
    """The 1-D mixture that stands for the paper's Figure 1: means −4, 0, 4, sd ½, .3 .4 .3.

    >>> three_gaussians().weights.round(3).tolist()
    [0.30000001192092896, 0.4000000059604645, 0.30000001192092896]
    """
    return GaussianMixture(jnp.array([[-4.0], [0.0], [4.0]]), jnp.array([0.3, 0.4, 0.3]), 0.5)
