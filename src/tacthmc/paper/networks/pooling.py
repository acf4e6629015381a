"""Bias, ReLU and 2×2 max-pooling in one operation, for values ordered by pooling window."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def _pool(z: Float[Array, "4 c m"], bias: Float[Array, " c"]) -> tuple[Array, Array]:
    most = jnp.maximum(jnp.maximum(z[0], z[1]), jnp.maximum(z[2], z[3]))
    return jnp.maximum(most + bias[:, None], 0), most


def pool(z: Float[Array, "4 c m"], bias: Float[Array, " c"]) -> Float[Array, "c m"]:
    """max_k relu(z_k + b) = relu(max_k z_k + b) over the four places of each window.

    The gradient goes to the first place with the maximum, and is zero where the ReLU is. (XLA's
    select-and-scatter, and its reductions over a leading axis on a CPU, take several times as long
    as these comparisons.)

    >>> import jax, jax.numpy as jnp
    >>> z = jnp.array([1.0, 3.0, 3.0, 2.0]).reshape(4, 1, 1)
    >>> pool(z, jnp.array([0.5])).tolist()
    [[3.5]]
    >>> jax.grad(lambda z: pool(z, jnp.array([0.5])).sum())(z).ravel().tolist()
    [0.0, 1.0, 0.0, 0.0]
    """
    return _pooled(z, bias)


@jax.custom_vjp
def _pooled(z: Array, bias: Array) -> Any:
    return _pool(z, bias)[0]


def _forward(z: Array, bias: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    out, most = _pool(z, bias)
    return out, (z, most, out)


def _backward(kept: tuple[Array, Array, Array], seed: Array) -> tuple[Array, Array]:
    z, most, out = kept
    seed = jnp.where(out > 0, seed, jnp.zeros_like(seed))
    # One place after the other, with numbers instead of booleans. Otherwise XLA does not vectorize
    # the loops on a CPU.
    parts, before, zero = [], None, jnp.zeros_like(seed)
    for place in z:
        here = jnp.where(place >= most, seed, zero)
        parts.append(here if before is None else jnp.where(before >= most, zero, here))
        before = place if before is None else jnp.maximum(before, place)
    to_z = jnp.stack(parts)
    return to_z, jnp.sum(seed, axis=1)


_pooled.defvjp(_forward, _backward)
