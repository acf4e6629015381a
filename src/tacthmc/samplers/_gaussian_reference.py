"""A Gaussian with any covariance as a base density, from which the replica at λ = 0 is drawn."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc import _checks as checks
from tacthmc._positions import flatten, scalar_dtype, unflatten
from tacthmc._typing import Batch, Position
from tacthmc.potentials import CovarianceTerm, Energy, Potential
from tacthmc.samplers._base_density import GaussianBase


class GaussianReference(Potential):
    """N(μ, LLᵀ), normalized, where L is a vector (a diagonal) or a lower-triangular matrix.

    The coordinates are those of the leaves of the position, one leaf after the other.

    >>> import jax.numpy as jnp
    >>> reference = GaussianReference(jnp.zeros(2), jnp.array([[2.0, 0.0], [1.0, 0.5]]))
    >>> reference.drawn(jnp.array([1.0, 2.0])).tolist()
    [2.0, 2.0]
    >>> round(float(reference.energy(jnp.array([2.0, 2.0]))), 4)      # ½(1² + 2²) + log 2π
    4.3379
    """

    mean: Float[Array, " d"]
    scale: Float[Array, " d"] | Float[Array, "d d"]
    inverse: Float[Array, " d"] | Float[Array, "d d"]
    """1/L, or the matrix L⁻¹."""

    def __init__(self, mean: Any, scale: Any):
        """Use μ = ``mean`` and L = ``scale``."""
        plain = np.asarray(scale, float)
        diagonal = plain if plain.ndim == 1 else np.diag(plain)
        checks.all_positive("the diagonal of scale", diagonal)
        self.mean, self.scale = jnp.asarray(mean, float), jnp.asarray(plain, float)
        self.inverse = jnp.asarray(1 / plain if plain.ndim == 1 else np.linalg.inv(plain), float)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        return self.full(position)._replace(model=model)

    def full(self, position: Any) -> Energy:
        """½|L⁻¹(θ − μ)|² + log|L| + D/2·log 2π."""
        vector = flatten(position, scalar_dtype(position))
        z = self._times(self.inverse, vector - self.mean.astype(vector.dtype))
        diagonal = self.scale if self.scale.ndim == 1 else jnp.diagonal(self.scale)
        volume = jnp.sum(jnp.log(diagonal)).astype(vector.dtype)
        constant = np.asarray(0.5 * len(diagonal) * np.log(2 * np.pi), vector.dtype)
        return Energy.all_tempered(0.5 * jnp.sum(z * z) + volume + constant)

    def drawn(self, normal: Position) -> Position:
        """μ + L·n for standard normals n in the shape of a position."""
        n = flatten(normal, scalar_dtype(normal))
        return unflatten(self.mean.astype(n.dtype) + self._times(self.scale, n), normal)

    @staticmethod
    def _times(factor: Array, vector: Float[Array, " d"]) -> Float[Array, " d"]:
        factor = factor.astype(vector.dtype)
        return (
            factor * vector if factor.ndim == 1 else jnp.matmul(factor, vector, precision="highest")
        )


Gaussian = GaussianBase | GaussianReference
"""The bases that can be drawn from."""
