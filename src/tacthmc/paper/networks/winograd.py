r"""3×3 convolutions with a quarter of the multiplications, in the order for 2×2 pooling.

Winograd's F(2×2, 3×3) computes the 2×2 outputs of a window from the 4×4 patch d around it as

.. math:: y = A^\top\big[(G\,g\,G^\top) \odot (B^\top d\,B)\big]A

for one channel. That takes 16 multiplications, while ``phases`` of
:mod:`tacthmc.paper.networks.convolution` takes 64. With several channels each of the 16 elements is
a matrix product, [out, in] by [in, m]. A, B and G contain only 0, ±1 and ±½, so values differ from
other methods only in their last digits.

It is for CPUs, where one core then spends most of its time outside of products. On two cores that
share single products the gain is small, because XLA does not share these well. Many intermediate
results are materialized (:func:`tacthmc.compiler.computed_once`). Otherwise XLA fuses them into
their uses and computes them up to 16 times.

Reference: A. Lavin, S. Gray. *Fast algorithms for convolutional neural networks.* CVPR 2016.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc.compiler import computed_once
from tacthmc.paper.networks.products import precision

_G = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]])
MIN_CHANNELS = 8
"""The number of input channels from which it is faster than ``phases``."""


def winograd(
    kernel: Float[Array, "3 3 c o"], x: Float[Array, "c h w n"], compute: str = "float32"
) -> Float[Array, "4 o m"]:
    """The values of the convolution, ordered by pooling window as in ``convolve``.

    >>> import jax.numpy as jnp
    >>> x = jnp.arange(1.0, 5.0).reshape(1, 2, 2, 1)
    >>> winograd(jnp.ones((3, 3, 1, 1)), x).ravel().tolist()
    [10.0, 10.0, 10.0, 10.0]
    """
    return _winograd(kernel, x, compute)


def _kernels(kernel: Float[Array, "3 3 c o"]) -> Float[Array, "16 o c"]:
    """G·g·Gᵀ."""
    g = jnp.asarray(_G, kernel.dtype)
    found = jnp.einsum("ai,ijco,bj->aboc", g, kernel, g, precision="highest")
    return found.reshape(16, *found.shape[2:])


def _to_kernel(seed: Float[Array, "16 o c"]) -> Float[Array, "3 3 c o"]:
    """Gᵀ·s·G."""
    g = jnp.asarray(_G, seed.dtype)
    square = seed.reshape(4, 4, *seed.shape[1:])
    return jnp.einsum("ai,aboc,bj->ijco", g, square, g, precision="highest")


def _inputs(d: Sequence[Array]) -> list[Array]:
    """Bᵀ of four rows."""
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def _outputs(m: Sequence[Array]) -> list[Array]:
    """Aᵀ of four rows, which gives two rows."""
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


def _to_outputs(y: Sequence[Array]) -> list[Array]:
    """A of two rows, which gives four rows."""
    return [y[0], y[0] + y[1], y[0] - y[1], -y[1]]


def _patches(x: Float[Array, "c h w n"]) -> Float[Array, "16 c m"]:
    """Bᵀ·d·B of every window."""
    c, h, w, _ = x.shape
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows = [[x[:, i : i + h - 1 : 2, j : j + w - 1 : 2] for j in range(4)] for i in range(4)]
    columns = [_inputs(row) for row in rows]
    found = [_inputs([columns[i][b] for i in range(4)]) for b in range(4)]
    return jnp.stack([found[b][a] for a in range(4) for b in range(4)]).reshape(16, c, -1)


def _windows(products: Float[Array, "16 o m"]) -> Float[Array, "4 o m"]:
    """Aᵀ·M·A of every window."""
    columns = [_outputs([products[4 * a + b] for a in range(4)]) for b in range(4)]
    found = [_outputs([columns[b][i] for b in range(4)]) for i in range(2)]
    return jnp.stack([computed_once(found[i][j]) for i in range(2) for j in range(2)])


def _to_windows(seed: Float[Array, "4 o m"]) -> Float[Array, "16 o m"]:
    """A·s·Aᵀ of every window."""
    s = [computed_once(part) for part in seed]
    columns = [_to_outputs(s[2 * i : 2 * i + 2]) for i in range(2)]
    found = [_to_outputs([columns[i][b] for i in range(2)]) for b in range(4)]
    return jnp.stack([found[b][a] for a in range(4) for b in range(4)])


def _overlapped(v: Array) -> tuple[Array, Array]:
    """B of four rows, with overlapping windows added: the even and odd rows of the input.

    The third axis of each row is that of windows.
    """

    def shifted(row: Array, by: int) -> Array:
        edges = [(by, -by, 0) if axis == 2 else (0, 0, 0) for axis in range(row.ndim)]
        return jax.lax.pad(row, jnp.zeros((), row.dtype), edges)

    even = v[1] - v[2] + v[3] - shifted(v[3], 1)
    odd = v[1] + v[2] - v[0] + shifted(v[0], -1)
    return even, odd


def _to_input(seed: Float[Array, "16 c m"], height: int, width: int) -> Float[Array, "c h w n"]:
    """B·s·Bᵀ of every window, with overlapping patches added."""
    c = seed.shape[1]
    square = seed.reshape(4, 4, c, height // 2, width // 2, -1)
    rows = [computed_once(row) for row in _overlapped(square)]
    quarters = [jnp.stack(_overlapped(row), axis=3) for row in rows]
    return jnp.stack(quarters, axis=2).reshape(c, height, width, -1)


def _times(left: Array, right: Array, over: tuple[int, int], compute: str) -> Array:
    """16 matrix products, summed over these axes."""
    numbers = (((over[0],), (over[1],)), ((0,), (0,)))
    return jax.lax.dot_general(left, right, numbers, precision=precision(compute))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _winograd(kernel: Array, x: Array, compute: str) -> Any:
    return _windows(_times(_kernels(kernel), _patches(x), (2, 1), compute))


def _forward(kernel: Array, x: Array, compute: str) -> tuple[Array, tuple[Array, Array, Array]]:
    kernels, patches = _kernels(kernel), _patches(x)
    # Only the shape of x is needed, and an empty view of x carries it through vmap.
    kept = kernels, patches, x[:, :, :, :0]
    return _windows(_times(kernels, patches, (2, 1), compute)), kept


def _backward(compute: str, kept: tuple[Array, Array, Array], seed: Array) -> tuple[Array, Array]:
    kernels, patches, like = kept
    seeds = _to_windows(seed)
    to_kernel = _to_kernel(_times(seeds, patches, (2, 2), compute))
    # Transposing 16 times 256 numbers first is faster than a product over the leading axis.
    turned = computed_once(jnp.swapaxes(kernels, 1, 2))
    to_patches = _times(turned, seeds, (2, 1), compute)
    return to_kernel, _to_input(to_patches, *like.shape[1:3])


_winograd.defvjp(_forward, _backward)
