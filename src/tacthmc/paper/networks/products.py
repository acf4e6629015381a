"""All matrix products of the networks, and their precision.

Parameters, activations and sums always have the precision of the parameters (float32). ``compute``
sets the precision to which factors are rounded before they are multiplied, forward and backward:

========== =======================================================================
float32    no rounding (the default)
tf32       10 bits of mantissa on hardware with TF32 (NVIDIA tensor cores); float32
           elsewhere
bfloat16   8 bits of mantissa, with sums in float32
========== =======================================================================
"""

from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tacthmc.compiler import computed_once
from tacthmc.paper.networks.accelerator import on_cpu

Compute: TypeAlias = Literal["float32", "tf32", "bfloat16"]

Axes: TypeAlias = tuple[int, int]
"""The axis of each factor that is summed over."""


def check_compute(compute: str) -> None:
    """Require a known precision."""
    if compute not in get_args(Compute):
        raise ValueError(f"compute must be one of {get_args(Compute)}; got {compute!r}")


def precision(compute: str) -> jax.lax.Precision:
    """The precision that XLA may use for float32 factors."""
    # DEFAULT allows TF32 on NVIDIA GPUs, and means float32 on a CPU, where requesting TF32 by name
    # is an error.
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
    """Σ_k left·right over the axes ``over``. The rows of the result are those of ``left``.

    Derivatives are products with the same precision, in the layout of the factors. (JAX's own rule
    would round the gradients of bfloat16 factors to bfloat16.)

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
        # Otherwise XLA fuses the gradient of a weight into the sum over devices, and it is no
        # longer a library product.
        to_left = computed_once(to_left)
        if over == (1, 0) and seed.shape[1] < left.shape[0]:
            # XLA transposes one of the arrays element by element. This makes it the smallest one.
            return to_left, computed_once(_multiply(seed, left, (0, 0), compute)).T
    to_right = (
        _multiply(left, seed, (row, 0), compute)
        if over[1] == 0
        else _multiply(seed, left, (0, row), compute)
    )
    return to_left, to_right


_product.defvjp(_forward, _backward)
