"""The largest curvature of the energy."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc._typing import Position, PRNGKey
from tacthmc.compiler._random import normals
from tacthmc.potentials._base import Potential, forces

NO_SECOND_DERIVATIVE = (TypeError, NotImplementedError, AssertionError)
"""The errors of JAX if a gradient has no forward derivative, as for models with a custom gradient
(``jax.custom_vjp``, a Pallas kernel)."""


def largest_curvature(
    key: PRNGKey, potential: Potential, position: Position, iterations: int = 30
) -> float:
    """The largest absolute eigenvalue of the Hessian of the energy, by power iteration.

    Each iteration uses a new mini-batch, so the result is roughly that of the mean over batches.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2 * jnp.array([1.0, 9.0])))
    >>> round(largest_curvature(jax.random.key(0), target, jnp.zeros(2)), 3)
    9.0
    """
    one = jax.tree.map(lambda x: jnp.asarray(x)[None], position)
    return float(largest_curvatures(key, potential, one, iterations)[0])


def largest_curvatures(
    key: PRNGKey, potential: Potential, positions: Position, iterations: int = 30
) -> np.ndarray:
    """:func:`largest_curvature` at each of a stack of positions."""
    try:
        sizes = _sizes(key, potential, positions, iterations, _derivative)
    except NO_SECOND_DERIVATIVE:
        sizes = _sizes(key, potential, positions, iterations, _difference)
    # The median of the last half, because batches differ.
    return np.median(np.asarray(sizes, float)[:, iterations // 2 :], axis=1)


@eqx.filter_jit
def _sizes(
    key: PRNGKey, potential: Potential, positions: Position, iterations: int, along: Any
) -> Any:
    model = potential.init_model()

    def at(position: Position) -> Any:
        start, rest = jax.random.split(key)
        vector, _ = normals(start, position)

        def step(vector: Position, key: PRNGKey) -> tuple[Position, Any]:
            batch = potential.batch(key, position)

            def gradient(at: Position) -> Position:
                return forces(potential, at, batch, model).gradient

            curved = along(gradient, position, _normalized(vector))
            return curved, _norm(curved)

        return jax.lax.scan(step, vector, jax.random.split(rest, iterations))[1]

    return jax.lax.map(at, positions)


DIFFERENCE_STEP = 1e-3
"""The step of finite differences, relative to the length of the position."""


def _derivative(gradient: Any, position: Position, along: Position) -> Position:
    return jax.jvp(gradient, (position,), (along,))[1]


def _difference(gradient: Any, position: Position, along: Position) -> Position:
    length = _norm(position)
    step = DIFFERENCE_STEP * jnp.where(length > 0, length, 1)
    ahead, behind = (
        gradient(
            jax.tree.map(lambda x, v, s=s: x + (s * step).astype(x.dtype) * v, position, along)
        )
        for s in (1, -1)
    )
    return jax.tree.map(lambda a, b: (a - b) / (2 * step).astype(a.dtype), ahead, behind)


def _norm(tree: Position) -> Any:
    squares = (jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(tree))
    return jnp.sqrt(sum(squares, jnp.zeros((), jnp.float32)))


def _normalized(tree: Position) -> Position:
    scale = 1 / jnp.maximum(_norm(tree), 1e-30)
    return jax.tree.map(lambda leaf: leaf * scale.astype(leaf.dtype), tree)
