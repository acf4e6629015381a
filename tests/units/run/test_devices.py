"""Chains and batches over eight devices, and over two processes."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.compiler._mesh import _in_vectors
from tacthmc.potentials import CovarianceTerm, HostBatches, forces
from tests.table import same
from tests.xla_flags import quick_kernels

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(2)
DATA = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
SAMPLER = tacthmc.tact(1e-3)
PLAIN = tacthmc.sgnht(1e-3)
KEEP = tacthmc.Keep(every=10, after=0)
IN_TWO_PROCESSES = {"chains": (200, SAMPLER), "batch": (400, PLAIN)}
"""By what is spread over processes: how long a run is at first, and of which sampler."""


def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def log_likelihood(w, x):
    return -0.5 * jnp.sum((x - w) ** 2)


def resident(batches="epochs"):
    return tacthmc.posterior(log_prior, log_likelihood, DATA, 8, batches=batches)


def loaded():
    return tacthmc.streamed(log_prior, log_likelihood, HostBatches(DATA, 8, KEY), 50)


def run(num_steps=200, chains=4, potential=None, sampler=SAMPLER, **options):
    potential = resident() if potential is None else potential
    return tacthmc.sample(
        KEY, sampler, potential, jnp.zeros(2), num_steps, chains, keep=KEEP, **options
    )


def alike(one, other, rows=5):
    """The same keys and batches; floats agree to rounding over a short run."""
    assert set(one.trace) == set(other.trace)
    for name in set(one.trace) & {"energy", "xi", "kinetic_temperature", "step"}:
        same(one.trace[name][:, :rows], other.trace[name][:, :rows], 2e-4)


@pytest.fixture(scope="module")
def plain():
    """One device, by batches in epochs."""
    return run(sampler=PLAIN)


@pytest.fixture(scope="module")
def plain_replaced():
    """One device, by batches with replacement."""
    return run(sampler=PLAIN, potential=resident("replacement"))


@pytest.mark.parametrize(
    ("sampler", "shape", "axes"),
    [
        (SAMPLER, (4, 2), ("chains", "batch")),
        (PLAIN, (2,), ("chains",)),
        (PLAIN, (8,), ("batch",)),
        pytest.param(PLAIN, (4, 2), ("chains", "batch"), marks=pytest.mark.slow),
        pytest.param(SAMPLER, (2,), ("chains",), marks=pytest.mark.slow),
        pytest.param(SAMPLER, (8,), ("batch",), marks=pytest.mark.slow),
    ],
)
def test_eight_devices(sampler, shape, axes):
    assert jax.device_count() == 8
    devices = jax.devices()[: int(np.prod(shape))]
    mesh = jax.make_mesh(shape, axes, devices=devices)
    spread = run(mesh=mesh, sampler=sampler)
    alike(spread, run(sampler=sampler))
    assert spread.state.position.sharding.device_set == set(devices)
    chains = dict(zip(axes, shape, strict=True)).get("chains", 1)
    assert spread.state.position.addressable_shards[0].data.shape == (4 // chains, 2)
    assert spread.draws.shape[0] == 4


def test_a_batch_is_spread_out(plain_replaced):
    """Each device gets a part of its chains' examples."""
    seen = []

    def watched(w, x):
        jax.debug.inspect_array_sharding(x, callback=seen.append)
        return -0.5 * jnp.sum((x - w[None]) ** 2, axis=1)

    potential = tacthmc.posterior(log_prior, watched, DATA, 8, batched=True)
    mesh = jax.make_mesh((4, 2), ("chains", "batch"))
    spread = run(num_steps=50, potential=potential, mesh=mesh, sampler=PLAIN)
    expected = jax.sharding.PartitionSpec("chains", "batch")
    assert expected in [getattr(sharding, "spec", None) for sharding in seen]
    alike(spread, plain_replaced)


def test_the_covariance_term_sees_the_whole_batch():
    """Variance and skewness are those of all examples, not of a device's own."""
    term = CovarianceTerm(jnp.asarray(1e-3), jnp.asarray(1e-5))
    potential, here = resident("replacement"), jnp.array([0.3, -0.2])
    batch = jnp.asarray(DATA[:8])

    @eqx.filter_jit
    def corrected(potential, batch, term):
        found = forces(potential, here, batch, lam=jnp.ones(()), correction=term)
        return found.energy, found.gradient

    found, plain = corrected(potential, batch, term), corrected(potential, batch, None)
    with jax.set_mesh(jax.make_mesh((8,), ("batch",))):
        spread = corrected(potential, batch, term)
    for one, other, without in zip(found, spread, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
        assert np.all(np.abs(np.asarray(one) - np.asarray(without)) > 1e-3 * np.abs(without))


def test_devices_are_given_one_vector_of_each_precision():
    tree = {
        "weight": jnp.arange(6.0).reshape(2, 3),
        "half": jnp.ones(2, jnp.bfloat16),
        "index": jnp.arange(3),
        "bias": jnp.full((), 7.0),
        "key": jax.random.key(3),
    }
    vectors, restored = _in_vectors(tree)
    assert sorted(str(vector.dtype) for vector in vectors) == [
        "bfloat16",
        "float32",
        "int32",
        "key<fry>",
    ]
    assert eqx.tree_equal(restored(vectors), tree)


def test_gradients_of_many_leaves_are_added_up_over_devices():
    def likelihood(w, x):
        return -0.5 * jnp.sum((x @ w["matrix"] + w["half"].astype(x.dtype) - 1) ** 2)

    posterior = tacthmc.posterior(lambda w: 0.0 * w["matrix"].sum(), likelihood, DATA, 8)
    here = {"half": jnp.full(3, 0.5, jnp.bfloat16), "matrix": jnp.ones((2, 3))}
    batch = jnp.asarray(DATA[:8])
    alone = eqx.filter_jit(posterior.value_and_grad)(here, batch)
    with jax.set_mesh(jax.make_mesh((4,), ("batch",), devices=jax.devices()[:4])):
        spread = eqx.filter_jit(posterior.value_and_grad)(here, batch)
    assert spread[1]["half"].dtype == jnp.bfloat16
    assert np.allclose(spread[0], alone[0], rtol=1e-5)
    assert np.allclose(spread[1]["matrix"], alone[1]["matrix"], rtol=1e-5)
    halves = [np.asarray(found[1]["half"], float) for found in (spread, alone)]
    assert np.allclose(*halves, rtol=0.02)


def test_company_changes_nothing(plain):
    """Chain i is the same chain in company, alone, and on other devices."""
    one = run(chains=1, sampler=PLAIN)
    same(one.trace["energy"][:, :5], plain.trace["energy"][:1, :5], 2e-4)


def test_a_store_goes_on_with_other_devices(tmp_path):
    mesh = jax.make_mesh((4, 2), ("chains", "batch"))
    run(100, mesh=mesh, store=tmp_path / "run", sampler=PLAIN)
    with pytest.warns(tacthmc.run.OtherVersionWarning, match="mesh .* → None"):
        longer = tacthmc.resume(tmp_path / "run", num_steps=200)
    alike(longer, run(200, sampler=PLAIN), 10)
    again = tacthmc.resume(tmp_path / "run", num_steps=300, mesh=mesh)
    assert np.array_equal(again.trace["energy"][:, :20], longer.trace["energy"])


def test_a_loader_on_a_mesh(plain_replaced):
    mesh = jax.make_mesh((2, 2), ("chains", "batch"), devices=jax.devices()[:4])
    alike(run(potential=loaded(), mesh=mesh, sampler=PLAIN), plain_replaced)


def test_refused():
    with pytest.raises(ValueError, match="axes named 'chains' and/or 'batch'"):
        run(mesh=jax.make_mesh((2,), ("data",), devices=jax.devices()[:2]))
    with pytest.raises(ValueError, match=r"num_chains \(4\) must be a multiple"):
        run(mesh=jax.make_mesh((8,), ("chains",)))
    with pytest.raises(ValueError, match=r"batch_size \(8\) must be a multiple"):
        run(mesh=jax.make_mesh((3,), ("batch",), devices=jax.devices()[:3]))


def test_two_processes_over_loopback(tmp_path, plain_replaced):
    """Both hold chains and parts of batches, each writes its part; the draws are the same."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "XLA_FLAGS": quick_kernels(), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    pair = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.two_processes", str(number), str(port), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
            env=env,
        )
        for number in range(2)
    ]
    outputs = [process.communicate(timeout=240) for process in pair]
    for process, (output, errors) in zip(pair, outputs, strict=True):
        assert process.returncode == 0, errors[-3000:]
        assert "done" in output
    held = [re.findall(r"holds chains (\[.*\]) batch columns (\[.*\])", o) for o, _ in outputs]
    # Chains over processes: two each. Batches over processes: all chains, one column each.
    assert [h[0][0] for h in held] == ["[(0, 1), (1, 2)]", "[(2, 3), (3, 4)]"]
    assert [h[1][1] for h in held] == ["[0]", "[1]"]
    for name, (_, sampler) in IN_TWO_PROCESSES.items():
        stored, whole = tacthmc.load(tmp_path / name), run(400, sampler=sampler)
        assert stored.num_steps == 400
        alike(stored, whole, 10)
        assert np.array_equal(stored.counts, [len(d) for d in stored.all_draws])
        first = stored.all_draws[3][:2]
        same(first, whole.all_draws[3][:2], 1e-3)
    energies = [np.load(tmp_path / f"loaded{n}.npy") for n in range(2)]
    assert np.array_equal(*energies)
    same(energies[0][:, :5], plain_replaced.trace["energy"][:, :5], 2e-4)
