"""A full linear map to coordinates in which the posterior is rounder, if that pays."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float

from tacthmc._positions import flatten, scalar_dtype, unflatten
from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics._linear_map import LinearMap
from tacthmc.potentials._base import Potential, forces
from tacthmc.tuning import _friction as friction
from tacthmc.tuning._curvature import NO_SECOND_DERIVATIVE

MAX_DENSE_DIMENSION = friction.MAX_DENSE_DIMENSION
"""The largest dimension for a matrix, which has D² numbers and takes two products per step."""
HESSIAN_BATCHES = 16
"""The number of batches in the average of a Hessian."""
MIN_RELATIVE_CURVATURE = 1e-3
"""The smallest curvature relative to the largest. The curvature at a point says little about the
width of a flatter direction."""
MAX_RELATIVE_TIME = 0.7
"""The largest relaxation time with a map, relative to that without it."""


class DenseMap(NamedTuple):
    """A linear map, if one pays, and the relaxation times without and with it, in steps."""

    linear: LinearMap | None
    without: float
    within: float

    @property
    def why(self) -> str:
        """The reason for the map."""
        if not np.isfinite(self.without):
            return "no curvatures are known"
        return f"{self.without:.3g} steps to relax without a map, {self.within:.3g} with the best"


@eqx.filter_jit
def _hessians(key: PRNGKey, potential: Potential, positions: Position) -> Float[Array, "n d d"]:
    model = potential.init_model()

    def at(position: Position) -> Array:
        def one(key: PRNGKey) -> Array:
            batch = potential.batch(key, position)

            def gradient(vector: Array) -> Array:
                slope = forces(potential, unflatten(vector, position), batch, model).gradient
                return flatten(slope, vector.dtype)

            return jax.jacfwd(gradient)(flatten(position, scalar_dtype(position)))

        return jnp.mean(jax.lax.map(one, jax.random.split(key, HESSIAN_BATCHES)), axis=0)

    return jax.lax.map(at, positions)


def curvatures(
    key: PRNGKey, potential: Potential, positions: Position
) -> Float[np.ndarray, "d d"] | None:
    """The mean over positions of |H|, the Hessian with the absolute values of its eigenvalues.

    The result is None for models with a custom gradient that cannot be differentiated.
    """
    try:
        hessians = np.asarray(_hessians(key, potential, positions), float)
    except NO_SECOND_DERIVATIVE:
        return None
    if not np.all(np.isfinite(hessians)):
        return None
    values, vectors = np.linalg.eigh((hessians + hessians.transpose(0, 2, 1)) / 2)
    return np.einsum("nij,nj,nkj->ik", vectors, np.abs(values), vectors) / len(values)


def dense_map(
    hessian: Float[np.ndarray, "d d"] | None,
    gradients: Float[np.ndarray, "n d"],
    dtype: DTypeLike = jnp.float32,
) -> DenseMap:
    """|H|^(−1/2) or V^(−1/2) as a linear map, if chains relax faster in it.

    V is the covariance of the noise. The relaxation times follow from the step sizes that curvature
    and noise allow in each.

    >>> rng = np.random.default_rng(0)
    >>> hessian = np.diag([1.0, 100.0])
    >>> noise = rng.normal(size=(400, 2)) * np.sqrt([10.0, 1000.0])
    >>> found = dense_map(hessian, noise)
    >>> found.linear is not None, found.within < 0.1 * found.without
    (True, True)
    """
    if hessian is None:
        return DenseMap(None, np.nan, np.nan)
    if not np.all(np.isfinite(hessian)) or not np.trace(hessian) > 0:
        return DenseMap(None, np.nan, np.nan)
    without = relaxation(np.linalg.eigvalsh(hessian), friction.force_noise(gradients))
    times = {}
    for number, matrix in enumerate((hessian, gradients.T @ gradients / len(gradients))):
        if np.trace(matrix) > 0:
            scale = _inverse_root(matrix)
            # Scaled so that the largest curvature is one.
            scale /= np.sqrt(np.linalg.eigvalsh(scale.T @ hessian @ scale)[-1])
            left = np.linalg.eigvalsh(scale.T @ hessian @ scale)
            within = relaxation(left, friction.force_noise(gradients @ scale))
            times[number] = within, scale
    within, scale = min(times.values(), key=lambda pair: pair[0])
    invertible = np.linalg.cond(scale) < 0.1 / np.finfo(dtype).eps
    if not within < MAX_RELATIVE_TIME * without or not invertible:
        return DenseMap(None, without, within)
    return DenseMap(LinearMap(jnp.asarray(scale, dtype)), without, within)


def _inverse_root(matrix: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """A with A·Aᵀ = M⁻¹, computed in units that make the diagonal of M one."""
    diagonal = np.diag(matrix)
    units = 1 / np.sqrt(np.maximum(diagonal, 1e-12 * diagonal.max()))
    values, vectors = np.linalg.eigh(units[:, None] * matrix * units)
    values = np.maximum(values, MIN_RELATIVE_CURVATURE * values[-1])
    return units[:, None] * (vectors / np.sqrt(values)) @ vectors.T


def relaxation(curvatures: Float[np.ndarray, " k"], noise: friction.Noise) -> float:
    """The relaxation time of the flattest direction, in steps of the largest allowed size.

    >>> round(relaxation(np.ones(2), friction.Noise(0.0, 0.0)))
    20
    """
    steepest = float(np.max(curvatures))
    flattest = max(float(np.min(curvatures)), MIN_RELATIVE_CURVATURE * steepest)
    eta, c, *_ = friction.steps(steepest, noise)
    z = c + eta * noise.mean / 2
    return float(max(z / (eta * flattest), 2 / z))
