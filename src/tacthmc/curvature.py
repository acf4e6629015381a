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

    def sizes_by(along: Any) -> Any:
        def step(vector: Position, key: PRNGKey) -> tuple[Position, Any]:
            batch = potential.batch(key, position)

            def gradient(at: Position) -> Position:
                return potential.evaluate(at, batch, model)[1]

            curved = along(gradient, position, _normalised(vector))
            return curved, _norm(curved)

        keys = jax.random.split(rest, iterations)
        return jax.jit(lambda v, keys: jax.lax.scan(step, v, keys)[1])(vector, keys)

    try:
        sizes = sizes_by(_derivative)
    except (TypeError, NotImplementedError, AssertionError):
        # Models with a gradient of their own (jax.custom_vjp, a kernel in Pallas) have no forward
        # derivative; each way to say so is JAX's.
        sizes = sizes_by(_difference)
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


STEP = 1e-2
"""How far to either side differences are taken, along a vector of length 1."""


def _derivative(gradient: Any, position: Position, along: Position) -> Position:
    return jax.jvp(gradient, (position,), (along,))[1]


def _difference(gradient: Any, position: Position, along: Position) -> Position:
    ahead, behind = (
        gradient(jax.tree.map(lambda x, v, s=sign: x + s * STEP * v, position, along))
        for sign in (1, -1)
    )
    return jax.tree.map(lambda a, b: (a - b) / (2 * STEP), ahead, behind)


def _norm(tree: Position) -> Any:
    squares = (jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(tree))
    return jnp.sqrt(sum(squares, jnp.zeros(())))


def _normalised(tree: Position) -> Position:
    scale = 1 / jnp.maximum(_norm(tree), 1e-30)
    return jax.tree.map(lambda leaf: leaf * scale.astype(leaf.dtype), tree)
