r"""The recurrence of an LSTM with unrolled steps; the form for GPUs.

It computes the numbers of :mod:`tacthmc.paper.networks.lstm_scan`, in whose loop a GPU mostly
copies. Here a step is one product, :math:`z_t = [x_t, 1, h_{t-1}]\,W` with both weights and the
bias in one matrix, and one kernel for the gates. Only z_t (which is in memory anyway) and c_t are
kept for the gradient. The backward pass computes the gates again, which is faster than reading
them.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tacthmc.paper.networks.products import product

GRADIENT_STEPS = 4
"""The number of steps whose share of the gradient of the weights is one product."""


def _room(w_x: Array) -> int:
    """The number of columns beside the inputs: one for the bias, and padding to a multiple of 32.

    GPUs multiply matrices of such a width faster.
    """
    return 32 - w_x.shape[0] % 32


def _joined(w_x: Array, bias: Array, w_h: Array) -> Array:
    blank = jnp.zeros((_room(w_x) - 1, bias.shape[0]), bias.dtype)
    return jnp.concatenate([w_x, bias[None, :], blank, w_h])


def _stacked(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _gates(z: Float[Array, "n g"]) -> tuple[Array, Array, Array, Array]:
    z_i, z_f, z_g, z_o = jnp.split(z, 4, axis=1)
    return jax.nn.sigmoid(z_i), jax.nn.sigmoid(z_f), jnp.tanh(z_g), jax.nn.sigmoid(z_o)


def last_state(
    x: Float[Array, "i t n"],
    w_x: Float[Array, "i g"],
    w_h: Float[Array, "h g"],
    bias: Float[Array, " g"],
    compute: str,
) -> Float[Array, "n h"]:
    """h after the last step, from h = c = 0.

    >>> import jax.numpy as jnp
    >>> x, w_x, w_h = jnp.ones((1, 2, 3)), jnp.ones((1, 4)), jnp.ones((1, 4))
    >>> last_state(x, w_x, w_h, jnp.zeros(4), "float32").round(4).ravel().tolist()
    [0.6504999995231628, 0.6504999995231628, 0.6504999995231628]
    """
    return _last_state(x, w_x, w_h, bias, compute)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _last_state(x: Array, w_x: Array, w_h: Array, bias: Array, compute: str) -> Any:
    return _forward(x, w_x, w_h, bias, compute)[0]


def _forward(
    x: Array, w_x: Array, w_h: Array, bias: Array, compute: str
) -> tuple[Array, tuple[Any, ...]]:
    weights = _joined(w_x, bias, w_h)
    rows = jnp.transpose(x, (1, 2, 0))
    one = jnp.ones((*rows.shape[:2], 1), x.dtype)
    blank = jnp.zeros((*rows.shape[:2], _room(w_x) - 1), x.dtype)
    rows = jnp.concatenate([rows, one, blank], axis=2)
    h = c = jnp.zeros((x.shape[2], w_h.shape[0]), x.dtype)
    inputs, sums, cells = [], [], [c]
    for t in range(x.shape[1]):
        inputs.append(jnp.concatenate([rows[t], h], axis=1))
        sums.append(product(inputs[-1], weights, (1, 0), compute))
        i, f, g, o = _gates(sums[-1])
        c = f * c + i * g
        h = o * jnp.tanh(c)
        cells.append(c)
    return h, (inputs, sums, cells, w_x, w_h)


def _backward(
    compute: str, kept: tuple[Any, ...], seed: Float[Array, "n h"]
) -> tuple[Array, Array, Array, Array]:
    inputs, sums, cells, w_x, w_h = kept
    dh, dc, dzs = seed, jnp.zeros_like(seed), []
    for t in reversed(range(len(sums))):
        i, f, g, o = _gates(sums[t])
        squashed = jnp.tanh(cells[t + 1])
        dc = dc + dh * o * (1 - squashed * squashed)
        to_i, to_f = dc * g * i * (1 - i), dc * cells[t] * f * (1 - f)
        to_g, to_o = dc * i * (1 - g * g), dh * squashed * o * (1 - o)
        dzs.insert(0, jnp.concatenate([to_i, to_f, to_g, to_o], axis=1))
        dc = dc * f
        if t:
            dh = product(dzs[0], w_h, (1, 1), compute)
    groups = [slice(t, t + GRADIENT_STEPS) for t in range(0, len(sums), GRADIENT_STEPS)]
    first, *others = [
        product(_stacked(inputs[group]), _stacked(dzs[group]), (0, 0), compute) for group in groups
    ]
    to_weights = sum(others, first)
    size, n = w_x.shape[0], seed.shape[0]
    # The compiler drops this if the gradient with respect to the images is not used.
    to_x = product(w_x, jnp.concatenate(dzs), (1, 1), compute).reshape(size, len(sums), n)
    return to_x, to_weights[:size], to_weights[size + _room(w_x) :], to_weights[size]


_last_state.defvjp(_forward, _backward)
