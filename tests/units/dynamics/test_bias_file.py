"""Biases on disk: saved whole, loaded the same, and sampled on with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    BiasInput,
    ContinuousTempering,
    LiteralAdaptiveBiasingForce,
    Metadynamics,
    PowerCoupling,
    load_bias,
    save_bias,
    well_tempered,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")


def seen(xi, slope, energy):
    return BiasInput(jnp.asarray(xi), jnp.asarray(slope), jnp.asarray(energy), jnp.asarray(0))


@pytest.mark.parametrize(
    "bias",
    [
        AdaptiveBiasingForce(bins=4, memory=7.0),
        LiteralAdaptiveBiasingForce(bins=4),
        Metadynamics(bins=4, height=0.5, spread=1),
        well_tempered(3.0, bins=4),
    ],
)
def test_every_bias_is_saved_whole(bias, tmp_path):
    coupling = PowerCoupling()
    table = bias.init(jnp.float32)
    for xi in (0.2, 0.9, -1.4, 1.5):
        table = bias.update(table, seen(xi, -0.5, 3.0), coupling)
    save_bias(tmp_path / "bias.npz", bias.frozen(), table)
    loaded = load_bias(tmp_path / "bias.npz")
    assert type(loaded) is type(bias)
    again = loaded.init(jnp.float32)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(table), strict=True):
        assert np.array_equal(a, b)
    forces = [float(x.force(again, seen(1.1, -0.5, 3.0), coupling)) for x in (bias, loaded)]
    assert forces[0] == forces[1]


def test_a_run_saves_its_bias_and_another_begins_with_it(tmp_path):
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))

    def sample(bias):
        sampler = tacthmc.tact(0.05, tempering=ContinuousTempering(bias=bias))
        return tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(2), 2000, 2)

    bias = AdaptiveBiasingForce(bins=10)
    first = sample(bias)
    first.save_bias(tmp_path / "bias.npz")
    loaded = load_bias(tmp_path / "bias.npz")
    assert type(loaded) is type(bias)
    second = sample(loaded.frozen())
    assert np.allclose(second.free_energy(0).value, first.free_energy().value, atol=1e-5)
    coupling, table = first.sampler.tempering.coupling, loaded.init(jnp.float32)
    learned = loaded.update(table, seen(0.9, -0.5, 30.0), coupling)
    assert not np.array_equal(learned.mean, table.mean)


def test_a_file_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=1)
    with pytest.raises(ValueError, match="does not hold a bias"):
        load_bias(tmp_path / "other.npz")
