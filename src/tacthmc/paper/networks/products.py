"""The one place where matrices are multiplied, and with which precision.

Parameters, activations and sums are always as precise as the parameters (float32); ``compute``
says what the factors are rounded to before they are multiplied, forward and backward alike:

========== =======================================================================
float32    nothing is rounded (the default)
tf32       10 bits of mantissa where the hardware has them (NVIDIA's tensor cores);
           elsewhere as float32
bfloat16   8 bits of mantissa, sums in float32
========== =======================================================================
"""

from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tacthmc.compiler._materialize import computed_once
from tacthmc.paper.networks.accelerator import on_cpu

Compute: TypeAlias = Literal["float32", "tf32", "bfloat16"]

Axes: TypeAlias = tuple[int, int]
"""The axis of each factor that is summed over."""


def check_compute(compute: str) -> None:
    """Refuse an unknown precision."""
    if compute not in get_args(Compute):
        raise ValueError(f"compute must be one of {get_args(Compute)}; got {compute!r}")


def precision(compute: str) -> jax.lax.Precision:
    """What XLA may do to float32 factors."""
    # DEFAULT lets XLA take TF32 on NVIDIA's GPUs, and means float32 on a CPU, which refuses
    # the algorithm when it is asked for by name.
    return jax.lax.Precision.DEFAULT if compute == "tf32" else jax.lax.Precision.HIGHEST


def _multiply(
    left: Float[Array, "a b"], right: Float[Array, "c d"], over: Axes, compute: str
) -> Float[Array, "m n"]:
    kept = left.dtype
    if compute == "bfloat16":
        left, right = left.astype(jnp.bfloat16), right.astype(jnp.bfloat16)
    return jax.lax.dot_general(
        left,
        right,
        (((over[0],), (over[1],)), ((), ())),
        precision=precision(compute),
        preferred_element_type=kept,
    )


def product(
    left: Float[Array, "a b"], right: Float[Array, "c d"], over: Axes, compute: str
) -> Float[Array, "m n"]:
    """Σ_k left·right with k the axes ``over``: the rows left come from ``left``.

    Derivatives are products of the same precision, and come out in the factors' own layout
    (JAX's own rule would round the gradients of bfloat16 factors to bfloat16).

    >>> import jax.numpy as jnp
    >>> left, right = jnp.array([[1.0, 2.0]]), jnp.array([[3.0, 4.0], [5.0, 6.0]])
    >>> product(left, right, (1, 0), "float32").tolist()
    [[13.0, 16.0]]
    >>> product(left, right, (1, 1), "bfloat16").tolist()
    [[11.0, 17.0]]
    """
    return _product(left, right, over, compute)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _product(left: Array, right: Array, over: Axes, compute: str) -> Any:
    return _multiply(left, right, over, compute)


def _forward(
    left: Array, right: Array, over: Axes, compute: str
) -> tuple[Array, tuple[Array, Array]]:
    return _multiply(left, right, over, compute), (left, right)


def _backward(
    over: Axes, compute: str, factors: tuple[Array, Array], seed: Array
) -> tuple[Array, Array]:
    left, right = factors
    row, column = 1 - over[0], 1 - over[1]
    to_left = (
        _multiply(seed, right, (1, column), compute)
        if over[0] == 1
        else _multiply(right, seed, (column, 1), compute)
    )
    if on_cpu():
        # Fused into what devices add up, a weight's gradient is no product of its own.
        to_left = computed_once(to_left)
        if over == (1, 0) and seed.shape[1] < left.shape[0]:
            # XLA turns one of the two over, element by element: the smaller one, the result.
            return to_left, computed_once(_multiply(seed, left, (0, 0), compute)).T
    to_right = (
        _multiply(left, seed, (row, 0), compute)
        if over[1] == 0
        else _multiply(seed, left, (0, row), compute)
    )
    return to_left, to_right


_product.defvjp(_forward, _backward)
