"""Several cores for one run: who asks for them, and which mesh they become."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.compiler import _cpu_devices as cpu_devices
from tacthmc.potentials import subset
from tacthmc.run._gradient_cost import MIN_HEAVY_PRODUCTS, GradientCost
from tests.fresh_process import fresh_process

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEEP = tacthmc.Keep(every=10, after=0)
DATA = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)


def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def four_chains():
    """A run that names no mesh."""
    target = tacthmc.posterior(log_prior, lambda w, x: -0.5 * jnp.sum((x - w) ** 2), DATA, 8)
    sampler = tacthmc.tact(1e-3)
    return tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(3), 100, 4, keep=KEEP)


CHILD = """
import jax, tacthmc
tacthmc.configure_cpu()
from tacthmc.compiler._cpu_devices import cores_in_use
from tests.units.compiler import test_cpu_devices as here
print(cores_in_use(), len(jax.devices()))
run = here.four_chains()
print(len(run.state.position.sharding.device_set))
print(*run.trace["energy"][:, :3].ravel())
"""


def test_chains_are_spread_and_stay_the_same():
    alone = four_chains()
    assert cpu_devices.cores_in_use() == 1
    assert len(alone.state.position.sharding.device_set) == 1
    counts, devices, energies = fresh_process(CHILD, TACTHMC_CORES="2").splitlines()
    assert (counts, devices) == ("2 2", "2")
    expected = alone.trace["energy"][:, :3].ravel()
    np.testing.assert_allclose(np.array(energies.split(), float), expected, rtol=2e-4)


def test_the_environment_is_checked(monkeypatch):
    monkeypatch.setenv("TACTHMC_CORES", "many")
    with pytest.raises(ValueError, match="TACTHMC_CORES must be a whole number or 'all'"):
        cpu_devices.from_environment()


def test_too_late():
    jax.devices()
    with pytest.raises(RuntimeError, match="use_cpu_devices\\(9\\) comes too late"):
        tacthmc.use_cpu_devices(9)
    with pytest.raises(ValueError, match="count"):
        tacthmc.use_cpu_devices(-1)


@pytest.mark.parametrize(
    ("chains", "batch", "heavy", "expected"),
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
def test_which_mesh(chains, batch, heavy, expected):
    mesh = cpu_devices.mesh_of_cores(chains, batch, lambda ways: heavy, 4)
    assert (None if mesh is None else dict(mesh.shape)) == expected
    assert cpu_devices.mesh_of_cores(chains, batch, lambda ways: heavy, 1) is None


@pytest.mark.parametrize(("chains", "expected"), [(8, {"chains": 4}), (1, {"batch": 4})])
def test_a_recurrent_networks_mesh(chains, expected):
    """Whole chains to a core where their number allows it."""
    recurrent = GradientCost(MIN_HEAVY_PRODUCTS, MIN_HEAVY_PRODUCTS)
    mesh = cpu_devices.mesh_of_cores(chains, 128, recurrent.spreads_batches, 4)
    assert mesh is not None
    assert dict(mesh.shape) == expected


@pytest.mark.parametrize("axis", ["chains", "batch"])
def test_arrays_of_a_likelihood_reach_every_device(axis):
    weights = jax.tree_util.Partial(
        lambda scale, w, x: -0.5 * jnp.sum(((x - w) / scale) ** 2), jnp.array([1.0, 2.0, 3.0])
    )
    target, sampler = tacthmc.posterior(log_prior, weights, DATA, 8), tacthmc.sgnht(1e-3)

    def energies(mesh):
        key, start = jax.random.key(0), jnp.zeros(3)
        run = tacthmc.sample(key, sampler, target, start, 50, 2, keep=KEEP, mesh=mesh)
        return run.trace["energy"]

    mesh = jax.make_mesh((2,), (axis,), devices=jax.devices()[:2])
    np.testing.assert_allclose(energies(mesh), energies(None), rtol=2e-4)


def test_a_model_with_functions_in_it_on_a_mesh():
    whole = tacthmc.posterior(
        lambda m: log_prior(m["w"]), lambda m, x: -0.5 * jnp.sum(m["f"](x - m["w"]) ** 2), DATA, 8
    )
    model = {"w": jnp.zeros(3), "f": jnp.tanh}
    target, start = subset(whole, model, {"w": True, "f": False})

    def energies(mesh):
        key, sampler = jax.random.key(0), tacthmc.sgnht(1e-3)
        run = tacthmc.sample(key, sampler, target, start, 20, keep=KEEP, mesh=mesh)
        return run.trace["energy"]

    mesh = jax.make_mesh((2,), ("batch",), devices=jax.devices()[:2])
    np.testing.assert_allclose(energies(mesh), energies(None), rtol=2e-4)
