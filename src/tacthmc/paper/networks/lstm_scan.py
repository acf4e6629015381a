r"""The recurrence of an LSTM as a scan, with an explicit gradient; the form for CPUs.

.. math::
    z_t &= x_t W_x + h_{t-1} W_h + b, \qquad (i, f, g, o) = z_t \text{ in four} \\
    c_t &= \sigma(f) c_{t-1} + \sigma(i) \tanh(g), \qquad h_t = \sigma(o) \tanh(c_t)

Backward, a step only needs :math:`\partial h_{t-1} = \partial z_t W_h^\top`. The gradient of both
weights is one product over all steps at the end, while JAX's own derivative of a scan adds a matrix
at every step. For that product the inputs and states of all steps form one array [inputs + hidden,
time, n], so that no copy is transposed under ``vmap``.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tacthmc.paper.networks.products import product


def _sigmoid(z: Array) -> Array:
    return 0.5 * jnp.tanh(0.5 * z) + 0.5


def _run(
    x: Float[Array, "i t n"],
    w_x: Float[Array, "i g"],
    w_h: Float[Array, "h g"],
    bias: Float[Array, " g"],
    compute: str,
) -> tuple[Float[Array, "n h"], tuple[Array, ...]]:
    inputs, steps, n = x.shape
    hidden = w_h.shape[0]
    projected = product(x.reshape(inputs, -1), w_x, (0, 0), compute).reshape(steps, n, -1)
    zeros = jnp.zeros((n, hidden), x.dtype)
    seen = jnp.concatenate([x, jnp.zeros((hidden, steps, n), x.dtype)], axis=0)

    def step(state: tuple[Array, ...], t: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        c, h, seen = state
        now = jax.lax.dynamic_index_in_dim(projected, t, 0, keepdims=False)
        z = now + product(h, w_h, (1, 0), compute) + bias[None, :]
        z_i, z_f, z_g, z_o = jnp.split(z, 4, axis=1)
        i, f, g, o = _sigmoid(z_i), _sigmoid(z_f), jnp.tanh(z_g), _sigmoid(z_o)
        new = f * c + i * g
        squashed = jnp.tanh(new)
        origin = jnp.zeros((), t.dtype)
        seen = jax.lax.dynamic_update_slice(
            seen, h.T[:, None], (jnp.asarray(inputs, t.dtype), t, origin)
        )
        return (new, o * squashed, seen), (i, f, g, o, squashed, c)

    (_, last, seen), gates = jax.lax.scan(step, (zeros, zeros, seen), jnp.arange(steps))
    return last, (seen, *gates, w_x, w_h)


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
    return _run(x, w_x, w_h, bias, compute)[0]


def _backward(
    compute: str, kept: tuple[Array, ...], seed: Float[Array, "n h"]
) -> tuple[Array, Array, Array, Array]:
    seen, *gates, w_x, w_h = kept
    inputs, steps = w_x.shape[0], seen.shape[1]
    n, hidden = seed.shape

    def step(
        state: tuple[Array, ...], at: tuple[Array, tuple[Array, ...]]
    ) -> tuple[tuple[Array, ...], None]:
        dc, dh, dz_all = state
        t, (i, f, g, o, squashed, c) = at
        dc = dc + dh * o * (1 - squashed * squashed)
        to_i, to_f = dc * g * i * (1 - i), dc * c * f * (1 - f)
        to_g, to_o = dc * i * (1 - g * g), dh * squashed * o * (1 - o)
        dz = jnp.concatenate([to_i, to_f, to_g, to_o], axis=1)
        dz_all = jax.lax.dynamic_update_index_in_dim(dz_all, dz, t, 0)
        return (dc * f, product(dz, w_h, (1, 1), compute), dz_all), None

    blank = jnp.zeros((steps, n, 4 * hidden), seed.dtype)
    start = (jnp.zeros_like(seed), seed, blank)
    (_, _, dz), _ = jax.lax.scan(step, start, (jnp.arange(steps), tuple(gates)), reverse=True)
    dz = dz.reshape(-1, 4 * hidden)
    to_weights = product(seen.reshape(inputs + hidden, -1), dz, (1, 0), compute)
    # The compiler drops this if the gradient with respect to the images is not used.
    to_x = product(w_x, dz, (1, 1), compute).reshape(inputs, steps, n)
    return to_x, to_weights[:inputs], to_weights[inputs:], jnp.sum(dz, axis=0)


_last_state.defvjp(_run, _backward)
