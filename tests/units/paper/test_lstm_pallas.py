"""The LSTM of one kernel gives the numbers of the one written out."""

import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacthmc.paper.networks import lstm, lstm_unrolled
from tacthmc.paper.networks.lstm_pallas import EXAMPLES, last_state
from tests.units.paper.quick import quick

pytestmark = pytest.mark.usefixtures("quick_compilation")

TOLERANCE = 2e-3
"""A sum in another order may round a factor to bfloat16's other neighbor, 2⁻⁸ away."""


def drawn(steps=5, examples=3, inputs=6, hidden=16, seed=0):
    keys = jax.random.split(jax.random.key(seed), 5)
    shapes = (inputs, steps, examples), (inputs, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,)
    values = [jax.random.normal(k, shape) for k, shape in zip(keys, shapes, strict=False)]
    scale = (1, 0.5, 0.5, 0.5)
    return [a * s for a, s in zip(values, scale, strict=True)], jax.random.normal(
        keys[4], (examples, hidden)
    )


@cache
def compiled(function, chains):
    def both(inputs, seed):
        value, pull = jax.vjp(function, *inputs)
        return value, pull(seed)

    return quick(jax.vmap(both) if chains else both)


def value_and_gradients(function, inputs, seed):
    return compiled(function, seed.ndim == 3)(inputs, seed)


def interpreted(*inputs):
    return last_state(*inputs, interpret=True)


def written(*inputs):
    return lstm_unrolled.last_state(*inputs, "bfloat16")


def same(actual, expected):
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE * np.abs(other).max())


FAST = {(1, 1), (2, EXAMPLES), (5, EXAMPLES + 3)}
SIZES = [
    pytest.param(steps, examples, marks=[] if (steps, examples) in FAST else [pytest.mark.slow])
    for steps in (1, 2, 5)
    for examples in (1, EXAMPLES, EXAMPLES + 3)
]


@pytest.mark.parametrize(("steps", "examples"), SIZES)
def test_is_the_recurrence_written_out(steps, examples):
    inputs, seed = drawn(steps, examples)
    found, expected = (value_and_gradients(f, inputs, seed) for f in (interpreted, written))
    same(found, expected)
    # Without a gradient nothing is kept on the way, and the value is the same to the last bit.
    np.testing.assert_array_equal(quick(interpreted)(*inputs), found[0])


@pytest.mark.parametrize("inputs", [15, 16, pytest.param(28, marks=pytest.mark.slow)])
def test_any_number_of_inputs(inputs):
    """There is always room for the bias beside them."""
    inputs, seed = drawn(inputs=inputs, hidden=32)
    same(*(value_and_gradients(f, inputs, seed) for f in (interpreted, written)))


def test_many_chains():
    pairs = [drawn(seed=seed) for seed in range(3)]
    inputs, seeds = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs)
    together = value_and_gradients(interpreted, inputs, seeds)
    for k, (one, seed) in enumerate(pairs):
        alone = value_and_gradients(interpreted, one, seed)
        same(jax.tree.map(lambda leaf, k=k: leaf[k], together), alone)


def test_shut_and_open_gates():
    """Sums too large for the exponential function, and NaN, which stays."""
    (x, w_x, w_h, bias), _ = drawn(steps=2, examples=3)
    bias = bias.at[:16].set(-1e4).at[48:].set(1e4)
    shut = interpreted(x, w_x, w_h, bias)
    np.testing.assert_allclose(shut, 0)
    x = x.at[0, 0, 1].set(jnp.nan)
    last = interpreted(x, w_x, w_h, bias)
    np.testing.assert_array_equal(np.isnan(last).all(1), [False, True, False])


def test_triton_takes_the_kernels():
    """Lowers for a GPU without having one; that Triton compiles it is not said."""
    shapes = (28, 28, 64), (28, 512), (128, 512), (512,), (64, 128)
    inputs = [jax.ShapeDtypeStruct((8, *shape), jnp.float32) for shape in shapes]

    def gradients(*inputs):
        return jax.vjp(lambda *w: last_state(inputs[0], *w), *inputs[1:4])[1](inputs[4])

    def calls(function, inputs):
        lowered = jax.jit(jax.vmap(function)).trace(*inputs).lower(lowering_platforms=("cuda",))
        return len(re.findall(r"custom_call @\S*triton", lowered.as_text()))

    assert calls(gradients, inputs) == 2
    assert calls(last_state, inputs[:4]) == 1


def test_wrong_inputs():
    inputs, _ = drawn(hidden=24)
    with pytest.raises(ValueError, match=r"power of two.*24"):
        interpreted(*inputs)
    inputs, _ = drawn()
    with pytest.raises(TypeError, match="float16"):
        interpreted(*(leaf.astype(jnp.float16) for leaf in inputs))
    with pytest.raises(ValueError, match=r"pallas.*bfloat16.*tf32"):
        lstm(compute="tf32", recurrence="pallas")


def test_the_network_is_the_same():
    images = jax.random.randint(jax.random.key(1), (2, 28, 28), 0, 256).astype(jnp.uint8)
    params = lstm().init(jax.random.key(0))
    actual, expected = (
        quick(jax.grad(lambda p, model=model: jnp.sum(model.logits(p, images) ** 2)))(params)
        for model in (
            lstm(compute="bfloat16", recurrence="pallas"),
            lstm(compute="bfloat16", recurrence="unrolled"),
        )
    )
    same(actual, expected)
