"""Mixtures of isotropic Gaussians in any dimension."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tacthmc import _checks as checks
from tacthmc._typing import PRNGKey, Scalar


class GaussianMixture(eqx.Module):
    """Σ_k w_k N(μ_k, s²·I). An instance is an energy function.

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
        """Set the means of the components, their weights (normalized here) and common sd."""
        centers = checks.numbers("means", means, "(k, d)")
        masses = checks.numbers("weights", weights, "(k)")
        checks.all_positive("weights", masses)
        checks.positive("scale", scale)
        if not np.isfinite(centers).all() or len(masses) != len(centers):
            raise ValueError(
                "means must be finite, with one of the weights for each; got shapes"
                f" {centers.shape} and {masses.shape}"
            )
        self.means, self.scale = checks.array("means", means), scale
        weights = checks.array("weights", weights)
        self.weights = weights / jnp.sum(weights)

    def __call__(self, theta: Float[Array, " d"]) -> Scalar:
        """−log density, normalized."""
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
        """The mean of the mixture."""
        return self.weights @ self.means

    @property
    def covariance(self) -> Float[Array, "d d"]:
        """The covariance of the mixture."""
        away = self.means - self.mean[None, :]
        between = (self.weights[:, None] * away).T @ away
        return between + self.scale**2 * jnp.eye(self.means.shape[1], dtype=self.means.dtype)


def three_gaussians() -> GaussianMixture:
    """The 1-D mixture for the paper's Figure 1: means −4, 0, 4, sd ½, weights .3, .4, .3.

    >>> three_gaussians().weights.round(3).tolist()
    [0.30000001192092896, 0.4000000059604645, 0.30000001192092896]
    """
    return GaussianMixture(jnp.array([[-4.0], [0.0], [4.0]]), jnp.array([0.3, 0.4, 0.3]), 0.5)


def ring() -> GaussianMixture:
    """Eight Gaussians on a circle of radius 4 in the plane, sd 0.3, weights 1/36, …, 8/36.

    It is one of two targets for the paper's Figure 2. Neighbors are 3.06 apart, or ten standard
    deviations, with an energy barrier of about 13 between them.

    >>> import jax.numpy as jnp
    >>> ring().means.shape, (36 * ring().weights).round(2).tolist()
    ((8, 2), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    """
    angles = 2 * np.pi * np.arange(8) / 8
    means = 4 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return GaussianMixture(jnp.asarray(means, jnp.float32), jnp.arange(1.0, 9.0), 0.3)


def grid() -> GaussianMixture:
    """25 narrow Gaussians on a 5×5 lattice of spacing 2 in the plane, sd 0.2, unequal weights.

    It is the other target for the paper's Figure 2. The weight of the mode in row i and column j is
    proportional to 1 + (i + 2j) mod 5.

    >>> import jax.numpy as jnp
    >>> grid().means.shape, (75 * grid().weights[:5]).round(2).tolist()
    ((25, 2), [1.0, 3.0, 5.0, 2.0, 4.0])
    """
    row, column = np.divmod(np.arange(25), 5)
    means = 2.0 * np.stack([column - 2, row - 2], axis=1)
    weights = 1.0 + (row + 2 * column) % 5
    return GaussianMixture(jnp.asarray(means, jnp.float32), jnp.asarray(weights, jnp.float32), 0.2)
