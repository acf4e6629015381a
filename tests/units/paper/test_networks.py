"""The networks against textbook versions of themselves, forward and backward."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.paper.networks import categorical, cnn, gaussian_prior, lstm, mlp
from tacthmc.paper.networks.convolution import convolve
from tacthmc.paper.networks.pooling import pool
from tacthmc.paper.networks.products import product
from tests.units.paper.quick import quick

pytestmark = pytest.mark.usefixtures("quick_compilation")

BATCH, CHAINS = 3, 2


def times(a, b):
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def layer(params, name, x):
    return times(x, params[f"{name}.weight"].T) + params[f"{name}.bias"][None, :]


def head(params, x):
    return layer(params, "out", jax.nn.relu(layer(params, "hidden", x)))


def textbook_mlp(params, images):
    return head(params, images.reshape(images.shape[0], -1))


def textbook_cnn(params, x):
    for name in ("conv1", "conv2"):
        x = jax.lax.conv_general_dilated(
            x,
            params[f"{name}.kernel"],
            (1, 1),
            [(1, 1), (1, 1)],
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            precision=jax.lax.Precision.HIGHEST,
        )
        x = jax.nn.relu(x + params[f"{name}.bias"][None, None, None, :])
        low = np.asarray(-np.inf, x.dtype)
        x = jax.lax.reduce_window(x, low, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jnp.transpose(x, (0, 3, 1, 2))
    return head(params, x.reshape(x.shape[0], -1))


def textbook_lstm(params, images):
    h = c = jnp.zeros((images.shape[0], 128), images.dtype)
    for t in range(28):
        z = times(images[:, t], params["lstm.input"]) + times(h, params["lstm.recurrent"])
        z = z + params["lstm.bias"][None, :]
        i, f, o = (jax.nn.sigmoid(z[:, k * 128 : (k + 1) * 128]) for k in (0, 1, 3))
        c = f * c + i * jnp.tanh(z[:, 256:384])
        h = o * jnp.tanh(c)
    return head(params, jax.nn.relu(h))


NETWORKS = {
    "mlp": (mlp(), textbook_mlp, (784,), 47),
    "cnn": (cnn(), textbook_cnn, (32, 32, 3), 10),
    "lstm": (lstm(), textbook_lstm, (28, 28), 10),
}
NAMES = pytest.mark.parametrize("name", NETWORKS)


def case(name, dtype=np.float32):
    """Parameters and batches of several chains."""
    model, textbook, shape, classes = NETWORKS[name]
    params = quick(jax.vmap(model.init))(jax.random.split(jax.random.key(1), CHAINS))
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), params)
    generator = np.random.default_rng(2)
    images = generator.integers(0, 256, (CHAINS, BATCH, *shape), np.uint8)
    labels = generator.integers(0, classes, (CHAINS, BATCH)).astype(np.int32)
    return model, textbook, params, jnp.asarray(images), jnp.asarray(labels)


def loss(logits, params, images, labels):
    """Textbook cross-entropy, summed."""
    scores = logits(params, images)
    picked = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return jnp.sum(jax.nn.logsumexp(scores, axis=1) - picked)


def assert_close(got, expected, tolerance):
    """Close for each leaf's own size: gradients' leaves differ by orders."""
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())


def compare(name, dtype, tolerance):
    model, textbook, params, images, labels = case(name, dtype)
    likelihood = categorical(model)

    def ours(params, images, labels):
        return -jnp.sum(likelihood(params, (images, labels)))

    def theirs(params, images, labels):
        return loss(textbook, params, images.astype(dtype) / np.asarray(255, dtype), labels)

    got = quick(jax.vmap(jax.value_and_grad(ours)))(params, images, labels)
    expected = quick(jax.vmap(jax.value_and_grad(theirs)))(params, images, labels)
    assert_close(got, expected, tolerance)
    if dtype == np.float64:
        return
    first = jax.tree.map(lambda leaf: leaf[0], (params, images, labels))
    alone = quick(jax.value_and_grad(ours))(*first)
    assert_close(alone, jax.tree.map(lambda leaf: leaf[0], expected), tolerance)


@NAMES
def test_is_the_textbook(name):
    compare(name, np.float32, 2e-5)


@NAMES
def test_is_the_textbook_in_double_precision(name, x64):
    compare(name, np.float64, 1e-12)


@NAMES
def test_images_as_bytes_floats_and_flat(name):
    model, _, params, images, _ = case(name)
    params, images = jax.tree.map(lambda leaf: leaf[0], (params, images))
    floats, flat = images.astype(jnp.float32) / np.float32(255), images.reshape(BATCH, -1)
    expected, *others = quick(lambda p, *forms: [model.logits(p, x) for x in forms])(
        params, images, floats, flat
    )
    assert expected.shape == (BATCH, model.classes)
    assert expected.dtype == jnp.float32
    for other in others:
        np.testing.assert_allclose(other, expected, rtol=1e-5, atol=1e-6)


def test_parameters():
    assert [model.num_parameters for model, *_ in NETWORKS.values()] == [83_247, 106_278, 89_290]
    assert mlp(10, 4, 3).num_parameters == 10 * 4 + 4 + 4 * 3 + 3
    for model, *_ in NETWORKS.values():
        params = quick(model.init)(jax.random.key(0))
        for name, leaf in model.leaves.items():
            bound = 1 / np.sqrt(leaf.fan_in)
            assert params[name].dtype == jnp.float32
            most = float(jnp.max(jnp.abs(params[name])))
            assert 0.5 * bound < most <= bound * (1 + 1e-6), name


@pytest.mark.parametrize("method", ["patches", "native", "winograd"])
def test_convolutions_agree(method):
    kernel = jax.random.normal(jax.random.key(0), (3, 3, 2, 5))
    x = jax.random.normal(jax.random.key(1), (2, 6, 4, BATCH))
    seed = jax.random.normal(jax.random.key(2), (4, 5, 6 * BATCH))

    @partial(quick, static_argnums=0)
    def both(way):
        values, vjp = jax.vjp(lambda k, x: convolve(k, x, way, "float32"), kernel, x)
        return values, vjp(seed)

    assert_close(both(method), both("phases"), 1e-5)


def test_winograds_products_are_as_exact_as_others():
    # Against float64, at the size of the network's second layer, whose numbers are written out.
    keys = jax.random.split(jax.random.key(0), 3)
    kernel = jax.random.normal(keys[0], (3, 3, 16, 16))
    x = jax.random.normal(keys[1], (16, 16, 16, BATCH))
    seed = jax.random.normal(keys[2], (4, 16, 64 * BATCH))

    @partial(quick, static_argnums=0)
    def both(way, kernel, x, seed):
        values, vjp = jax.vjp(lambda k, x: convolve(k, x, way, "float32"), kernel, x)
        return values, vjp(seed)

    with jax.enable_x64():
        wide = [jnp.asarray(np.asarray(leaf), jnp.float64) for leaf in (kernel, x, seed)]
        exact = jax.tree.map(np.asarray, both("native", *wide))

    def error(way):
        found = both(way, kernel, x, seed)
        return [
            float(np.abs(np.asarray(f) - e).max() / np.abs(e).max())
            for f, e in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True)
        ]

    assert max(error("phases")) < 1e-6
    assert max(error("winograd")) < 2e-6


def test_what_a_cpu_computes_convolutions_with():
    model = cnn()
    assert [model._fastest(channels) for channels in (3, 16)] == ["phases", "winograd"]
    assert cnn(compute="bfloat16")._fastest(16) == "phases"


def test_both_forms_of_the_recurrence_give_the_same_numbers():
    _, _, params, images, labels = case("lstm")
    params, images, labels = jax.tree.map(lambda leaf: leaf[0], (params, images, labels))
    gradients = [
        quick(jax.grad(partial(loss, model.logits)))(params, images, labels)
        for model in (lstm(recurrence="scan"), lstm(recurrence="unrolled"))
    ]
    assert_close(*gradients, 2e-5)


def test_pooling_gives_each_window_one_gradient():
    # Flat regions of images make ties, of which exactly one place may get the gradient.
    z = jnp.asarray(np.random.default_rng(0).integers(-1, 2, (4, 3, 50)), jnp.float32)
    bias = jnp.array([-0.5, 0.0, 0.5])
    seed = jax.random.normal(jax.random.key(0), (3, 50))
    values, vjp = jax.vjp(pool, z, bias)
    np.testing.assert_array_equal(values, jax.nn.relu(jnp.max(z, axis=0) + bias[:, None]))
    to_z, to_bias = vjp(seed)
    shut = jnp.where(values > 0, seed, 0)
    np.testing.assert_array_equal(jnp.sum(to_z, axis=0), shut)
    assert int(jnp.max(jnp.sum(to_z != 0, axis=0))) == 1
    assert bool(jnp.all((to_z == 0) | (z == jnp.max(z, axis=0)[None])))
    np.testing.assert_allclose(to_bias, jnp.sum(shut, axis=1), rtol=1e-5)


@pytest.mark.parametrize("over", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_products_and_their_gradients(over):
    left = jax.random.normal(jax.random.key(0), (5, 7) if over[0] else (7, 5))
    right = jax.random.normal(jax.random.key(1), (3, 7) if over[1] else (7, 3))
    seed = jax.random.normal(jax.random.key(2), (5, 3))

    def run(compute):
        values, vjp = jax.vjp(lambda a, b: product(a, b, over, compute), left, right)
        return values, vjp(seed)

    a, b = left if over[0] else left.T, right.T if over[1] else right
    to_a, to_b = times(seed, b.T), times(a.T, seed)
    expected = times(a, b), (to_a if over[0] else to_a.T, to_b.T if over[1] else to_b)
    assert_close(run("float32"), expected, 1e-5)
    assert_close(run("tf32"), expected, 3e-3)
    rough = run("bfloat16")
    assert_close(rough, expected, 3e-2)
    # Sums are kept in float32, also those of gradients.
    for leaf in jax.tree.leaves(rough):
        assert leaf.dtype == jnp.float32
        assert np.any(leaf != leaf.astype(jnp.bfloat16).astype(jnp.float32))


@pytest.mark.parametrize("compute", ["tf32", "bfloat16"])
def test_rough_products_in_a_network(compute):
    model, _, params, images, labels = case("lstm")
    params, images, labels = jax.tree.map(lambda leaf: leaf[0], (params, images, labels))
    exact = quick(jax.grad(partial(loss, model.logits)))(params, images, labels)
    rough = quick(jax.grad(partial(loss, lstm(compute=compute).logits)))(params, images, labels)
    for name, leaf in rough.items():
        assert leaf.dtype == jnp.float32
        error = jnp.linalg.norm(leaf - exact[name]) / jnp.linalg.norm(exact[name])
        assert float(error) < 0.05, name


def test_posterior_of_a_network():
    model = mlp(inputs=6, hidden=4, classes=3)
    images = jax.random.uniform(jax.random.key(0), (20, 6))
    labels = jnp.arange(20) % 3
    potential = tacthmc.posterior(
        gaussian_prior(scale=2.0), categorical(model), (images, labels), 5, batched=True
    )
    params = model.init(jax.random.key(1))
    squares = sum(float(jnp.sum(leaf**2)) for leaf in params.values())
    expected = squares / 8 + float(loss(model.logits, params, images, labels))
    np.testing.assert_allclose(float(potential.energy(params)), expected, rtol=1e-5)
    assert gaussian_prior(precision=0.25)(params) == gaussian_prior(scale=2)(params)


def test_a_label_that_is_no_class_is_no_certainty():
    model = mlp(inputs=2, hidden=2, classes=3)
    images, params = jnp.ones((4, 2)), model.init(jax.random.key(0))
    for bad in (3, -1):
        labels = jnp.array([0, 1, 2, bad])
        with pytest.raises(ValueError, match="labels must be 0 to 2, the classes of the model"):
            tacthmc.posterior(
                gaussian_prior(scale=1.0), categorical(model), (images, labels), 2, batched=True
            )
        values = categorical(model)(params, (images, labels))
        assert jnp.isfinite(values).tolist() == [True, True, True, False]


def test_wrong_arguments_are_named():
    model = cnn()
    params = {name: jnp.zeros(leaf.shape) for name, leaf in model.leaves.items()}
    with pytest.raises(ValueError, match=r"images of cnn .*\(n, 32, 32, 3\).*\(2, 3, 32, 32\)"):
        model.logits(params, jnp.zeros((2, 3, 32, 32)))
    with pytest.raises(TypeError, match="images must be uint8"):
        model.logits(params, jnp.zeros((2, 3072), jnp.int32))
    with pytest.raises(ValueError, match=r"images of mlp .*\(n, 784\).*\(2, 64\)"):
        mlp().logits(
            {name: jnp.zeros(leaf.shape) for name, leaf in mlp().leaves.items()},
            jnp.zeros((2, 8, 8)),
        )
    with pytest.raises(ValueError, match="params of cnn must have the names"):
        model.logits({"w": jnp.zeros(1)}, jnp.zeros((2, 3072)))
    wrong = {**params, "out.bias": jnp.zeros(11)}
    with pytest.raises(ValueError, match=r"params\['out.bias'\] of cnn .*\(10,\).*\(11,\)"):
        model.logits(wrong, jnp.zeros((2, 3072)))
    likelihood = categorical(mlp(2, 2, 2))
    params = mlp(2, 2, 2).init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"labels must have shape \(3,\).*\(3, 1\)"):
        likelihood(params, (jnp.zeros((3, 2)), jnp.zeros((3, 1), jnp.int32)))
    with pytest.raises(TypeError, match="labels must be integers; got dtype float32"):
        likelihood(params, (jnp.zeros((3, 2)), jnp.zeros(3)))
    with pytest.raises(ValueError, match="either scale or precision"):
        gaussian_prior()
    with pytest.raises(ValueError, match="scale must be"):
        gaussian_prior(scale=-1.0)
    with pytest.raises(ValueError, match='needs convolution="phases"'):
        cnn(compute="bfloat16", convolution="native")
    with pytest.raises(ValueError, match='needs convolution="phases"'):
        cnn(compute="bfloat16", convolution="winograd")
    with pytest.raises(TypeError, match="hidden must be a whole number"):
        mlp(hidden=True)
