"""Several cores for one run, and what decides how they are used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from benchmarks.speed.problems import SHAPES
from tacthmc.compiler import _cpu_devices as cores
from tacthmc.paper import networks as models
from tacthmc.run._gradient_cost import HEAVY, GradientCost, gradient_cost, work
from tests.fresh import fresh

CHILD = """
import jax, jax.numpy as jnp, numpy as np, tacthmc
from tacthmc.compiler._cpu_devices import cores_in_use
tacthmc.configure_cpu()
print(cores_in_use(), len(jax.devices()))
data = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
target = tacthmc.posterior(
    lambda w: -0.5 * jnp.sum(w**2), lambda w, x: -0.5 * jnp.sum((x - w) ** 2), data, 8
)
run = tacthmc.sample(
    jax.random.key(0), tacthmc.tact(1e-3, keep_every=10), target, jnp.zeros(3), 100, 4
)
print(len(run.state.position.sharding.device_set))
print(*run.trace["energy"][:, :3].ravel())
"""


def child(**environment):
    counts, devices, energies = fresh(CHILD, **environment).splitlines()
    return counts, int(devices), np.array(energies.split(), float)


def test_chains_are_spread_and_stay_the_same():
    one, many = child(), child(TACTHMC_CORES="2")
    assert one[:2] == ("1 1", 1)
    assert many[:2] == ("2 2", 2)
    np.testing.assert_allclose(one[2], many[2], rtol=2e-4)


def test_the_environment_is_checked(monkeypatch):
    monkeypatch.setenv("TACTHMC_CORES", "many")
    with pytest.raises(ValueError, match="TACTHMC_CORES must be a whole number or 'all'"):
        cores.from_environment()


def test_too_late():
    jax.devices()
    with pytest.raises(RuntimeError, match="use_cpu_devices\\(9\\) comes too late"):
        tacthmc.use_cpu_devices(9)
    with pytest.raises(ValueError, match="count"):
        tacthmc.use_cpu_devices(-1)


@pytest.mark.parametrize(
    ("chains", "batch", "heavy", "wanted"),
    [
        (8, 64, True, {"chains": 4}),
        (6, 64, True, {"chains": 3}),
        (8, 128, True, {"batch": 4}),
        (6, 128, True, {"batch": 4}),
        (8, 130, True, {"chains": 4}),
        (8, 128, False, {"chains": 4}),
        (1, 64, True, {"batch": 4}),
        (5, 6, True, {"batch": 2}),
        (1, 64, False, None),
        (1, None, True, None),
        (1, 7, True, None),
    ],
)
def test_which_mesh(chains, batch, heavy, wanted):
    mesh = cores.mesh_of_cores(chains, batch, lambda ways: heavy, 4)
    assert (None if mesh is None else dict(mesh.shape)) == wanted
    assert cores.mesh_of_cores(chains, batch, lambda ways: heavy, 1) is None


@pytest.mark.parametrize(("chains", "wanted"), [(8, {"chains": 4}), (1, {"batch": 4})])
def test_a_recurrent_networks_mesh(chains, wanted):
    """Whole chains to a core where their number allows it."""
    recurrent = GradientCost(HEAVY, HEAVY)
    mesh = cores.mesh_of_cores(chains, 128, recurrent.spreads_batches, 4)
    assert mesh is not None
    assert dict(mesh.shape) == wanted


def test_products_are_counted():
    x, w = jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))

    def loop(x, w):
        return jax.lax.scan(lambda c, ab: (c + jnp.sum(ab[0] @ ab[1]), None), 0.0, (x, w))[0]

    assert cost_of(jax.make_jaxpr(loop)(x, w).jaxpr) == GradientCost(5 * 2 * 3 * 4, 120)
    assert cost_of(jax.make_jaxpr(jax.jit(loop))(x, w).jaxpr) == GradientCost(120, 120)
    image, kernel = jnp.ones((1, 2, 8, 8)), jnp.ones((3, 2, 3, 3))
    convolved = jax.make_jaxpr(lambda a, b: jax.lax.conv(a, b, (1, 1), "VALID"))(image, kernel)
    assert work(convolved.jaxpr) == GradientCost(36 * 3 * 2 * 9, 0)
    either = jax.make_jaxpr(lambda p, a, b: jax.lax.cond(p, lambda: a @ b, lambda: 2 * a @ b @ b))
    square = jnp.ones((3, 3))
    assert work(either(True, square, square).jaxpr) == GradientCost(54, 0)


def test_a_loop_of_heavy_turns_is_no_recurrence():
    """Layers of a deep network in a scan are large products, one after the other."""
    shape = jax.ShapeDtypeStruct((3, 500, 500), np.float32)
    layers = jax.make_jaxpr(
        lambda ws: jax.lax.scan(lambda x, w: (x @ w, None), jnp.ones((500, 500)), ws)[0]
    )(shape)
    assert HEAVY < 500**3
    assert work(layers.jaxpr) == GradientCost(3 * 500**3, 0)


def gradient(name, batch):
    model, (shape, _) = getattr(models, name)(), SHAPES[name]
    potential = tacthmc.posterior(
        models.gaussian_prior(scale=1.0),
        models.categorical(model),
        (np.zeros((batch, *shape), np.uint8), np.zeros(batch, np.int32)),
        batch,
        batched=True,
    )
    data = potential.init_data(jax.random.key(0))
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


@pytest.mark.parametrize("axis", ["chains", "batch"])
def test_a_likelihood_with_arrays_on_a_mesh(axis):
    """Arrays that a likelihood holds reach every device."""
    data = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    weights = jax.tree_util.Partial(
        lambda scale, w, x: -0.5 * jnp.sum(((x - w) / scale) ** 2), jnp.array([1.0, 2.0, 3.0])
    )
    target = tacthmc.posterior(lambda w: -0.5 * jnp.sum(w**2), weights, data, 8)

    def energies(mesh):
        run = tacthmc.sample(
            jax.random.key(0),
            tacthmc.tact(1e-3, keep_every=10),
            target,
            jnp.zeros(3),
            50,
            2,
            mesh=mesh,
        )
        return run.trace["energy"]

    mesh = jax.make_mesh((2,), (axis,), devices=jax.devices()[:2])
    np.testing.assert_allclose(energies(mesh), energies(None), rtol=2e-4)


@pytest.mark.parametrize("batches", ["epochs", "replacement"])
def test_many_parameters_by_any_order_of_batches(batches):
    """What decides whether chains take turns looks at one chain of every kind of memory."""
    data = np.zeros((16, 1), np.float32)
    target = tacthmc.posterior(
        lambda w: -0.5 * jnp.sum(w**2), lambda w, x: -0.5 * jnp.sum(x**2), data, 4, batches=batches
    )
    run = tacthmc.sample(
        jax.random.key(0), tacthmc.sgnht(1e-3, keep_every=5), target, jnp.zeros(8192), 10, 2
    )
    assert not run.failures


def test_a_part_of_a_model_with_functions_in_it_on_a_mesh():
    data = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    target = tacthmc.posterior(
        lambda m: -0.5 * jnp.sum(m["w"] ** 2),
        lambda m, x: -0.5 * jnp.sum(m["f"](x - m["w"]) ** 2),
        data,
        8,
    )
    model = {"w": jnp.zeros(3), "f": jnp.tanh}

    def energies(mesh):
        run = tacthmc.sample(
            jax.random.key(0),
            tacthmc.sgnht(1e-3, keep_every=5),
            target,
            model,
            20,
            sampled={"w": True, "f": False},
            mesh=mesh,
        )
        return run.trace["energy"]

    mesh = jax.make_mesh((2,), ("batch",), devices=jax.devices()[:2])
    np.testing.assert_allclose(energies(mesh), energies(None), rtol=2e-4)
