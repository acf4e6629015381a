"""What decides whether chains on a core run side by side or take turns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.compiler._mesh import over_chains
from tacthmc.paper import networks
from tacthmc.run import _gradient_cost as cost
from tacthmc.run import _program as program
from tacthmc.run._gradient_cost import MIN_HEAVY_PRODUCTS, GradientCost, cost_of, gradient_cost

pytestmark = pytest.mark.usefixtures("quick_compilation")

SHAPES = {"mlp": (28, 28), "cnn": (32, 32, 3), "lstm": (28, 28)}


def test_products_are_counted():
    x, w = jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))

    def loop(x, w):
        return jax.lax.scan(lambda c, ab: (c + jnp.sum(ab[0] @ ab[1]), None), 0.0, (x, w))[0]

    assert cost_of(jax.make_jaxpr(loop)(x, w).jaxpr) == GradientCost(5 * 2 * 3 * 4, 120)
    assert cost_of(jax.make_jaxpr(jax.jit(loop))(x, w).jaxpr) == GradientCost(120, 120)
    image, kernel = jnp.ones((1, 2, 8, 8)), jnp.ones((3, 2, 3, 3))
    convolved = jax.make_jaxpr(lambda a, b: jax.lax.conv(a, b, (1, 1), "VALID"))(image, kernel)
    assert cost_of(convolved.jaxpr) == GradientCost(36 * 3 * 2 * 9, 0)
    either = jax.make_jaxpr(lambda p, a, b: jax.lax.cond(p, lambda: a @ b, lambda: 2 * a @ b @ b))
    square = jnp.ones((3, 3))
    assert cost_of(either(True, square, square).jaxpr) == GradientCost(54, 0)


def test_a_loop_of_heavy_turns_is_no_recurrence():
    """Layers of a deep network in a scan are large products, one after the other."""
    shape = jax.ShapeDtypeStruct((3, 500, 500), np.float32)
    layers = jax.make_jaxpr(
        lambda ws: jax.lax.scan(lambda x, w: (x @ w, None), jnp.ones((500, 500)), ws)[0]
    )(shape)
    assert MIN_HEAVY_PRODUCTS < 500**3
    assert cost_of(layers.jaxpr) == GradientCost(3 * 500**3, 0)


def gradient(name, batch):
    model = getattr(networks, name)()
    potential = tacthmc.posterior(
        networks.gaussian_prior(scale=1.0),
        networks.categorical(model),
        (np.zeros((batch, *SHAPES[name]), np.uint8), np.zeros(batch, np.int32)),
        batch,
        batched=True,
    )
    data = potential.batches.init(jax.random.key(0))
    return gradient_cost(potential, data, model.init(jax.random.key(0)), None)


def test_a_networks_gradient_is_counted():
    # Forward, and backward to weights and inputs: the images', too, as nothing has dropped it yet.
    assert gradient("mlp", 16) == GradientCost(16 * 3 * (784 * 100 + 100 * 47), 0)


@pytest.mark.parametrize(
    ("name", "in_turn_on_one_device", "in_turn_on_a_mesh", "one_chain", "many"),
    [
        ("mlp", False, False, False, False),
        ("cnn", True, True, True, True),
        ("lstm", False, True, True, False),
    ],
)
def test_how_cores_take_a_network(name, in_turn_on_one_device, in_turn_on_a_mesh, one_chain, many):
    counted = gradient(name, 64)
    assert counted.in_turn(cores_share_products=True) == in_turn_on_one_device
    assert counted.in_turn(cores_share_products=False) == in_turn_on_a_mesh
    assert (counted.spreads_batches(1), counted.spreads_batches(2)) == (one_chain, many)


@pytest.mark.parametrize(
    ("make", "batches", "axis"),
    [
        (tacthmc.tact, "replacement", None),
        (tacthmc.sgnht, "epochs", "chains"),
        (tacthmc.sgnht, "replacement", "batch"),
        pytest.param(tacthmc.tact, "epochs", None, marks=pytest.mark.slow),
        pytest.param(tacthmc.tact, "epochs", "chains", marks=pytest.mark.slow),
        pytest.param(tacthmc.tact, "replacement", "chains", marks=pytest.mark.slow),
        pytest.param(tacthmc.tact, "epochs", "batch", marks=pytest.mark.slow),
        pytest.param(tacthmc.tact, "replacement", "batch", marks=pytest.mark.slow),
    ],
)
def test_chains_that_take_turns_are_those_side_by_side(monkeypatch, make, batches, axis):
    """On a CPU chains of large models take turns."""
    model = networks.mlp(inputs=6, hidden=5, classes=3)
    rng = np.random.default_rng(0)
    data = (rng.normal(size=(40, 6)).astype(np.float32), rng.integers(0, 3, 40, dtype=np.int32))
    potential = tacthmc.posterior(
        networks.gaussian_prior(scale=1.0),
        networks.categorical(model),
        data,
        10,
        batches=batches,
        batched=True,
    )
    init = model.init(jax.random.key(1))
    mesh = None if axis is None else jax.make_mesh((2,), (axis,), devices=jax.devices()[:2])
    took_turns = []

    def noted(*args, in_turn, **kwargs):
        took_turns.append(in_turn)
        return over_chains(*args, in_turn=in_turn, **kwargs)

    monkeypatch.setattr(program, "over_chains", noted)

    def trace():
        jax.clear_caches()
        key, keep = jax.random.key(0), tacthmc.Keep(every=5)
        return tacthmc.sample(key, make(1e-3), potential, init, 20, 4, keep=keep, mesh=mesh).trace

    together = trace()
    monkeypatch.setattr(program, "MIN_LARGE_PARAMETERS", 1)
    monkeypatch.setattr(cost, "MIN_HEAVY_PRODUCTS", 1)
    in_turn = trace()
    assert not any(took_turns[: len(took_turns) // 2])
    assert all(took_turns[len(took_turns) // 2 :])
    for name in together:
        assert np.allclose(together[name], in_turn[name], rtol=1e-3, atol=1e-5), name
    assert not np.allclose(in_turn["energy"][0], in_turn["energy"][1])


@pytest.mark.parametrize("batches", ["epochs", "replacement"])
def test_many_parameters_by_any_order_of_batches(batches):
    """The decision looks at one chain, whatever its batches remember."""
    data = np.zeros((16, 1), np.float32)
    target = tacthmc.posterior(
        lambda w: -0.5 * jnp.sum(w**2), lambda w, x: -0.5 * jnp.sum(x**2), data, 4, batches=batches
    )
    key, keep, start = jax.random.key(0), tacthmc.Keep(every=5), jnp.zeros(8192)
    run = tacthmc.sample(key, tacthmc.sgnht(1e-3), target, start, 10, 2, keep=keep)
    assert not run.failures
