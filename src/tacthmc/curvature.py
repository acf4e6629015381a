"""A first step size from the energy's curvature."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc._typing import Position, PRNGKey
from tacthmc.positions import normals
from tacthmc.potential import Potential

SHARE = 0.1
"""η times the largest curvature: 0.1 is well inside the splitting's stability limit of 4."""


def largest_curvature(
    key: PRNGKey, potential: Potential, position: Position, iterations: int = 30
) -> float:
    """The largest absolute eigenvalue of the energy's Hessian, by power iteration.

    A fresh mini-batch each time: what comes out is that of the batches' mean, roughly.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2 * jnp.array([1.0, 9.0])))
    >>> round(largest_curvature(jax.random.key(0), target, jnp.zeros(2)), 3)
    9.0
    """
    start, rest = jax.random.split(key)
    vector, _ = normals(start, position)
    model = potential.init_model()

    def step(vector: Position, key: PRNGKey) -> tuple[Position, Any]:
        batch = potential.batch(key, position)

        def gradient(at: Position) -> Position:
            return potential.evaluate(at, batch, model)[1]

        unit = _normalised(vector)
        curved = jax.jvp(gradient, (position,), (unit,))[1]
        return curved, _norm(curved)

    _, sizes = jax.jit(lambda v, keys: jax.lax.scan(step, v, keys))(
        vector, jax.random.split(rest, iterations)
    )
    # The last half, since batches differ.
    return float(np.median(np.asarray(sizes)[iterations // 2 :]))


def first_step_size(key: PRNGKey, potential: Potential, position: Position) -> float:
    """η = 0.1 over the largest curvature at a position; what a run begins with, not a tuned one.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 50.0 * jnp.sum(x**2))
    >>> round(first_step_size(jax.random.key(0), target, jnp.zeros(2)), 6)
    0.001
    """
    curvature = largest_curvature(key, potential, position)
    if not np.isfinite(curvature) or curvature <= 0:
        raise ValueError(
            f"no step size can be guessed: the energy's curvature at the starting point is"
            f" {curvature}. Give step_size"
        )
    return SHARE / curvature


def _norm(tree: Position) -> Any:
    squares = (jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(tree))
    return jnp.sqrt(sum(squares, jnp.zeros(())))


def _normalised(tree: Position) -> Position:
    scale = 1 / jnp.maximum(_norm(tree), 1e-30)
    return jax.tree.map(lambda leaf: leaf * scale.astype(leaf.dtype), tree)
