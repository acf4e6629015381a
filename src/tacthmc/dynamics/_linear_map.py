r"""Linear coordinates in which the posterior is rounder: θ = b + Aφ, and the chain moves φ.

If A·Aᵀ is close to the covariance of the posterior, the curvatures in φ are about one in every
direction. The covariance of mini-batch noise, about N/n times the precision of θ, is then just as
round, and one step size and one friction fit all directions. The density of φ is that of θ up to a
constant, so a sampler leaves the same distribution invariant. The map is equivalent to a mass
matrix (AAᵀ)⁻¹ with a friction of that shape.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float

from tacthmc import _checks as checks
from tacthmc._positions import flatten, scalar_dtype, unflatten
from tacthmc._typing import Batch, Position
from tacthmc.dynamics._low_rank import LowRank
from tacthmc.potentials._base import Energy, Potential, WrappedPotential
from tacthmc.potentials._batch_noise import CovarianceTerm


class LinearMap(eqx.Module):
    """θ = b + Aφ, where θ and φ have the shape of the position.

    A is a vector (diagonal), a matrix, or in high dimension a :class:`tacthmc.dynamics.LowRank`.

    >>> import jax.numpy as jnp
    >>> linear = LinearMap(jnp.array([2.0, 0.5]), shift=jnp.array([1.0, 1.0]))
    >>> linear.forward(jnp.array([1.0, 2.0])).tolist()
    [3.0, 2.0]
    >>> linear.inverse(jnp.array([3.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    scale: Float[Array, " d"] | Float[Array, "d d"] | LowRank
    inverse_scale: Float[Array, " d"] | Float[Array, "d d"] | None
    """A⁻¹; None if the scale has its own inverse."""
    shift: Float[Array, " d"]

    def __init__(self, scale: Any, shift: Any = None):
        """Use A = ``scale`` and b = ``shift`` (zero by default), in the order of the leaves."""
        if isinstance(scale, LowRank):
            self.scale, self.inverse_scale = scale, None
            self.shift = _shift(shift, scale.directions.shape[1], scale.directions.dtype)
            return
        scale = jnp.asarray(scale)
        if not jnp.issubdtype(scale.dtype, jnp.floating):
            scale = scale.astype(float)
        if scale.ndim not in (1, 2) or scale.shape[0] != scale.shape[-1]:
            raise ValueError(f"scale must be a vector or a square matrix; got shape {scale.shape}")
        self.scale, self.inverse_scale = scale, _inverse(scale)
        self.shift = _shift(shift, scale.shape[0], scale.dtype)

    def forward(self, position: Position) -> Position:
        """θ from φ."""
        vector = flatten(position, scalar_dtype(position))
        self._check(vector)
        return unflatten(_applied(self.scale, vector) + self.shift.astype(vector.dtype), position)

    def inverse(self, position: Position) -> Position:
        """φ from θ."""
        vector = flatten(position, scalar_dtype(position))
        self._check(vector)
        back = self.scale.inverse if isinstance(self.scale, LowRank) else self.inverse_scale
        assert back is not None
        return unflatten(_applied(back, vector - self.shift.astype(vector.dtype)), position)

    def _check(self, vector: Array) -> None:
        if vector.shape != self.shift.shape:
            raise ValueError(
                f"a LinearMap is for positions of {len(self.shift)} numbers; got one of"
                f" {len(vector)}"
            )


class MappedPotential(WrappedPotential):
    """U(b + Aφ), as a potential of φ."""

    inner: Potential
    linear: LinearMap

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """Ũ(b + Aφ); its gradient is Aᵀ∇Ũ."""
        return self.inner.estimate(self.linear.forward(position), batch, model, correction)

    def full(self, position: Any) -> Energy:
        return self.inner.full(self.linear.forward(position))


def _inverse(scale: Array) -> Array:
    """A⁻¹. A concrete A is checked, and inverted in double precision."""
    if (known := checks.concrete(scale)) is None:
        return 1 / scale if scale.ndim == 1 else jnp.linalg.inv(scale)
    wide = np.asarray(known, np.float64)
    if not np.all(np.isfinite(wide)):
        raise ValueError("scale must be finite; got NaN or infinity in it")
    diagonal = wide if wide.ndim == 1 else np.linalg.svd(wide, compute_uv=False)
    least = np.finfo(scale.dtype).eps * np.max(np.abs(diagonal))
    if not np.min(np.abs(diagonal)) > least:
        raise ValueError("scale must be invertible; got one that is not")
    inverse = 1 / wide if wide.ndim == 1 else np.linalg.inv(wide)
    return jnp.asarray(inverse, scale.dtype)


def _shift(shift: Any, size: int, dtype: DTypeLike) -> Array:
    shift = jnp.zeros(size, dtype) if shift is None else jnp.asarray(shift)
    if shift.shape != (size,):
        raise ValueError(f"shift must have shape ({size},); got {shift.shape}")
    return shift


def _applied(scale: Array | LowRank, vector: Array) -> Array:
    if isinstance(scale, LowRank):
        return scale(vector)
    scale = scale.astype(vector.dtype)
    if scale.ndim == 1:
        return scale * vector
    # Positions need full precision, even if the products of the model use less.
    return jnp.matmul(scale, vector, precision="highest")
