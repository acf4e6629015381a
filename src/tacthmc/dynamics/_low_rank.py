r"""A map that scales a few directions and leaves all others unchanged.

.. math:: A = 1 + Q^\top(\mathrm{diag}(s) - 1)\,Q, \qquad QQ^\top = 1.

A is symmetric, its inverse has 1/s in place of s, and a product with it reads the k·D numbers of Q
twice. It is an affordable scale of a :class:`tacthmc.dynamics.LinearMap` in high dimension. The
mini-batch noise of a network is far larger in some directions than in most, and one step size and
one friction fit more directions after the noisiest ones are shortened.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc import _checks as checks

MAX_ORTHONORMALITY_ERROR = 1e-3
"""The largest error in the products of directions. The inverse of A has an error of this size."""


class LowRank(eqx.Module):
    """A = 1 + Qᵀ(diag(s) − 1)Q, with the rows of Q as ``directions`` and s as ``factors``.

    >>> import jax.numpy as jnp
    >>> shorter = LowRank([[0.0, 1.0]], [0.5])
    >>> shorter(jnp.array([3.0, 4.0])).tolist(), shorter.inverse(jnp.array([3.0, 2.0])).tolist()
    ([3.0, 2.0], [3.0, 4.0])
    """

    directions: Float[Array, "k d"]
    factors: Float[Array, " k"]

    def __init__(self, directions: Any, factors: Any):
        """Scale orthonormal rows, each by a positive factor."""
        rows, factors = jnp.asarray(directions), jnp.asarray(factors)
        if not jnp.issubdtype(rows.dtype, jnp.floating):
            rows = rows.astype(float)
        if rows.ndim != 2 or factors.shape != rows.shape[:1]:
            raise ValueError(
                "directions must be k rows and factors k numbers; got shapes"
                f" {rows.shape} and {factors.shape}"
            )
        if (known := checks.concrete(rows)) is not None:
            wide = np.asarray(known, np.float64)
            off = np.abs(wide @ wide.T - np.eye(len(wide)))
            if not np.all(off < MAX_ORTHONORMALITY_ERROR):
                raise ValueError(
                    "directions must be orthonormal; their products are off by up to"
                    f" {np.max(off, initial=0.0):.2g}"
                )
        if (known := checks.concrete(factors)) is not None:
            wide = np.asarray(known, np.float64)
            if not np.all(np.isfinite(wide) & (wide > 0)):
                raise ValueError(f"factors must be positive and finite; got {wide}")
        self.directions, self.factors = rows, factors.astype(rows.dtype)

    @property
    def inverse(self) -> "LowRank":
        """A⁻¹."""
        return eqx.tree_at(lambda a: a.factors, self, 1 / self.factors)

    def __call__(self, vector: Float[Array, " d"]) -> Float[Array, " d"]:
        """A times ``vector``."""
        rows = self.directions.astype(vector.dtype)
        along = jnp.matmul(rows, vector, precision="highest")
        more = (self.factors.astype(vector.dtype) - 1) * along
        return vector + jnp.matmul(more, rows, precision="highest")


def has_low_rank(tree: Any) -> bool:
    """Whether there is a :class:`LowRank` anywhere in a sampler or a potential.

    >>> has_low_rank({"a": LowRank([[1.0, 0.0]], [2.0])}), has_low_rank([1.0, None])
    (True, False)
    """

    def found(node: Any) -> bool:
        return isinstance(node, LowRank)

    return any(found(node) for node in jax.tree.leaves(tree, is_leaf=found))
