"""A correlated Gaussian."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc import _checks as checks
from tacthmc._typing import PRNGKey, Scalar


class Gaussian(eqx.Module):
    """N(mean, covariance). An instance is an energy function.

    >>> import jax.numpy as jnp
    >>> target = Gaussian(jnp.zeros(2), jnp.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> round(float(target(jnp.ones(2))), 3)
    0.667
    """

    mean: Float[Array, " d"]
    covariance: Float[Array, "d d"]
    precision: Float[Array, "d d"]

    def __init__(self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]):
        """Set the mean and the covariance."""
        center = checks.numbers("mean", mean, "(d)")
        matrix = checks.numbers("covariance", covariance, "(d, d)")
        if matrix.shape != 2 * center.shape or not np.isfinite(center).all():
            raise ValueError(
                f"mean must be d finite numbers, and covariance a d×d matrix; got shapes"
                f" {center.shape} and {matrix.shape}"
            )
        symmetric = np.isfinite(matrix).all() and np.allclose(matrix, matrix.T)
        if not symmetric or np.linalg.eigvalsh(matrix).min() <= 0:
            raise ValueError(f"covariance must be symmetric and positive definite; got {matrix}")
        mean, covariance = checks.array("mean", mean), checks.array("covariance", covariance)
        self.mean, self.covariance = mean, covariance
        self.precision = jnp.asarray(np.linalg.inv(np.asarray(covariance))).astype(mean.dtype)

    def __call__(self, theta: Float[Array, " d"]) -> Scalar:
        """½(θ−μ)ᵀΣ⁻¹(θ−μ)."""
        away = theta - self.mean
        return 0.5 * away @ (self.precision @ away)

    def draw(self, key: PRNGKey, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Exact samples."""
        return jax.random.multivariate_normal(key, self.mean, self.covariance, shape)
