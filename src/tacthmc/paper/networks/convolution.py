r"""3×3 convolutions with padding 1 as matrix products, in the order for 2×2 pooling.

Activations are [channels, height, width, n]. The result is [4, channels, m] with m = height/2 ·
width/2 · n. Its leading axis has the four outputs of each pooling window.

XLA turns a convolution under ``vmap`` over kernels into a grouped convolution, which is slow on
every platform. Matrix products stay matrix products. The methods are:

- ``phases``: the 2×2 outputs of a window depend on a 4×4 patch of the input. One product of a
  [4·out, 16·in] matrix (the kernel at its four places, zeros elsewhere) with [16·in, m] patches
  gives all four. Compared with the usual patches it has 16/9 of the multiplications and 4/9 of the
  copies, the factors are four times less skinny, and pooling is the maximum of four arrays.
- ``patches``: the usual patches [9·in, height·width·n].
- ``native``: the convolution of XLA.
- ``winograd``: a quarter of the multiplications (:mod:`tacthmc.paper.networks.winograd`).
- ``fused``: ``phases`` with bias and pooling, in one kernel for NVIDIA GPUs
  (:mod:`tacthmc.paper.networks.fused`).
"""

from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tacthmc.paper.networks.products import precision, product
from tacthmc.paper.networks.winograd import winograd

Method: TypeAlias = Literal["phases", "patches", "native", "winograd", "fused"]


def windows(x: Float[Array, "c h w n"]) -> Float[Array, "k m"]:
    """The 4×4 patch around every 2×2 window, [(row, column, channel), (window, n)].

    >>> import jax.numpy as jnp
    >>> x = jnp.arange(1.0, 5.0).reshape(1, 2, 2, 1)
    >>> windows(x).reshape(4, 4).tolist()
    [[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, 0.0], [0.0, 3.0, 4.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    return _windows(x)


@jax.custom_vjp
def _windows(x: Array) -> Any:
    c, h, w, _ = x.shape
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    slices = [x[:, i : i + h - 1 : 2, j : j + w - 1 : 2] for i in range(4) for j in range(4)]
    return jnp.concatenate(slices, axis=0).reshape(16 * c, -1)


def _windows_forward(x: Array) -> tuple[Array, Array]:
    # Only the shape of x is needed, and an empty view of x carries it through vmap.
    return _windows(x), x[:, :, :, :0]


# The rows of 4×4 patches that contain the even and odd rows of the input, with window offsets.
_EVEN, _ODD = ((1, 0), (3, 1)), ((2, 0), (0, -1))


def _windows_backward(like: Array, seed: Array) -> tuple[Array]:
    """The sum for each input over the four patches that contain it, as shifted additions."""
    c, h, w, _ = like.shape
    seed = seed.reshape(4, 4, c, h // 2, w // 2, -1)
    zero = jnp.zeros((), seed.dtype)

    def shifted(i: int, down: int, j: int, right: int) -> Array:
        edges = ((0, 0, 0), (down, -down, 0), (right, -right, 0), (0, 0, 0))
        return jax.lax.pad(seed[i, j], zero, edges)

    def phase(rows: tuple[tuple[int, int], ...], columns: tuple[tuple[int, int], ...]) -> Array:
        first, *rest = [shifted(*row, *column) for row in rows for column in columns]
        return sum(rest, first)

    quarters = [
        jnp.stack([phase(rows, columns) for columns in (_EVEN, _ODD)], axis=3)
        for rows in (_EVEN, _ODD)
    ]
    return (jnp.stack(quarters, axis=2).reshape(c, h, w, -1),)


_windows.defvjp(_windows_forward, _windows_backward)


def four_places(kernel: Float[Array, "3 3 c o"]) -> Float[Array, "o4 k"]:
    """The kernel at its four places within a 4×4 patch, [(place, out), (row, column, in)].

    >>> import jax.numpy as jnp
    >>> four_places(jnp.ones((3, 3, 1, 1)))[1].reshape(4, 4).tolist()
    [[0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    """
    places = [
        jnp.pad(kernel, ((i, 1 - i), (j, 1 - j), (0, 0), (0, 0))) for i in (0, 1) for j in (0, 1)
    ]
    return jnp.transpose(jnp.stack(places), (0, 4, 1, 2, 3)).reshape(4 * kernel.shape[3], -1)


def _apart(z: Float[Array, "o h w n"]) -> Float[Array, "4 o m"]:
    z = jnp.stack([z[:, i::2, j::2] for i in (0, 1) for j in (0, 1)])
    return z.reshape(4, z.shape[1], -1)


def convolve(
    kernel: Float[Array, "3 3 c o"], x: Float[Array, "c h w n"], method: str, compute: str
) -> Float[Array, "4 o m"]:
    """The values of the convolution, ordered by pooling window.

    >>> import jax.numpy as jnp
    >>> x = jnp.arange(1.0, 5.0).reshape(1, 2, 2, 1)
    >>> convolve(jnp.ones((3, 3, 1, 1)), x, "phases", "float32").ravel().tolist()
    [10.0, 10.0, 10.0, 10.0]
    """
    c, h, w, n = x.shape
    out = kernel.shape[3]
    if method == "phases":
        z = product(four_places(kernel), windows(x), (1, 0), compute)
        return z.reshape(4, out, -1)
    if method == "patches":
        padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        slices = [padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)]
        patches = jnp.concatenate(slices, axis=0).reshape(9 * c, -1)
        z = product(kernel.reshape(9 * c, out), patches, (0, 0), compute)
        return _apart(z.reshape(out, h, w, n))
    if method == "winograd":
        return winograd(kernel, x, compute)
    if method != "native":
        raise ValueError(
            f'method must be "phases", "patches", "winograd" or "native"; got {method!r}'
        )
    layout = ("CHWN", "HWIO", "CHWN")
    z = jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=layout, precision=precision(compute)
    )
    return _apart(z)
