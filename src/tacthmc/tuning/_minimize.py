"""Minimization of an energy from many starts at once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from tacthmc._typing import Scalar

MAX_ITERATIONS = 300
"""The largest number of iterations from one start."""
MIN_DECREASE = 1e-3
"""The smallest decrease of the energy that counts as progress, in units of kT."""
PATIENCE = 3
"""The number of iterations without progress after which a minimization ends."""
MEMORY = 10
"""The number of earlier gradients that estimate the curvature."""


class Minima(NamedTuple):
    """The end of each minimization."""

    positions: Float[Array, "n d"]
    energies: Float[Array, " n"]
    evaluations: Int[Array, " n"]
    """The number of gradients that each start took."""


class _Carry(NamedTuple):
    position: Array
    state: Any
    energy: Scalar
    stalled: Array
    evaluations: Array


def minimize(
    energy: Callable[[Float[Array, " d"]], Scalar],
    starts: Float[Array, "n d"],
    iterations: int | Int[Array, ""] = MAX_ITERATIONS,
) -> Minima:
    """Minimize from each start by L-BFGS, until the energy stops falling.

    The optimizer mixes integers of two widths in double precision, so it needs JAX's standard
    promotion of dtypes.

    >>> import jax.numpy as jnp
    >>> wells = lambda x: jnp.sum((x**2 - 1.0) ** 2)
    >>> found = minimize(wells, jnp.array([[-2.0], [0.5]]))
    >>> found.positions.round(2).ravel().tolist()
    [-1.0, 1.0]
    """
    with jax.numpy_dtype_promotion("standard"):
        return _minimize(energy, starts, iterations)


def _minimize(
    energy: Callable[[Float[Array, " d"]], Scalar], starts: Float[Array, "n d"], iterations: Any
) -> Minima:
    optimizer = optax.lbfgs(memory_size=MEMORY)
    both = optax.value_and_grad_from_state(energy)

    def go_on(carry: _Carry) -> Array:
        return (carry.stalled < PATIENCE) & jnp.isfinite(carry.energy)

    def step(carry: _Carry) -> _Carry:
        value, gradient = both(carry.position, state=carry.state)
        updates, state = optimizer.update(
            gradient, carry.state, carry.position, value=value, grad=gradient, value_fn=energy
        )
        position = carry.position + jnp.asarray(updates)
        after = jnp.asarray(optax.tree_utils.tree_get(state, "value")).astype(carry.energy.dtype)
        after = jnp.where(jnp.isfinite(after), after, jnp.inf)
        progress = carry.energy - after > MIN_DECREASE
        searched = optax.tree_utils.tree_get(state, "info").num_linesearch_steps
        return _Carry(
            position,
            state,
            after,
            jnp.where(progress, 0, carry.stalled + 1),
            carry.evaluations + 1 + searched,
        )

    def advance(carry: _Carry) -> _Carry:
        return jax.vmap(lambda c: jax.lax.cond(go_on(c), step, lambda c: c, c))(carry)

    zeros = jnp.zeros(starts.shape[0], int)
    carry = _Carry(
        starts, jax.vmap(optimizer.init)(starts), jax.vmap(energy)(starts), zeros, zeros + 1
    )

    def any_left(pair: tuple[Array, _Carry]) -> Array:
        count, carry = pair
        return (count < iterations) & jnp.any(jax.vmap(go_on)(carry))

    _, carry = jax.lax.while_loop(
        any_left, lambda pair: (pair[0] + 1, advance(pair[1])), (jnp.zeros((), int), carry)
    )
    return Minima(carry.position, carry.energy, carry.evaluations)
