"""Noise that differs between coordinates: the default thermostat holds each of them at T = 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import AutomaticThermostat, ScalarThermostat, StepRates
from tacthmc.dynamics._step_rates import StepMomenta
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
    found = squares(tacthmc.sgnht(1e-3), 50_000)
    for i in range(found.shape[-1]):
        assert_mean(found[..., i], 1.0, STEP_BIAS, f"variance of coordinate {i}")


def test_one_friction_would_be_wrong():
    """By theory: z = 0.35 for all, so the temperatures are 1.1/0.35 and 0.1/0.35."""
    found = squares(tacthmc.sgnht(1e-3, thermostat=ScalarThermostat()), 10_000)
    assert np.all(found[..., :2].mean((0, 1)) > 2.5)
    assert np.all(found[..., 2:].mean((0, 1)) < 0.5)


def test_masses_two_hundred_times_apart():
    sampler = tacthmc.sgnht(1e-2, mass={"mean": 200.0, "free": 1.0})
    found = squares(sampler, 50_000)
    for i in range(found.shape[-1]):
        assert_mean(found[..., i], 1.0, STEP_BIAS, f"variance of coordinate {i}")


@pytest.mark.slow
@pytest.mark.parametrize("eta", [1e-3, 2.5e-4])
def test_with_tempering(eta):
    found = squares(tacthmc.tact(eta), 400_000, chains=16)
    for i in range(found.shape[-1]):
        assert_mean(found[..., i], 1.0, 2 * STEP_BIAS, f"variance of coordinate {i}")


@pytest.mark.slow
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
    precision = N / np.asarray(scales, float) ** 2 + 1
    center = np.asarray(jnp.sum(data / scales, axis=0), float) / precision
    found = precision * (np.asarray(run.draws, float) - center) ** 2
    for i in range(4):
        assert_mean(found[..., i], 1.0, STEP_BIAS, f"variance of coordinate {i}")


@pytest.mark.parametrize(
    "largest",
    [pytest.param(0, marks=pytest.mark.slow), 3, pytest.param(1024, marks=pytest.mark.slow)],
)
def test_frictions_by_the_size_of_a_leaf(largest):
    """Small leaves have a friction for each coordinate; the law of the mean counts frictions."""
    potential = tacthmc.noisy(
        tacthmc.potential(lambda p: 0.5 * sum(jnp.sum(x**2) for x in p.values())),
        force={"a": 10.0, "b": 1.0, "c": 3.0},
    )
    start = {"a": jnp.zeros(3), "b": jnp.zeros((2, 5)), "c": jnp.zeros(())}
    thermostat = AutomaticThermostat(largest=largest)
    run = tacthmc.sample(
        jax.random.key(0), tacthmc.sgnht(0.01, thermostat=thermostat), potential, start, 10_000, 8
    )
    frictions = jax.tree.leaves(run.state.thermostat)
    assert sum(z[0].size for z in frictions) == {0: 3, 3: 5, 1024: 14}[largest]
    law = run.thermostats[0]
    assert np.isclose(law.mean, law.expected_mean, rtol=0.05)
    assert np.isclose(law.sd, law.expected_sd, rtol=0.15)


def test_masses_of_coordinates_and_of_leaves():
    """One mass for all, one for each leaf, and one for each coordinate make the same step."""
    r = {"a": jnp.array([0.1, -0.2]), "b": jnp.full((2, 3), 0.3), "c": jnp.full(9, 0.2)}
    rates = StepRates(jnp.asarray(0.02), jnp.asarray(0.1), jnp.asarray(1.3), jnp.asarray(0))
    thermostat, found = AutomaticThermostat(largest=6), []
    z = thermostat.init(r, jnp.asarray(0.1))
    assert z.own.shape == (8,)
    assert [one.shape for one in z.shared] == [()]
    one = jnp.asarray(2.0)
    each = {name: jnp.asarray(2.0) for name in r}
    for mass in (
        dict.fromkeys(r, one),
        each,
        jax.tree.map(lambda x: jnp.full(x.shape, 2.0), r),
    ):
        friction = thermostat.update(z, r, mass, rates, jnp.asarray(0.4))
        damped = thermostat.damping(friction, mass, jnp.asarray(0.4))(r)
        momenta = StepMomenta(r, damped, mass, rates, jnp.asarray(0.8), z)
        after = thermostat.finish_step(z, friction, momenta)
        found.append(jax.tree.leaves((damped, after, thermostat.kinetic_sum(momenta))))
    for other in found[1:]:
        for left, right in zip(found[0], other, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-5)


def test_two_zeros_that_are_one_array():
    zero = jnp.zeros(())
    z = AutomaticThermostat().init({"a": zero, "b": zero}, jnp.asarray(0.1))
    assert z.own.shape == (2,)
