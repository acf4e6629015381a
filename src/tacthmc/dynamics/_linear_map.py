r"""Linear coordinates in which the posterior is rounder: θ = b + Aφ, and φ is what moves.

With A·Aᵀ about the posterior's covariance, φ has curvatures of about one in every direction, and
where the force's noise comes from mini-batches its covariance, about N/n times the precision of
θ, is as round as that: one step size and one friction then fit all directions. In φ the density
is that of θ up to a constant, so that whatever a sampler leaves invariant it leaves invariant in
θ. It is the same as a mass matrix (AAᵀ)⁻¹ with a friction of its shape.
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
    """θ = b + Aφ, both of the position's shape.

    A is a vector (diagonal), a matrix, or in high dimension a :class:`tacthmc.dynamics.LowRank`.

    >>> import jax.numpy as jnp
    >>> linear = LinearMap(jnp.array([2.0, 0.5]), shift=jnp.array([1.0, 1.0]))
    >>> linear.forward(jnp.array([1.0, 2.0])).tolist(), linear.inverse(jnp.array([3.0, 2.0])).tolist()
    ([3.0, 2.0], [1.0, 2.0])
    """

    scale: Float[Array, " d"] | Float[Array, "d d"] | LowRank
    inverse_scale: Float[Array, " d"] | Float[Array, "d d"] | None
    """None where the scale has one of its own."""
    shift: Float[Array, " d"]

    def __init__(self, scale: Any, shift: Any = None):
        """A as ``scale``, b as ``shift`` (zero by default), in the order of the leaves."""
        if isinstance(scale, LowRank):
            self.scale, self.inverse_scale = scale, None
            self.shift = _shift(shift, scale.directions.shape[1], scale.directions.dtype)
            return
        scale = jnp.asarray(scale)
        if not jnp.issubdtype(scale.dtype, jnp.floating):
            scale = scale.astype(float)
        if scale.ndim not in (1, 2) or scale.shape[0] != scale.shape[-1]:
            raise ValueError(f"scale must be a vector or a square matrix; got shape {scale.shape}")
        if (known := checks.concrete(scale)) is not None:
            wide = np.asarray(known, np.float64)
            if not np.all(np.isfinite(wide)):
                raise ValueError("scale must be finite; got NaN or infinity in it")
            diagonal = wide if wide.ndim == 1 else np.linalg.svd(wide, compute_uv=False)
            least = np.finfo(scale.dtype).eps * np.max(np.abs(diagonal))
            if not np.min(np.abs(diagonal)) > least:
                raise ValueError("scale must be invertible; got one that is not")
            inverse = 1 / wide if wide.ndim == 1 else np.linalg.inv(wide)
            self.inverse_scale = jnp.asarray(inverse, scale.dtype)
        else:
            self.inverse_scale = 1 / scale if scale.ndim == 1 else jnp.linalg.inv(scale)
        self.scale = scale
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
                f"a LinearMap is for positions of {len(self.shift)} numbers; got one of {len(vector)}"
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
    # Of full precision, also where products of the model's are not: this is arithmetic of θ.
    return jnp.matmul(scale, vector, precision="highest")
