"""Noise that differs between coordinates: the default thermostat holds each of them at T = 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import AutomaticThermostat, ScalarThermostat
from tests.budget import assert_mean

STEP_BIAS = 0.05
"""Of a variance, besides the error of the mean: half of the 5% of a standard deviation."""
N, BATCH = 200, 20


def blocks():
    """Two numbers that data determine, and six that only the prior does."""
    data = jnp.asarray(np.random.default_rng(0).normal(size=(N, 2)), jnp.float32)
    return tacthmc.posterior(
        lambda p: -0.5 * jnp.sum(p["free"] ** 2),
        lambda p, x: -0.5 * jnp.sum((x - p["mean"]) ** 2),
        data,
        BATCH,
    ), {"mean": jnp.mean(data, axis=0), "free": jnp.zeros((2, 3))}


def squares(sampler, steps, chains=8):
    """θ² of each coordinate, relative to the truth."""
    potential, start = blocks()
    run = tacthmc.sample(jax.random.key(0), sampler, potential, start, steps, chains)
    mean = N * (np.asarray(run.draws["mean"], float) - np.asarray(start["mean"], float)) ** 2
    free = np.asarray(run.draws["free"], float).reshape(*mean.shape[:2], -1) ** 2
    return np.concatenate([mean, free], axis=-1)


def test_a_block_with_data_beside_one_without():
    """The friction of the noise is 1 in one block and 0 in the other."""
    found = squares(tacthmc.sgnht(1e-3), 100_000)
    for i in range(found.shape[-1]):
        assert_mean(found[..., i], 1.0, STEP_BIAS, f"variance of coordinate {i}")


def test_one_friction_would_be_wrong():
    """By theory: z = 0.35 for all, so the temperatures are 1.1/0.35 and 0.1/0.35."""
    found = squares(tacthmc.sgnht(1e-3, thermostat=ScalarThermostat()), 50_000)
    assert np.all(found[..., :2].mean((0, 1)) > 2.5)
    assert np.all(found[..., 2:].mean((0, 1)) < 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("eta", [1e-3, 2.5e-4])
def test_with_tempering(eta):
    found = squares(tacthmc.tact(eta), 400_000, chains=16)
    for i in range(found.shape[-1]):
        assert_mean(found[..., i], 1.0, 2 * STEP_BIAS, f"variance of coordinate {i}")


def test_noise_that_differs_a_thousandfold_within_a_leaf():
    scales = jnp.asarray(10 ** np.linspace(0.0, 1.5, 4), jnp.float32)
    data = jnp.asarray(np.random.default_rng(1).normal(size=(N, 4)), jnp.float32)
    potential = tacthmc.posterior(
        lambda t: -0.5 * jnp.sum(t**2),
        lambda t, x: -0.5 * jnp.sum((x / scales - t / scales) ** 2),
        data * scales,
        BATCH,
    )
    run = tacthmc.sample(
        jax.random.key(0), tacthmc.sgnht(2e-3), potential, jnp.zeros(4), 100_000, 8
    )
    precision = np.asarray(N / scales.astype(float) ** 2 + 1)
    center = np.asarray(jnp.sum(data / scales, axis=0), float) / precision
    found = precision * (np.asarray(run.draws, float) - center) ** 2
    for i in range(4):
        assert_mean(found[..., i], 1.0, STEP_BIAS, f"variance of coordinate {i}")


@pytest.mark.parametrize("largest", [0, 3, 1024])
def test_frictions_by_the_size_of_a_leaf(largest):
    """Small leaves have a friction for each coordinate; the law of the mean counts frictions."""
    potential = tacthmc.noisy(
        tacthmc.potential(lambda p: 0.5 * sum(jnp.sum(x**2) for x in p.values())),
        force={"a": 10.0, "b": 1.0, "c": 3.0},
    )
    start = {"a": jnp.zeros(3), "b": jnp.zeros((2, 5)), "c": jnp.zeros(())}
    thermostat = AutomaticThermostat(largest=largest)
    run = tacthmc.sample(
        jax.random.key(0), tacthmc.sgnht(0.01, thermostat=thermostat), potential, start, 20_000, 8
    )
    frictions = jax.tree.leaves(run.state.thermostat)
    assert sum(z[0].size for z in frictions) == {0: 3, 3: 5, 1024: 14}[largest]
    law = run.thermostats[0]
    assert np.isclose(law.mean, law.expected_mean, rtol=0.05)
    assert np.isclose(law.sd, law.expected_sd, rtol=0.15)


def test_masses_of_coordinates_and_of_leaves():
    """One mass for all, a mass for each leaf, and one for each coordinate are the same posterior."""
    potential, start = blocks()
    each = {"mean": jnp.full(2, 2.0), "free": jnp.full((2, 3), 2.0)}
    found = []
    for mass in (2.0, {"mean": 2.0, "free": 2.0}, each):
        sampler = tacthmc.sgnht(1e-3, mass=mass)
        run = tacthmc.sample(jax.random.key(0), sampler, potential, start, 200, 2)
        found.append(np.concatenate([np.ravel(x) for x in jax.tree.leaves(run.state.position)]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-3, atol=1e-4)


def test_two_zeros_that_are_one_array():
    zero = jnp.zeros(())
    potential = tacthmc.potential(lambda p: 0.5 * p["a"] ** 2 + 0.5 * p["b"] ** 2)
    start = {"a": zero, "b": zero}
    run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), potential, start, 1_000, 2)
    assert run.state.thermostat.own.shape == (2, 2)
