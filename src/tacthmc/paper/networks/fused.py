r"""3×3 convolution, bias, ReLU and 2×2 max-pooling in one kernel, for NVIDIA GPUs.

It computes ``pool(convolve(kernel, x, ...), bias)`` without storing the [16·in, m] windows. A
program (Pallas with Triton) processes some columns of m = windows × images, and gathers the 4×4
patches [(row, column, channel padded to a power of two), column of m] from the image itself.

- ``_pooling`` multiplies the patches with the kernel at its four places, and pools. It stores the
  pooled values and, in a byte, which output was the first maximum (``_SHUT`` if the ReLU is zero).
- Without a gradient, ``_only_pooling`` stores only the values, and ``_evaluation`` does so for many
  kernels on the same images, whose patches it gathers once.
- ``_input_gradient`` is the same product with the reversed kernel, over the 4×4 gradients around
  each 2×2 pixels. These are never stored: the byte gives the place of the pooled gradient.
- ``_kernel_gradient`` is gradient · patchᵀ over some columns. XLA adds the results of the programs.
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

from tacthmc.paper.networks.products import precision

COLUMNS = 128
"""The number of columns of m per program of ``_pooling``, ``_input_gradient``, ``_evaluation``."""

VALUE_COLUMNS = 64
"""The same for ``_only_pooling``."""

ROWS = 64
"""The number of rows of patches per product, in all kernels."""

SPAN, STEP = 1024, 64
"""The numbers of columns of m per program and per product of ``_kernel_gradient``."""

WARPS, STAGES = 4, 2
GRADIENT_WARPS, GRADIENT_STAGES = 4, 2
"""The same for ``_kernel_gradient``."""

_SHUT, _PHASES = 4, ((0, 0), (0, 1), (1, 0), (1, 1))


def _whole(size: int, least: int = 1) -> int:
    return max(least, pl.next_power_of_2(size))


class _Shape(NamedTuple):
    c: int
    h: int
    w: int
    n: int
    out: int
    compute: str

    @property
    def m(self) -> int:
        return self.h // 2 * (self.w // 2) * self.n

    def some(self, columns: int) -> int:
        return min(columns, _whole(self.m, 16))

    def rounded(self, x: Array, dtype: Any) -> Array:
        return x.astype(jnp.bfloat16 if self.compute == "bfloat16" else dtype)

    def weights(self, kernel: Array) -> Array:
        places = self.rounded(_places(kernel), kernel.dtype)
        return places.reshape(4, -1, places.shape[1])

    def dot(self, left: Array, right: Array, over: tuple[int, int], dtype: Any) -> Array:
        axes = (((over[0],), (over[1],)), ((), ()))
        exact = precision(self.compute)
        return lax.dot_general(left, right, axes, precision=exact, preferred_element_type=dtype)


class _Columns(NamedTuple):
    number: Array
    row: Array
    column: Array
    image: Array
    inside: Array | None


class _Patch(NamedTuple):
    i: Array
    j: Array
    channel: Array
    places: tuple[tuple[int, int], ...]


def _divide(a: Array, b: int) -> tuple[Array, Array]:
    # Not a // b, because its handling of signs hides contiguous addresses from Triton.
    by = lax.full_like(a, b)
    return lax.div(a, by), lax.rem(a, by)


def _columns(block: Array, size: int, shape: _Shape, each: int = 1) -> _Columns:
    """A block of columns of m with their windows and images; a program has ``each`` blocks."""
    number = block * size + lax.iota(jnp.int32, size)
    window, image = _divide(number, shape.n)
    inside = (number < shape.m)[None, :] if shape.m % (each * size) else None
    return _Columns(number, *_divide(window, shape.w // 2), image, inside)


def _patch(first: int | Array, size: int, channels: int) -> _Patch:
    """Rows of a patch with their row, column and channel, and the places that may occur."""
    place, channel = _divide(first + lax.iota(jnp.int32, size), channels)
    some = range(16)
    if isinstance(first, int):
        some = range(first // channels, (first + size - 1) // channels + 1)
    return _Patch(*_divide(place, 4), channel, tuple((k // 4, k % 4) for k in some))


def _all(masks: list[Array], size: tuple[int, int]) -> Array | None:
    return jnp.broadcast_to(reduce(jnp.bitwise_and, masks), size) if masks else None


def _mask(patch: _Patch, channels: int, columns: _Columns, shape: _Shape) -> Array | None:
    """The elements that exist and lie in the image, or None if all do."""
    masks = [] if columns.inside is None else [columns.inside]

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
    return _all(masks, (patch.i.shape[0], columns.number.shape[0]))


def _load(ref: Any, at: Array, mask: Array | None) -> Array:
    return triton.load(ref.at[at], mask=mask, other=None if mask is None else 0)


def _corners(columns: _Columns, shape: _Shape) -> Array:
    """The offsets of windows in a channel of an image."""
    return (columns.row * (2 * shape.w) + columns.column * 2) * shape.n + columns.image


def _gather(x: Any, patch: _Patch, columns: _Columns, shape: _Shape) -> Array:
    """These rows and columns of the patches of the image."""
    rows = (patch.channel * shape.h + patch.i - 1) * shape.w + patch.j - 1
    at = (rows * shape.n)[:, None] + _corners(columns, shape)[None, :]
    return _load(x, at, _mask(patch, shape.c, columns, shape))


def _gather_gradient(refs: Any, patch: _Patch, columns: _Columns, shape: _Shape) -> Array:
    """These rows and columns of the patches of gradients before pooling."""
    # The rows of a patch are the second of the upper window, both of this one, and the first of the
    # lower one.
    down, lower = _divide(patch.i + 1, 2)
    right, later = _divide(patch.j + 1, 2)
    rows = patch.channel * shape.m + ((down - 1) * (shape.w // 2) + right - 1) * shape.n
    at = rows[:, None] + columns.number[None, :]
    mask = _mask(patch, shape.out, columns, shape)
    here = _load(refs[1], at, mask).astype(jnp.int32) == (2 * lower + later)[:, None]
    pooled = _load(refs[0], at, mask)
    return jnp.where(here, pooled, jnp.zeros_like(pooled))


def _sums(weights: Any, gather: Callable[[_Patch], Array], shape: _Shape, dtype: Any) -> Any:
    """Σ_k weights[p, :, k] · rows k of the patches, for each phase p."""
    k = weights.shape[2]
    channels, size = k // 16, min(ROWS, k)
    known: dict[tuple[int, int], Array] = {}

    def factor(phase: int, first: int) -> Array:
        if size == channels:  # One place, with the same weights as that tap of the first phase.
            i, j = _PHASES[phase]
            phase, first = 0, first - (4 * i + j) * channels
        if (phase, first) not in known:
            known[phase, first] = weights[phase, :, pl.ds(first, size)]
        return known[phase, first]

    sums: dict[int, Array] = {}
    patches = [_patch(first, size, channels) for first in range(0, k, size)]
    ahead = gather(patches[0])
    for block, patch in enumerate(patches):
        now = shape.rounded(ahead, dtype)
        if block + 1 < len(patches):  # Loaded before it is needed.
            ahead = gather(patches[block + 1])
        for phase, (i, j) in enumerate(_PHASES):
            if any(a - i in range(3) and b - j in range(3) for a, b in patch.places):
                term = shape.dot(factor(phase, block * size), now, (1, 0), dtype)
                sums[phase] = sums[phase] + term if phase in sums else term
    return [sums[phase] for phase in range(4)]


def _rows(height: int, tall: int, stride: int, at: Array, columns: _Columns) -> Any:
    """Addresses [row, column] in an array [height, stride], and which of them exist."""
    row = lax.iota(jnp.int32, tall)
    masks = [] if height == tall else [(row < height)[:, None]]
    masks += [] if columns.inside is None else [columns.inside]
    return (row * stride)[:, None] + at[None, :], _all(masks, (tall, at.shape[0]))


def _pooled(sums: list[Array], bias: Array) -> tuple[Array, Array]:
    """The largest of the four outputs of a window after bias and ReLU, and its place."""
    most, *others = sums
    first = jnp.zeros(most.shape, jnp.int32)
    for phase, value in enumerate(others, 1):
        # Not jnp.maximum, which loses NaN in Triton.
        more = (value > most) | (value != value)
        most = jnp.where(more, value, most)
        first = jnp.where(more, jnp.full_like(first, phase), first)
    most = most + bias[:, None]
    first = jnp.where(most > 0, first, jnp.full_like(first, _SHUT))
    return jnp.where(most <= 0, jnp.zeros_like(most), most), first


def _pooling(shape: _Shape, weights: Any, bias: Any, x: Any, out: Any, which: Any) -> None:
    columns = _columns(pl.program_id(0), shape.some(COLUMNS), shape)
    gather = partial(_gather, x, columns=columns, shape=shape)
    most, first = _pooled(_sums(weights, gather, shape, out.dtype), bias[:])
    at, mask = _rows(shape.out, weights.shape[1], shape.m, columns.number, columns)
    triton.store(out.at[at], most, mask=mask)
    triton.store(which.at[at], first.astype(jnp.int8), mask=mask)


def _only_pooling(shape: _Shape, weights: Any, bias: Any, x: Any, out: Any) -> None:
    columns = _columns(pl.program_id(0), shape.some(VALUE_COLUMNS), shape)
    gather = partial(_gather, x, columns=columns, shape=shape)
    most, _ = _pooled(_sums(weights, gather, shape, out.dtype), bias[:])
    at, mask = _rows(shape.out, weights.shape[1], shape.m, columns.number, columns)
    triton.store(out.at[at], most, mask=mask)


def _evaluation(shape: _Shape, weights: Any, bias: Any, x: Any, out: Any) -> None:
    columns = _columns(pl.program_id(0), shape.some(COLUMNS), shape)
    draws, _, tall, k = weights.shape
    patches = shape.rounded(_gather(x, _patch(0, k, k // 16), columns, shape), out.dtype)
    at, mask = _rows(shape.out, tall, shape.m, columns.number, columns)

    def body(draw: Array, nothing: None) -> None:
        sums = [
            shape.dot(weights[draw, phase, :, :], patches, (1, 0), out.dtype) for phase in range(4)
        ]
        most = _pooled(sums, bias[draw, :])[0]
        triton.store(out.at[at + draw * (shape.out * shape.m)], most, mask=mask)

    lax.fori_loop(0, draws, body, None)


def _input_gradient(shape: _Shape, weights: Any, seed: Any, which: Any, out: Any) -> None:
    columns = _columns(pl.program_id(0), shape.some(COLUMNS), shape)
    gather = partial(_gather_gradient, (seed, which), columns=columns, shape=shape)
    sums = _sums(weights, gather, shape, out.dtype)
    stride, corners = shape.h * shape.w * shape.n, _corners(columns, shape)
    at, mask = _rows(shape.c, weights.shape[1], stride, corners, columns)
    for (i, j), value in zip(_PHASES, sums, strict=True):
        triton.store(out.at[at + (i * shape.w + j) * shape.n], value, mask=mask)


def _kernel_gradient(
    shape: _Shape, x: Any, seed: Any, which: Any, to_kernel: Any, to_bias: Any
) -> None:
    (_, four, k), dtype, step = to_kernel.shape, to_kernel.dtype, shape.some(STEP)
    tall, rows, steps = four // 4, min(ROWS, k), shape.some(SPAN) // step
    part, block = _divide(pl.program_id(0), k // rows)
    patch = _patch(block * rows, rows, k // 16)

    def body(i: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        columns = _columns(part * steps + i, step, shape, steps)
        patches = shape.rounded(_gather(x, patch, columns, shape), dtype)
        at, mask = _rows(shape.out, tall, shape.m, columns.number, columns)
        place = _load(which, at, mask).astype(jnp.int32)
        pooled = _load(seed, at, mask)
        pooled = jnp.where(place < _SHUT, pooled, jnp.zeros_like(pooled))
        phase = lax.broadcasted_iota(jnp.int32, (4, tall, step), 0)
        here = jnp.broadcast_to(place[None], phase.shape) == phase
        values = jnp.broadcast_to(shape.rounded(pooled, dtype)[None], phase.shape)
        gradient = jnp.where(here, values, jnp.zeros_like(values)).reshape(four, step)
        return sums[0] + shape.dot(gradient, patches, (1, 1), dtype), sums[1] + pooled

    none = jnp.zeros((four, rows), dtype), jnp.zeros((tall, step), dtype)
    sums = lax.fori_loop(0, steps, body, none)
    to_kernel[part, :, pl.ds(block * rows, rows)] = sums[0]
    to_bias[part, block, :] = jnp.sum(sums[1], axis=1)


def _places(kernel: Array) -> Array:
    """The kernel at its four places, [(place, out), (row, column, in)], padded."""
    c, out = kernel.shape[2:]
    tall = _whole(out, 16)
    kernel = jnp.pad(kernel, ((0, 0), (0, 0), (0, _whole(c) - c), (0, tall - out)))
    kernel = jnp.transpose(kernel, (3, 0, 1, 2))
    places = [jnp.pad(kernel, ((0, 0), (i, 1 - i), (j, 1 - j), (0, 0))) for i, j in _PHASES]
    return jnp.stack(places).reshape(4 * tall, -1)


def _call(body: Any, shape: _Shape, programs: int, interpret: bool, *outs: Any) -> Any:
    tuned = (GRADIENT_WARPS, GRADIENT_STAGES) if body is _kernel_gradient else (WARPS, STAGES)
    return pl.pallas_call(
        partial(body, shape),
        out_shape=[jax.ShapeDtypeStruct(size, dtype) for size, dtype in outs],
        grid=(programs,),
        compiler_params=triton.CompilerParams(num_warps=tuned[0], num_stages=tuned[1]),
        interpret=interpret,
        name="conv_pool" + body.__name__,
    )


def _scaled(kernel: Array, x: Array) -> Array:
    # uint8 images are multiplied without scaling, which is exact even in bfloat16.
    return kernel / 255 if x.dtype == jnp.uint8 else kernel


def _shape(kernel: Array, x: Array, compute: str) -> _Shape:
    c, h, w, n = x.shape
    return _Shape(c, h, w, n, kernel.shape[3], compute)


def _forward(kernel: Array, bias: Array, x: Array, compute: str, interpret: bool) -> Any:
    shape = _shape(kernel, x, compute)
    weights, size = shape.weights(_scaled(kernel, x)), (shape.out * shape.m,)
    programs, outs = pl.cdiv(shape.m, shape.some(COLUMNS)), ((size, bias.dtype), (size, jnp.int8))
    call = _call(_pooling, shape, programs, interpret, *outs)
    filled = jnp.pad(bias, (0, weights.shape[1] - shape.out))
    out, which = call(weights, filled, x.reshape(-1))
    return out.reshape(shape.out, -1), (kernel, x, which)


def _alone(kernel: Array, bias: Array, x: Array, compute: str, interpret: bool) -> Array:
    """The values, without the data for a gradient."""
    shape = _shape(kernel, x, compute)
    weights = shape.weights(_scaled(kernel, x))
    programs = pl.cdiv(shape.m, shape.some(VALUE_COLUMNS))
    outs = ((shape.out * shape.m,), bias.dtype)
    call = _call(_only_pooling, shape, programs, interpret, outs)
    filled = jnp.pad(bias, (0, weights.shape[1] - shape.out))
    return call(weights, filled, x.reshape(-1))[0].reshape(shape.out, -1)


def _of_each(kernels: Array, biases: Array, x: Array, compute: str, interpret: bool) -> Array:
    """The values of many kernels on the same images, whose patches are gathered once."""
    shape = _shape(kernels[0], x, compute)
    weights = jax.vmap(shape.weights)(_scaled(kernels, x))
    draws, _, tall, _ = weights.shape
    programs = pl.cdiv(shape.m, shape.some(COLUMNS))
    outs = ((draws * shape.out * shape.m,), biases.dtype)
    call = _call(_evaluation, shape, programs, interpret, outs)
    filled = jnp.pad(biases, ((0, 0), (0, tall - shape.out)))
    return call(weights, filled, x.reshape(-1))[0].reshape(draws, shape.out, -1)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _fused(kernel: Array, bias: Array, x: Array, compute: str, interpret: bool) -> Any:
    def alone(kernel: Array, bias: Array, x: Array) -> Array:
        return _alone(kernel, bias, x, compute, interpret)

    evaluated = jax.custom_batching.custom_vmap(alone)

    @evaluated.def_vmap
    def _(
        size: int, batched: list[bool], kernel: Array, bias: Array, x: Array
    ) -> tuple[Array, bool]:
        one_block = 16 * _whole(kernel.shape[-2]) <= ROWS
        if batched == [True, True, False] and one_block and _indices_fit(size, kernel, x):
            return _of_each(kernel, bias, x, compute, interpret), True
        axes = [0 if each else None for each in batched]
        return jax.vmap(alone, in_axes=axes, axis_size=size)(kernel, bias, x), True

    return evaluated(kernel, bias, x)


def _indices_fit(draws: int, kernel: Array, x: Array) -> bool:
    """Whether 32-bit indices are enough for the output."""
    return draws * kernel.shape[-1] * (x.size // x.shape[0] // 4) < 1 << 31


def _backward(compute: str, interpret: bool, kept: tuple[Array, Array, Array], seed: Array) -> Any:
    kernel, x, which = kept
    shape, dtype = _shape(kernel, x, compute), kernel.dtype
    tall, k, seed = _whole(shape.out, 16), 16 * _whole(shape.c), seed.reshape(-1)
    parts, blocks = pl.cdiv(shape.m, shape.some(SPAN)), k // min(ROWS, k)
    outs = ((parts, 4 * tall, k), dtype), ((parts, blocks, tall), dtype)
    call = _call(_kernel_gradient, shape, parts * blocks, interpret, *outs)
    to_kernel, to_bias = call(x.reshape(-1), seed, which)
    to_kernel = _scaled(jax.vjp(_places, kernel)[1](jnp.sum(to_kernel, axis=0))[0], x)
    to_bias = jnp.sum(to_bias[:, 0, : shape.out], axis=0)
    if x.dtype == jnp.uint8:
        return to_kernel, to_bias, None
    # XLA drops this call if the gradient with respect to x is not used, as for float images.
    turned = shape.weights(jnp.transpose(kernel[::-1, ::-1], (0, 1, 3, 2)))
    parts = pl.cdiv(shape.m, shape.some(COLUMNS))
    call = _call(_input_gradient, shape, parts, interpret, ((x.size,), dtype))
    return to_kernel, to_bias, call(turned, seed, which)[0].reshape(x.shape)


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
        bias: [out].
        x: activations in the dtype of the kernel, or uint8 images, which are divided by 255 here.
        compute: the precision of products, see :mod:`tacthmc.paper.networks.products`.
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
