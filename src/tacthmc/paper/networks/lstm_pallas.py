r"""The recurrence of an LSTM as one kernel forward and one backward, for NVIDIA GPUs.

It computes the numbers of :mod:`tacthmc.paper.networks.lstm_unrolled` at ``compute="bfloat16"``.
There a step is several kernels, and a GPU mostly waits for the next one to start. Here a program
(Pallas with Triton) processes some examples of one chain. It reads the weights once, in bfloat16,
and keeps them, the state and the cell on the chip for all steps.

- ``_read`` goes through the rows. If a gradient is needed, it stores :math:`z_t`, :math:`c_t` and
  :math:`h_{t-1}` of each step.
- ``_return`` goes back through the rows, computes the gates again, and stores
  :math:`\partial z_t`. The gradient of the weights is then a product over all steps and examples
  by XLA.

There is no second derivative, because the backward kernel has no derivative rule.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

EXAMPLES = 16
"""The number of examples of a batch in one program."""

WARPS, STAGES = 8, 1


def _dot(left: Array, right: Array) -> Array:
    axes = (((1,), (0,)), ((), ()))
    return lax.dot_general(left, right, axes, preferred_element_type=jnp.float32)


def _sigmoid(z: Array) -> Array:
    return 1 / (1 + jnp.exp2(-math.log2(math.e) * z))  # the hardware has an instruction for 2^x


def _tanh(z: Array) -> Array:
    # Accurate to the last digit of float32 relative to 1 (small values have fewer digits), with
    # half the work of the library function.
    return 2 * _sigmoid(2 * z) - 1


def _gates(z: tuple[Array, ...]) -> tuple[Array, Array, Array, Array]:
    z_i, z_f, z_g, z_o = z
    return _sigmoid(z_i), _sigmoid(z_f), _tanh(z_g), _sigmoid(z_o)


def _in_four(ref: Any, *first: Any) -> tuple[Array, ...]:
    """The parts of the last axis for the four gates."""
    size = ref.shape[-1] // 4
    return tuple(ref[*first, pl.ds(k * size, size)] for k in range(4))


def _read(rows: Any, w_x: Any, w_h: Any, last: Any, *kept: Any) -> None:
    steps, (_, hidden) = rows.shape[0], last.shape
    mine = pl.ds(pl.program_id(0) * EXAMPLES, EXAMPLES)
    by_x, by_h = _in_four(w_x, slice(None)), _in_four(w_h, slice(None))

    def step(t: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        h, c, x = state
        ahead = rows[jnp.minimum(t + 1, steps - 1), mine, :]  # loaded before it is needed
        z = tuple(_dot(x, a) + _dot(h, b) for a, b in zip(by_x, by_h, strict=True))
        i, f, g, o = _gates(z)
        c = f * c + i * g
        now = o * _tanh(c)
        last[mine, :] = now  # stored in each step, so that no register has to hold it
        if kept:
            sums, cells, states = kept
            for k, one in enumerate(z):
                sums[t, mine, pl.ds(k * hidden, hidden)] = one
            cells[t, mine, :] = c
            states[t, mine, :] = h
        return now.astype(jnp.bfloat16), c, ahead

    none = jnp.zeros((EXAMPLES, hidden), jnp.float32)
    lax.fori_loop(0, steps, step, (none.astype(jnp.bfloat16), none, rows[0, mine, :]))


def _return(sums: Any, cells: Any, seed: Any, w_h: Any, to_sums: Any) -> None:
    steps, _, hidden = cells.shape
    mine = pl.ds(pl.program_id(0) * EXAMPLES, EXAMPLES)
    back = tuple(w_h[pl.ds(k * hidden, hidden), :] for k in range(4))

    def step(j: Array, state: tuple[Any, ...]) -> tuple[Any, ...]:
        dh, dc, z, c, before = state
        t = steps - 1 - j
        i, f, g, o = _gates(z)
        squashed = _tanh(c)
        dc = dc + dh * o * (1 - squashed * squashed)
        to_i, to_f = dc * g * i * (1 - i), dc * before * f * (1 - f)
        to_g, to_o = dc * i * (1 - g * g), dh * squashed * o * (1 - o)
        rounded = tuple(one.astype(jnp.bfloat16) for one in (to_i, to_f, to_g, to_o))
        for k, one in enumerate(rounded):
            to_sums[t, mine, pl.ds(k * hidden, hidden)] = one
        ahead = _in_four(sums, jnp.maximum(t - 1, 0), mine)
        earlier = cells[jnp.maximum(t - 2, 0), mine, :]
        earlier = jnp.where(t > 1, earlier, jnp.zeros_like(earlier))
        first, *others = [_dot(one, w) for one, w in zip(rounded, back, strict=True)]
        dh = sum(others, first)
        return dh, dc * f, ahead, before, earlier

    end, none = steps - 1, jnp.zeros((EXAMPLES, hidden), jnp.float32)
    before = cells[end - 1, mine, :] if end else none
    start = seed[mine, :], none, _in_four(sums, end, mine), cells[end, mine, :], before
    lax.fori_loop(0, steps, step, start)


def _call(body: Any, n: int, outs: list[Any], interpret: bool) -> Any:
    return pl.pallas_call(
        body,
        out_shape=[jax.ShapeDtypeStruct(size, dtype) for size, dtype in outs],
        grid=(n // EXAMPLES,),
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=STAGES),
        interpret=interpret,
        name="lstm" + body.__name__,
    )


def _rows(x: Float[Array, "i t n"]) -> Array:
    """[t, n, (x_t, 1, zeros)], padded with examples of zeros."""
    size, _, n = x.shape
    width = max(16, pl.next_power_of_2(size + 1))
    rows = jnp.transpose(x, (1, 2, 0)).astype(jnp.bfloat16)
    rows = jnp.pad(rows, ((0, 0), (0, 0), (0, 1)), constant_values=1)
    return jnp.pad(rows, ((0, 0), (0, -n % EXAMPLES), (0, width - size - 1)))


def _run(
    x: Array, w_x: Array, w_h: Array, bias: Array, interpret: bool, keep: bool
) -> tuple[Array, ...]:
    rows, hidden = _rows(x), w_h.shape[0]
    steps, n, width = rows.shape
    beside = jnp.concatenate([w_x, bias[None, :]]).astype(jnp.bfloat16)
    beside = jnp.pad(beside, ((0, width - beside.shape[0]), (0, 0)))
    outs: list[Any] = [((n, hidden), jnp.float32)]
    if keep:
        outs += [((steps, n, 4 * hidden), jnp.float32), ((steps, n, hidden), jnp.float32)]
        outs += [((steps, n, hidden), jnp.bfloat16)]
    found = _call(_read, n, outs, interpret)(rows, beside, w_h.astype(jnp.bfloat16))
    return (rows, *found)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _last_state(x: Array, w_x: Array, w_h: Array, bias: Array, interpret: bool) -> Any:
    return _run(x, w_x, w_h, bias, interpret, keep=False)[1][: x.shape[2]]


def _forward(
    x: Array, w_x: Array, w_h: Array, bias: Array, interpret: bool
) -> tuple[Array, tuple[Any, ...]]:
    rows, last, *kept = _run(x, w_x, w_h, bias, interpret, keep=True)
    return last[: x.shape[2]], (rows, *kept, w_x, w_h)


def _backward(
    interpret: bool, kept: tuple[Any, ...], seed: Float[Array, "n h"]
) -> tuple[Array, Array, Array, Array]:
    rows, sums, cells, states, w_x, w_h = kept
    n, size, examples = rows.shape[1], w_x.shape[0], seed.shape[0]
    seed = jnp.pad(seed, ((0, n - examples), (0, 0)))
    call = _call(_return, n, [(sums.shape, jnp.bfloat16)], interpret)
    (dz,) = call(sums, cells, seed, w_h.T.astype(jnp.bfloat16))

    def over_all(left: Array, right: Array) -> Array:
        axes = (((0, 1), (0, 1)), ((), ()))
        return lax.dot_general(left, right, axes, preferred_element_type=jnp.float32)

    to_rows, to_w_h = over_all(rows, dz), over_all(states, dz)
    # The compiler drops this if the gradient with respect to the images is not used.
    axes = (((1,), (2,)), ((), ()))
    to_x = lax.dot_general(w_x.astype(jnp.bfloat16), dz, axes, preferred_element_type=jnp.float32)
    return to_x[:, :, :examples], to_rows[:size], to_w_h, to_rows[size]


_last_state.defvjp(_forward, _backward)


def last_state(
    x: Float[Array, "i t n"],
    w_x: Float[Array, "i g"],
    w_h: Float[Array, "h g"],
    bias: Float[Array, " g"],
    interpret: bool = False,
) -> Float[Array, "n h"]:
    """h after the last step, from h = c = 0, products in bfloat16.

    Args:
        x: [input, step, example]; all arrays are float32.
        w_x: [input, (i, f, g, o)].
        w_h: [hidden, (i, f, g, o)]; the number of hidden units is a power of two, at least 16.
        bias: [(i, f, g, o)].
        interpret: run without a GPU, slowly.

    >>> import jax.numpy as jnp
    >>> x, w_x, w_h = jnp.ones((1, 2, 3)), jnp.ones((1, 64)), jnp.full((16, 64), 1 / 16)
    >>> last_state(x, w_x, w_h, jnp.zeros(64), interpret=True)[:, 0].round(2).tolist()
    [0.6499999761581421, 0.6499999761581421, 0.6499999761581421]
    """
    hidden = w_h.shape[0]
    if hidden < 16 or hidden & (hidden - 1):
        raise ValueError(f"hidden units must be a power of two, at least 16; got {hidden}")
    for name, given in {"x": x, "w_x": w_x, "w_h": w_h, "bias": bias}.items():
        if given.dtype != jnp.float32:
            raise TypeError(f"{name} must be float32; got {given.dtype}")
    return _last_state(x, w_x, w_h, bias, interpret)
