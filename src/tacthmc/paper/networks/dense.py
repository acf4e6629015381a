"""Dense layers with the batch in the last axis.

Activations are [features, n]. The products, forward and backward, then need no transposed copies,
and elementwise operations run along whole vectors of the batch.
"""

from jaxtyping import Array, Float

from tacthmc.paper.networks.products import product


def dense(
    weight: Float[Array, "out in"],
    bias: Float[Array, " out"],
    x: Float[Array, "..."],
    compute: str,
    features: int = 0,
) -> Float[Array, "out n"]:
    """W·x + b for x of shape [in, n], or [n, in] with ``features=1``.

    >>> import jax.numpy as jnp
    >>> weight, bias = jnp.array([[1.0, 2.0]]), jnp.array([0.5])
    >>> dense(weight, bias, jnp.array([[3.0], [4.0]]), "float32").tolist()
    [[11.5]]
    """
    return product(weight, x, (1, features), compute) + bias[:, None]
