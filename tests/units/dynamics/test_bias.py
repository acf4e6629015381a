"""Biases: what each learns, and how near it comes to the free energy."""

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
    NoBias,
    PowerCoupling,
    well_tempered,
)
from tacthmc.dynamics._bias import MeanEnergies

WALL = 5 / 3
COUPLING = PowerCoupling()


def seen(xi, slope=0.0, energy=0.0, step=0):
    return BiasInput(jnp.asarray(xi), jnp.asarray(slope), jnp.asarray(energy), jnp.asarray(step))


def test_abf_means_per_bin_folded_and_borrowing():
    bias = AdaptiveBiasingForce(bins=5, memory=2.0)
    table = bias.init(jnp.float32)
    # Before anything was seen the force cancels the current energy.
    assert float(bias.force(table, seen(1.0, -0.5, 8.0), COUPLING)) == -4.0
    for xi, energy in ((1.0, 2.0), (-1.0, 4.0), (1.6, 10.0)):
        table = bias.update(table, seen(xi, energy=energy), COUPLING)
    assert table.visits.tolist() == [0.0, 0.0, 0.0, 2.0, 1.0]
    assert np.allclose(table.mean, [0.0, 0.0, 0.0, 3.0, 10.0])
    assert float(bias.force(table, seen(1.1, -0.5), COUPLING)) == -1.5
    # An empty bin borrows the recent mean: 2, then 3, then 6.5 (memory of two).
    assert np.isclose(float(bias.force(table, seen(0.5, -1.0), COUPLING)), -6.5)


def test_literal_abf_divides_by_the_global_step():
    bias = LiteralAdaptiveBiasingForce(bins=2)
    table = bias.init(jnp.float32)._replace(steps=jnp.asarray(3.0))
    table = bias.update(table, seen(1.0, -0.5, 8.0), COUPLING)
    assert np.allclose(table.force, [0.0, -1.0])
    assert float(table.steps) == 4


def test_metadynamics_follows_appendix_b(x64):
    bias = Metadynamics(bins=10, height=0.3)
    table, memory = bias.init(jnp.float64), np.zeros(10)
    delta = 2 * WALL / 10
    for xi in np.random.default_rng(0).uniform(-WALL, WALL, 50):
        j = min(int((xi + WALL) / delta), 9)
        center = -WALL + (j + 0.5) * delta
        other = j + 1 if xi >= center else j - 1
        expected = 0.0
        if 0 <= other <= 9:
            low, high = min(j, other), max(j, other)
            expected = (memory[low] - memory[high]) / delta
        assert np.isclose(float(bias.force(table, seen(xi), COUPLING)), expected, atol=1e-10)
        memory[j] += 0.3
        table = bias.update(table, seen(xi), COUPLING)
    assert np.allclose(np.asarray(table) - table.min(), memory - memory.min())


def test_well_tempered_increments_shrink():
    bias = well_tempered(2.0, bins=2, height=1.0)
    table = bias.init(jnp.float32)
    table = bias.update(table, seen(1.0), COUPLING)
    table = bias.update(table, seen(1.0), COUPLING)
    assert np.allclose(table, [0.0, 1.0 + np.exp(-0.5)])
    profile = bias.free_energy(table, COUPLING, bath=1.0)
    assert np.isclose(profile.value[1] - profile.value[0], -1.5 * float(table[1]), rtol=1e-5)


def test_frozen_biases_do_not_learn():
    bias = Metadynamics(bins=4).frozen()
    table = bias.init(jnp.float32)
    assert np.array_equal(bias.update(table, seen(1.0), COUPLING), table)


def test_a_table_of_other_bins_is_refused():
    table = MeanEnergies(jnp.zeros(3), jnp.zeros(3), jnp.zeros(()), jnp.zeros(()))
    with pytest.raises(ValueError, match="does not fit"):
        AdaptiveBiasingForce(bins=4).started_from(table)


def test_without_a_bias_there_is_no_free_energy():
    with pytest.raises(ValueError, match="no bias"):
        NoBias().free_energy((), COUPLING)


def test_free_energy_of_a_gaussian():
    """⟨U | ξ⟩ = D/(2λ), so A(ξ) = (D/2)·log λ, and the run's plot shows it."""
    dim = 4
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    run = tacthmc.sample(jax.random.key(0), tacthmc.tact(0.05), target, jnp.zeros(dim), 60_000, 16)
    profile = run.free_energy()
    coupling = run.sampler.tempering.coupling
    expected = -dim / 2 * np.log(np.asarray(coupling.temperature(jnp.asarray(profile.xi))))
    assert np.max(np.abs(profile.value - expected)) < 0.15
    assert run.flatness.max() < 0.1
    ax = run.plot_free_energy()
    assert ax.get_xlabel() == "ξ"
    assert len(ax.lines) == 17


def test_literal_abf_starves_the_plateau():
    """The paper's 1/k leaves about 8% of the time to the plateau instead of 20%."""
    target = tacthmc.targets.three_gaussians()
    potential = tacthmc.noisy(tacthmc.potential(target), force=3.0, energy=1.0)
    xi = ContinuousTempering(bias=LiteralAdaptiveBiasingForce())
    run = tacthmc.sample(
        jax.random.key(0), tacthmc.tact(0.01, tempering=xi), potential, jnp.zeros(1), 100_000, 8
    )
    assert 0.03 < run.plateau_share.mean() < 0.15
