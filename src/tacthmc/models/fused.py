r"""3×3 convolution, bias, ReLU and 2×2 max-pooling in one kernel, for NVIDIA's GPUs.

The same numbers as ``pool(convolve(kernel, x, ...), bias)`` without its [16·in, m] windows: a
program of the kernel (Pallas, by Triton) has some columns of m = windows × images, gathers the
4×4 patch around each window from the image itself, and keeps of the four outputs of a window
the pooled one and which it was. Three kernels are here:

- ``_pooling``: sums_p = Σ_k places_p[:, k] · patch[k], p the four outputs of a window; then
  pooling. It leaves the pooled values and, in a byte, which output was the first maximum
  (``_SHUT`` where the ReLU is shut).
- ``_input_gradient``: the same sums with the kernel turned round, over the 4×4 patch of
  gradients around each 2×2 pixels. Those gradients are never stored; the byte says where the
  pooled one belongs. Everything is gathered, nothing is added up by atomics.
- ``_kernel_gradient``: gradient · patchᵀ over some columns; XLA adds up what the programs got.

Patches are [(row, column, channel), column of m], channels filled up to a power of two.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Num

from tacthmc.models.products import precision

COLUMNS = 128
"""Columns of m that a program of the first two kernels has."""

ROWS = 64
"""Rows of the patches that are gathered and multiplied at a time, in all three kernels.

As few as there are channels, the products leave out all of the kernel's zeros and a program
reads only nine small matrices of weights, but waits more often for what it gathers.
"""

STEP = 64
"""Columns of m that a program of ``_kernel_gradient`` multiplies at a time."""

SPAN = 1024
"""Columns of m that a program of ``_kernel_gradient`` has altogether."""

WARPS = 4
STAGES = 2
GRADIENT_WARPS = 4
GRADIENT_STAGES = 2

_SHUT = 4
_PHASES = ((0, 0), (0, 1), (1, 0), (1, 1))


class _Shape(NamedTuple):
    c: int
    h: int
    w: int
    n: int
    out: int

    @property
    def m(self) -> int:
        return self.h // 2 * (self.w // 2) * self.n


class _Columns(NamedTuple):
    """Columns of m: the window's row and column and the image of each; inside: which exist."""

    number: Array
    row: Array
    column: Array
    image: Array
    inside: Array | None


class _Patch(NamedTuple):
    """Rows of a patch: each one's row, column and channel, and which places they may be."""

    i: Array
    j: Array
    channel: Array
    places: tuple[tuple[int, int], ...]


_Load = Callable[[int], Array]


def _whole(size: int, least: int = 1) -> int:
    return max(least, pl.next_power_of_2(size))


def _least(columns: int, shape: _Shape) -> int:
    return min(columns, _whole(shape.m, 16))


def _programs(columns: int, shape: _Shape) -> int:
    return pl.cdiv(shape.m, _least(columns, shape))


def _divide(a: Array, b: int) -> tuple[Array, Array]:
    # Not a // b, whose care for signs hides from Triton which addresses are neighbours.
    by = lax.full_like(a, b)
    return lax.div(a, by), lax.rem(a, by)


def _columns(start: Array, size: int, each: int, shape: _Shape) -> _Columns:
    """``size`` columns from ``start`` on, of a program that has ``each``."""
    number = start + lax.iota(jnp.int32, size)
    window, image = _divide(number, shape.n)
    inside = (number < shape.m)[None, :] if shape.m % each else None
    return _Columns(number, *_divide(window, shape.w // 2), image, inside)


def _all(masks: list[Array], size: tuple[int, int]) -> Array | None:
    if not masks:
        return None
    return jnp.broadcast_to(reduce(lambda a, b: a & b, masks), size)


def _patch(first: int | Array, size: int, channels: int) -> _Patch:
    place, channel = _divide(first + lax.iota(jnp.int32, size), channels)
    some = range(16)
    if isinstance(first, int):
        some = range(first // channels, (first + size - 1) // channels + 1)
    return _Patch(*_divide(place, 4), channel, tuple((k // 4, k % 4) for k in some))


def _mask(patch: _Patch, channels: int, columns: _Columns, shape: _Shape) -> Array | None:
    """What lies in the image, and exists at all; None where that is everything."""
    masks = []

    def border(steps: set[int], step: Array, at: Array, last: int) -> None:
        for edge, place in ((0, 0), (3, last)):
            if steps == {edge}:
                masks.append((at != place)[None, :])
            elif edge in steps:
                masks.append((step != edge)[:, None] | (at != place)[None, :])

    border({i for i, _ in patch.places}, patch.i, columns.row, shape.h // 2 - 1)
    border({j for _, j in patch.places}, patch.j, columns.column, shape.w // 2 - 1)
    if _whole(channels) != channels:
        masks.append((patch.channel < channels)[:, None])
    if columns.inside is not None:
        masks.append(columns.inside)
    return _all(masks, (patch.i.shape[0], columns.number.shape[0]))


def _load(ref: Any, at: Array, mask: Array | None) -> Array:
    if mask is None:
        return triton.load(ref.at[at])
    return triton.load(ref.at[at], mask=mask, other=0)


def _rounded(x: Array, dtype: Any, compute: str) -> Array:
    return x.astype(jnp.bfloat16 if compute == "bfloat16" else dtype)


def _dot(left: Array, right: Array, over: tuple[int, int], dtype: Any, compute: str) -> Array:
    return lax.dot_general(
        left,
        right,
        (((over[0],), (over[1],)), ((), ())),
        precision=precision(compute),
        preferred_element_type=dtype,
    )


def _gather(ref: Any, patch: _Patch, columns: _Columns, shape: _Shape) -> Array:
    """These rows and columns of the image's patches."""
    _, h, w, n, _ = shape
    rows = ((patch.channel * h + patch.i - 1) * w + patch.j - 1) * n
    at = (columns.row * (2 * w) + columns.column * 2) * n + columns.image
    mask = _mask(patch, shape.c, columns, shape)
    return _load(ref, rows[:, None] + at[None, :], mask)


def _gather_gradient(
    seed_ref: Any, which_ref: Any, patch: _Patch, columns: _Columns, shape: _Shape
) -> Array:
    """These rows and columns of the patches of gradients before pooling."""
    # Rows 0 to 3 of a patch: the upper window's second output, this one's both, the lower's
    # first.
    down, upper = _divide(patch.i + 1, 2)
    right, left = _divide(patch.j + 1, 2)
    rows = patch.channel * shape.m + ((down - 1) * (shape.w // 2) + right - 1) * shape.n
    at = rows[:, None] + columns.number[None, :]
    mask = _mask(patch, shape.out, columns, shape)
    which = _load(which_ref, at, mask).astype(jnp.int32)
    seed = _load(seed_ref, at, mask)
    return jnp.where(which == (2 * upper + left)[:, None], seed, jnp.zeros_like(seed))


def _sums(weights_ref: Any, load: _Load, channels: int, dtype: Any, compute: str) -> list[Array]:
    """Σ_k weights[p, :, k] · rows k of the patches, for each phase p."""
    k = weights_ref.shape[2]
    size = min(ROWS, k)
    known: dict[tuple[int, int], Array] = {}

    def weights(phase: int, first: int) -> Array:
        if size == channels:  # One place: the first phase's of the same tap is as good.
            i, j = _PHASES[phase]
            phase, first = 0, first - (4 * i + j) * channels
        if (phase, first) not in known:
            known[phase, first] = weights_ref[phase, :, pl.ds(first, size)]
        return known[phase, first]

    sums: dict[int, Array] = {}
    ahead = load(0)
    for first in range(0, k, size):
        factor = ahead
        if first + size < k:
            ahead = load(first + size)
        places = range(first // channels, (first + size - 1) // channels + 1)
        for phase, (i, j) in enumerate(_PHASES):
            if any(place // 4 - i in range(3) and place % 4 - j in range(3) for place in places):
                term = _dot(weights(phase, first), factor, (1, 0), dtype, compute)
                sums[phase] = sums[phase] + term if phase in sums else term
    return [sums[phase] for phase in range(4)]


def _rows(height: int, tall: int, stride: int, at: Array, columns: _Columns) -> Any:
    """Addresses [row, column] within an array [height, stride], and which of them exist."""
    row = lax.iota(jnp.int32, tall)
    masks = [] if height == tall else [(row < height)[:, None]]
    masks += [] if columns.inside is None else [columns.inside]
    return (row * stride)[:, None] + at[None, :], _all(masks, (tall, at.shape[0]))


def _pooling(
    shape: _Shape, wide: int, compute: str, weights: Any, bias: Any, x: Any, out: Any, which: Any
) -> None:
    tall, dtype = weights.shape[1], out.dtype
    size = _least(COLUMNS, shape)
    columns = _columns(pl.program_id(0) * size, size, size, shape)

    def load(first: int) -> Array:
        patch = _patch(first, min(ROWS, weights.shape[2]), wide)
        return _rounded(_gather(x, patch, columns, shape), dtype, compute)

    most, *others = _sums(weights, load, wide, dtype, compute)
    first = jnp.zeros(most.shape, jnp.int32)
    for phase, value in enumerate(others, 1):
        # Not jnp.maximum, which by Triton loses NaN.
        more = (value > most) | (value != value)
        most = jnp.where(more, value, most)
        first = jnp.where(more, jnp.full_like(first, phase), first)
    most = most + bias[:][:, None]
    first = jnp.where(most > 0, first, jnp.full_like(first, _SHUT))
    most = jnp.where(most <= 0, jnp.zeros_like(most), most)
    at, mask = _rows(shape.out, tall, shape.m, columns.number, columns)
    triton.store(out.at[at], most, mask=mask)
    triton.store(which.at[at], first.astype(jnp.int8), mask=mask)


def _input_gradient(
    shape: _Shape, wide: int, compute: str, weights: Any, seed: Any, which: Any, out: Any
) -> None:
    tall, dtype = weights.shape[1], out.dtype
    size = _least(COLUMNS, shape)
    columns = _columns(pl.program_id(0) * size, size, size, shape)

    def load(first: int) -> Array:
        patch = _patch(first, min(ROWS, weights.shape[2]), wide)
        return _rounded(_gather_gradient(seed, which, patch, columns, shape), dtype, compute)

    corner = (columns.row * (2 * shape.w) + columns.column * 2) * shape.n + columns.image
    at, mask = _rows(shape.c, tall, shape.h * shape.w * shape.n, corner, columns)
    for (i, j), value in zip(_PHASES, _sums(weights, load, wide, dtype, compute), strict=True):
        triton.store(out.at[at + (i * shape.w + j) * shape.n], value, mask=mask)


def _kernel_gradient(
    shape: _Shape, compute: str, x: Any, seed: Any, which: Any, out: Any, to_bias: Any
) -> None:
    _, four, k = out.shape
    tall, dtype, rows = four // 4, out.dtype, min(ROWS, k)
    span, step = _least(SPAN, shape), _least(STEP, shape)
    part, block = _divide(pl.program_id(0), k // rows)
    patch = _patch(block * rows, rows, _whole(shape.c))

    def body(i: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        columns = _columns(part * span + i * step, step, span, shape)
        patches = _rounded(_gather(x, patch, columns, shape), dtype, compute)
        at, mask = _rows(shape.out, tall, shape.m, columns.number, columns)
        place = _load(which, at, mask).astype(jnp.int32)
        pooled = _load(seed, at, mask)
        pooled = jnp.where(place < _SHUT, pooled, jnp.zeros_like(pooled))
        phase = lax.broadcasted_iota(jnp.int32, (4, tall, step), 0)
        here = jnp.broadcast_to(place[None], phase.shape) == phase
        gradient = jnp.where(here, pooled[None], jnp.zeros((), dtype)).reshape(four, step)
        gradient = _rounded(gradient, dtype, compute)
        return sums[0] + _dot(gradient, patches, (1, 1), dtype, compute), sums[1] + pooled

    none = jnp.zeros((four, rows), dtype), jnp.zeros((tall, step), dtype)
    to_kernel, pooled = lax.fori_loop(0, span // step, body, none)
    out[part, :, pl.ds(block * rows, rows)] = to_kernel
    to_bias[part, block, :] = jnp.sum(pooled, axis=1)


def _places(kernel: Array, scale: float, compute: str) -> tuple[Array, int]:
    """The kernel at its four places, [place, out, (row, column, in)], sizes filled up."""
    c, out = kernel.shape[2:]
    wide, tall = _whole(c), _whole(out, 16)
    kernel = jnp.pad(kernel * scale, ((0, 0), (0, 0), (0, wide - c), (0, tall - out)))
    kernel = jnp.transpose(kernel, (3, 0, 1, 2))
    places = [jnp.pad(kernel, ((0, 0), (i, 1 - i), (j, 1 - j), (0, 0))) for i, j in _PHASES]
    return _rounded(jnp.stack(places).reshape(4, tall, -1), kernel.dtype, compute), wide


def _unplaced(gradient: Array, shape: _Shape) -> Array:
    """What :func:`_places` does, transposed."""
    gradient = gradient.reshape(4, -1, 4, 4, _whole(shape.c))[:, : shape.out, ..., : shape.c]
    taps = [gradient[p, :, i : i + 3, j : j + 3] for p, (i, j) in enumerate(_PHASES)]
    return jnp.transpose((taps[0] + taps[1]) + (taps[2] + taps[3]), (1, 2, 3, 0))


def _call(body: Any, name: str, grid: int, outs: Any, interpret: bool, warps: int, stages: int):
    return pl.pallas_call(
        body,
        out_shape=[jax.ShapeDtypeStruct(*out) for out in outs],
        grid=(grid,),
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=interpret,
        name=name,
    )


def _scale(x: Array) -> float:
    # uint8 are multiplied as they are, exact even in bfloat16, and the kernel is scaled.
    return 1 / 255 if x.dtype == jnp.uint8 else 1.0


def _shape(kernel: Array, x: Array) -> _Shape:
    return _Shape(*x.shape, kernel.shape[3])


def _both(kernel: Array, bias: Array, x: Array, compute: str, interpret: bool) -> Any:
    shape = _shape(kernel, x)
    weights, wide = _places(kernel, _scale(x), compute)
    size = (shape.out * shape.m,)
    body = partial(_pooling, shape, wide, compute)
    outs = ((size, kernel.dtype), (size, jnp.int8))
    call = _call(body, "conv_pool", _programs(COLUMNS, shape), outs, interpret, WARPS, STAGES)
    bias = jnp.pad(bias, (0, weights.shape[1] - shape.out))
    return call(weights, bias, x.reshape(-1))


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _fused(kernel: Array, bias: Array, x: Array, compute: str, interpret: bool) -> Any:
    return _both(kernel, bias, x, compute, interpret)[0].reshape(bias.shape[0], -1)


def _forward(kernel: Array, bias: Array, x: Array, compute: str, interpret: bool) -> Any:
    out, which = _both(kernel, bias, x, compute, interpret)
    return out.reshape(bias.shape[0], -1), (kernel, x, which)


def _backward(compute: str, interpret: bool, kept: tuple[Array, Array, Array], seed: Array) -> Any:
    kernel, x, which = kept
    shape, dtype, seed = _shape(kernel, x), kernel.dtype, seed.reshape(-1)
    tall, k = _whole(shape.out, 16), 16 * _whole(shape.c)
    parts, blocks = _programs(SPAN, shape), k // min(ROWS, k)
    body = partial(_kernel_gradient, shape, compute)
    outs = (((parts, 4 * tall, k), dtype), ((parts, blocks, tall), dtype))
    settings = interpret, GRADIENT_WARPS, GRADIENT_STAGES
    call = _call(body, "conv_pool_to_kernel", parts * blocks, outs, *settings)
    to_kernel, to_bias = call(x.reshape(-1), seed, which)
    to_kernel = _unplaced(jnp.sum(to_kernel, axis=0), shape) * _scale(x)
    to_bias = jnp.sum(to_bias[:, 0, : shape.out], axis=0)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return to_kernel, to_bias, None
    # Where nothing asks for it, as of float images, XLA leaves this call out.
    turned = jnp.transpose(kernel[::-1, ::-1], (0, 1, 3, 2))
    weights, wide = _places(turned, 1.0, compute)
    body = partial(_input_gradient, shape, wide, compute)
    outs = (((x.size,), dtype),)
    settings = interpret, WARPS, STAGES
    (to_x,) = _call(body, "conv_pool_to_input", _programs(COLUMNS, shape), outs, *settings)(
        weights, seed, which
    )
    return to_kernel, to_bias, to_x.reshape(x.shape)


_fused.defvjp(_forward, _backward)


def fused(
    kernel: Float[Array, "3 3 c o"],
    bias: Float[Array, " o"],
    x: Num[Array, "c h w n"],
    compute: str,
    interpret: bool = False,
) -> Float[Array, "o m"]:
    """max over 2×2 windows of relu(convolution + bias).

    Args:
        kernel: [row, column, in, out].
        bias: one for each channel that comes out.
        x: activations as precise as the kernel; or images as uint8, divided by 255 here.
        compute: the precision of products, see :mod:`tacthmc.models.products`.
        interpret: run without a GPU, slowly.

    >>> import jax.numpy as jnp
    >>> x = jnp.arange(1.0, 5.0).reshape(1, 2, 2, 1)
    >>> fused(jnp.ones((3, 3, 1, 1)), jnp.ones(1), x, "float32", interpret=True).tolist()
    [[11.0]]
    """
    if x.shape[1] % 2 or x.shape[2] % 2:
        raise ValueError(f"height and width must be even to be pooled; got shape {x.shape}")
    if x.dtype not in (kernel.dtype, jnp.uint8):
        raise TypeError(f"x must be {kernel.dtype} as the kernel, or uint8; got {x.dtype}")
    return _fused(kernel, bias, x, compute, interpret)
