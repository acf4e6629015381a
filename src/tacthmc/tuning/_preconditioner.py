"""Linear coordinates in which the posterior is rounder, where it is worth one."""

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

DENSE = friction.LOOKED_AFTER
"""Dimensions up to which a matrix is thought of: two products with it a step, D² numbers."""
BATCHES = 16
"""Batches that a Hessian is averaged over."""
FLATTEST = 1e-3
"""Directions flatter than so much of the steepest are taken to be no flatter: a curvature at a
point says little of how far a flat direction goes."""
WORTH = 0.7
"""A linear map is used where chains relax in so much of the time."""


class Rounded(NamedTuple):
    """A linear map (None for θ's own) and the relaxation times in steps, without and with it."""

    linear: LinearMap | None
    without: float
    within: float

    @property
    def why(self) -> str:
        """What it is for."""
        if not np.isfinite(self.without):
            return "no curvatures to make one of"
        return f"{self.without:.3g} steps to relax without it, {self.within:.3g} with the best"


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

        return jnp.mean(jax.lax.map(one, jax.random.split(key, BATCHES)), axis=0)

    return jax.lax.map(at, positions)


def curvatures(
    key: PRNGKey, potential: Potential, positions: Position
) -> Float[np.ndarray, "d d"] | None:
    """The mean over positions of |H|, the Hessian with its eigenvalues' signs taken off.

    None for models that have a gradient of their own and no second one. It has D² numbers: for up
    to ``DENSE`` dimensions.
    """
    try:
        hessians = np.asarray(_hessians(key, potential, positions), float)
    except NO_SECOND_DERIVATIVE:
        return None
    if not np.all(np.isfinite(hessians)):
        return None
    values, vectors = np.linalg.eigh((hessians + hessians.transpose(0, 2, 1)) / 2)
    return np.einsum("nij,nj,nkj->ik", vectors, np.abs(values), vectors) / len(values)


def rounded(
    hessian: Float[np.ndarray, "d d"] | None,
    gradients: Float[np.ndarray, "n d"],
    dtype: DTypeLike = jnp.float32,
) -> Rounded:
    """|H|^(−1/2) or V^(−1/2) as a linear map, where chains relax faster in it; V is that of the noise.

    How fast is told by the step sizes that curvature and noise allow in each.

    >>> rng = np.random.default_rng(0)
    >>> hessian = np.diag([1.0, 100.0])
    >>> noise = rng.normal(size=(400, 2)) * np.sqrt([10.0, 1000.0])      # of mini-batches
    >>> found = rounded(hessian, noise)
    >>> found.linear is not None, found.within < 0.1 * found.without
    (True, True)
    """
    if hessian is None:
        return Rounded(None, np.nan, np.nan)
    if not np.all(np.isfinite(hessian)) or not np.trace(hessian) > 0:
        return Rounded(None, np.nan, np.nan)
    without = relaxation(np.linalg.eigvalsh(hessian), friction.force_noise(gradients))
    times = {}
    for number, matrix in enumerate((hessian, gradients.T @ gradients / len(gradients))):
        if np.trace(matrix) > 0:
            scale = _inverse_root(matrix)
            # In units where the steepest direction has a curvature of one.
            scale /= np.sqrt(np.linalg.eigvalsh(scale.T @ hessian @ scale)[-1])
            left = np.linalg.eigvalsh(scale.T @ hessian @ scale)
            within = relaxation(left, friction.force_noise(gradients @ scale))
            times[number] = within, scale
    within, scale = min(times.values(), key=lambda pair: pair[0])
    invertible = np.linalg.cond(scale) < 0.1 / np.finfo(dtype).eps
    if not within < WORTH * without or not invertible:
        return Rounded(None, without, within)
    return Rounded(LinearMap(jnp.asarray(scale, dtype)), without, within)


def _inverse_root(matrix: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """A with A·Aᵀ = M⁻¹, after each coordinate is measured in a unit of its own."""
    diagonal = np.diag(matrix)
    units = 1 / np.sqrt(np.maximum(diagonal, 1e-12 * diagonal.max()))
    values, vectors = np.linalg.eigh(units[:, None] * matrix * units)
    values = np.maximum(values, FLATTEST * values[-1])
    return units[:, None] * (vectors / np.sqrt(values)) @ vectors.T


def relaxation(curvatures: Float[np.ndarray, " k"], noise: friction.Noise) -> float:
    """Steps in which the flattest direction forgets, at the step size that noise and L allow.

    >>> round(relaxation(np.ones(2), friction.Noise(0.0, 0.0)))
    20
    """
    steepest = float(np.max(curvatures))
    flattest = max(float(np.min(curvatures)), FLATTEST * steepest)
    eta, c, *_ = friction.steps(steepest, noise)
    z = c + eta * noise.mean / 2
    return float(max(z / (eta * flattest), 2 / z))
