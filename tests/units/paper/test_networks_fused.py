"""The fused convolution gives the numbers of the one made of products."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacthmc.paper.networks import cnn
from tacthmc.paper.networks import fused as module
from tacthmc.paper.networks.convolution import convolve
from tacthmc.paper.networks.fused import fused
from tacthmc.paper.networks.model import as_floats
from tacthmc.paper.networks.pooling import pool
from tests.units.paper.quick import quick

pytestmark = pytest.mark.usefixtures("quick_compilation")


def composed(kernel, bias, x, compute="float32"):
    return pool(convolve(kernel, as_floats(x, kernel), "phases", compute), bias)


def interpreted(kernel, bias, x, compute="float32"):
    return fused(kernel, bias, x, compute, interpret=True)


def drawn(shape, out=16, chains=(), images=False):
    keys = jax.random.split(jax.random.key(0), 4)
    kernel = jax.random.normal(keys[0], (*chains, 3, 3, shape[0], out))
    bias = jax.random.normal(keys[1], (*chains, out))
    x = jax.random.normal(keys[2], (*chains, *shape))
    if images:
        x = jax.random.randint(keys[2], x.shape, 0, 256).astype(jnp.uint8)
    m = shape[1] * shape[2] // 4 * shape[3]
    return kernel, bias, x, jax.random.normal(keys[3], (*chains, out, m))


def value_and_gradients(f, inputs, seed, wrt=(0, 1, 2)):
    def both(seed, *inputs):
        def value(*some):
            full = list(inputs)
            for at, one in zip(wrt, some, strict=True):
                full[at] = one
            return f(*full)

        out, pull = jax.vjp(value, *(inputs[at] for at in wrt))
        return out, pull(seed)

    both = jax.vmap(both) if inputs[1].ndim == 2 else both
    return quick(both)(seed, *inputs)


def same(actual, expected, tolerance=2e-5):
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert a.shape == e.shape
        assert a.dtype == e.dtype
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance * np.abs(e).max())


def test_values_and_gradients_are_those_of_products_and_pooling():
    *inputs, seed = drawn((3, 4, 6, 16))
    same(*(value_and_gradients(f, inputs, seed) for f in (interpreted, composed)))


def test_each_chain_has_its_own():
    *inputs, seed = drawn((16, 4, 4, 4), chains=(2,))
    same(*(value_and_gradients(f, inputs, seed) for f in (interpreted, composed)))


def test_other_numbers_of_channels():
    *inputs, seed = drawn((5, 2, 4, 5), 20)
    same(*(value_and_gradients(f, inputs, seed) for f in (interpreted, composed)))


def test_blocks_do_not_matter(monkeypatch):
    for name, value in {"ROWS": 16, "COLUMNS": 32, "STEP": 16, "SPAN": 32}.items():
        monkeypatch.setattr(module, name, value)
    *inputs, seed = drawn((16, 4, 8, 6))
    same(*(value_and_gradients(f, inputs, seed) for f in (interpreted, composed)))


def test_images_of_bytes_are_scaled_and_have_no_gradient():
    *inputs, seed = drawn((3, 4, 4, 4), images=True)
    same(*(value_and_gradients(f, inputs, seed, (0, 1)) for f in (interpreted, composed)))


def test_bytes_among_the_differentiated_inputs():
    kernel, bias, x, seed = drawn((3, 2, 4, 4), images=True)
    _, pull = jax.vjp(interpreted, kernel, bias, x)
    assert pull(seed)[2].dtype == jax.dtypes.float0


def test_bfloat16_rounds_the_same_factors():
    *inputs, seed = drawn((16, 4, 4, 4))
    functions = [lambda *a, f=f: f(*a, compute="bfloat16") for f in (interpreted, composed)]
    same(*(value_and_gradients(f, inputs, seed) for f in functions))


def test_ties_go_to_the_first_and_nan_stays():
    kernel, bias = jnp.ones((3, 3, 1, 1)), jnp.ones((1,))
    x = jnp.ones((1, 2, 2, 2)).at[0, 0, 0, 0].set(jnp.nan)
    inputs, seed = (kernel, bias, x), jnp.ones((1, 2))
    actual, expected = (value_and_gradients(f, inputs, seed) for f in (interpreted, composed))
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_array_equal(actual[1][2], expected[1][2])
    assert np.isnan(actual[0][0, 0])


@pytest.mark.parametrize("compute", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.uint8])
def test_triton_takes_the_kernels(compute, dtype):
    """Lowers for a GPU without having one; that Triton compiles it is not said."""

    def gradients(kernel, second, bias, x, seed):
        x = jnp.transpose(x, (3, 1, 2, 0))

        def layers(first, second, bias):
            out = fused(first, bias, x, compute).reshape(16, 16, 16, 64)
            return fused(second, bias, out, compute)

        return jax.vjp(layers, kernel, second, bias)[1](seed)

    shapes = [(3, 3, 3, 16), (3, 3, 16, 16), (16,), (64, 32, 32, 3), (16, 8 * 8 * 64)]
    kinds = [jnp.float32, jnp.float32, jnp.float32, dtype, jnp.float32]
    inputs = [jax.ShapeDtypeStruct((32, *a), kind) for a, kind in zip(shapes, kinds, strict=True)]
    lowered = jax.jit(jax.vmap(gradients)).trace(*inputs).lower(lowering_platforms=("cuda",))
    # Forward twice; gradients to two kernels and one input, and what XLA drops of float images.
    calls = re.findall(r"custom_call @\S*triton", lowered.as_text())
    assert len(calls) == (5 if dtype == jnp.uint8 else 6)


@pytest.mark.parametrize("compute", ["float32", "bfloat16"])
def test_triton_takes_the_kernel_of_many_draws(compute):
    def logits(kernels, biases, x):
        return jax.vmap(lambda k, b: fused(k, b, x, compute))(kernels, biases)

    shapes = ((32, 3, 3, 3, 16), jnp.float32), ((32, 16), jnp.float32), ((3, 32, 32, 500), "uint8")
    inputs = [jax.ShapeDtypeStruct(*shape) for shape in shapes]
    lowered = jax.jit(logits).trace(*inputs).lower(lowering_platforms=("cuda",))
    assert len(re.findall(r"custom_call @\S*triton", lowered.as_text())) == 1


@pytest.mark.parametrize("compute", ["float32", "bfloat16"])
def test_many_draws_on_the_same_images(compute):
    kernels, biases, _, _ = drawn((3, 4, 6, 5), 20, chains=(3,))
    x = drawn((3, 4, 6, 5), images=True)[2]

    def one(kernel, bias):
        return interpreted(kernel, bias, x, compute)

    assert "conv_pool_evaluation" in str(jax.make_jaxpr(jax.vmap(one))(kernels, biases))
    together, one = quick(jax.vmap(one))(kernels, biases), quick(one)
    same(together, jnp.stack([one(k, b) for k, b in zip(kernels, biases, strict=True)]))


@pytest.mark.parametrize("axes", [(0, None, None), (0, 0, 0), (None, None, 0)])
def test_other_ways_of_having_many(axes):
    kernel, bias, x, _ = drawn((3, 4, 4, 4), chains=(2,))
    inputs = [
        leaf if axis == 0 else leaf[0] for leaf, axis in zip((kernel, bias, x), axes, strict=True)
    ]
    same(*(quick(jax.vmap(f, in_axes=axes))(*inputs) for f in (interpreted, composed)))


def test_draws_within_draws():
    kernels, biases, _, _ = drawn((3, 2, 4, 4), chains=(2, 2))
    x = drawn((3, 2, 4, 4), images=True)[2]
    found, expected = (
        quick(jax.vmap(jax.vmap(lambda k, b, f=f: f(k, b, x))))(kernels, biases)
        for f in (interpreted, composed)
    )
    same(found, expected)


def test_a_gradient_over_draws_on_the_same_images():
    kernels, biases, _, seeds = drawn((3, 4, 4, 4), chains=(2,))
    x = drawn((3, 4, 4, 4), images=True)[2]

    def gradients(f):
        def one(k, b, seed):
            return jax.vjp(lambda k, b: f(k, b, x), k, b)[1](seed)

        return quick(jax.vmap(one))(kernels, biases, seeds)

    same(gradients(interpreted), gradients(composed))


def test_wrong_inputs():
    kernel, bias, x, _ = drawn((3, 4, 4, 4))
    with pytest.raises(ValueError, match="even"):
        fused(kernel, bias, x[:, :3], "float32", interpret=True)
    with pytest.raises(TypeError, match="uint8"):
        fused(kernel, bias, x.astype(jnp.float16), "float32", interpret=True)


def test_the_network_is_the_same():
    images = jax.random.randint(jax.random.key(1), (2, 32, 32, 3), 0, 256).astype(jnp.uint8)
    params = cnn().init(jax.random.key(0))
    actual, expected = (
        quick(jax.grad(lambda p, model=model: jnp.sum(model.logits(p, images) ** 2)))(params)
        for model in (cnn(convolution="fused"), cnn())
    )
    same(actual, expected, 1e-4)
