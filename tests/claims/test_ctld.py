"""Continuously tempered Langevin dynamics: right with exact gradients, too hot with noisy ones.

Statistical checks have the suite's failure probability (2e-7 each, ``tests/budget.py``).
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import Keep
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    Coordinates,
    Langevin,
    NoBias,
    NoThermostat,
    PowerCoupling,
)
from tacthmc.samplers import ctld
from tacthmc.samplers._ctld import ConstantFriction, ConstantFrictionTempering
from tacthmc.targets import GaussianMixture
from tests.budget import assert_mean, assert_off_by

KEY = jax.random.key(0)
WEIGHTS, SD, AWAY = np.array([0.7, 0.3]), 0.75, 3.0
BIAS = 0.03
"""The relative bias of moments at η = 0.03 with a metadynamics that never stops learning."""
FROZEN_BIAS = 0.01
"""The same with a bias that does not change."""


def pair(size):
    means = np.zeros((2, size), np.float32)
    means[:, 0] = -AWAY, AWAY
    return GaussianMixture(jnp.asarray(means), jnp.asarray(WEIGHTS, jnp.float32), SD)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("size", "bias"), [(1, None), slow(2, None), slow(1, AdaptiveBiasingForce())]
)
def test_a_mixture_with_exact_gradients(size, bias):
    target, keep = tacthmc.potential(pair(size)), Keep(every=20)
    start = jnp.full(size, AWAY)
    run = tacthmc.sample(KEY, ctld(0.03, bias=bias), target, start, 200_000, 16, keep=keep)
    assert not run.failures
    assert run.round_trips.min() > 20
    assert abs(run.plateau_share.mean() - 0.2) < 0.03
    assert "(0.200 if ξ is uniform)" in str(run.summary())
    first = run.draws[..., 0] < 0
    assert_mean(first, WEIGHTS[0], BIAS * WEIGHTS[0], "weight of the first mode")
    within = (run.draws[..., 0] - np.where(first, -AWAY, AWAY)) ** 2
    assert_mean(within, SD**2, 2 * BIAS * SD**2, "variance within modes")
    # Both baths are at one, at every temperature of the target.
    for name in ("kinetic_temperature", "xi_kinetic_temperature"):
        assert_mean(run.after_warmup(name), 1.0, BIAS, name)


@pytest.mark.slow
def test_a_frozen_bias_leaves_the_step_size_alone():
    target, start, keep = tacthmc.potential(pair(1)), jnp.array([AWAY]), Keep(every=20)
    learning = tacthmc.sample(KEY, ctld(0.03), target, start, 200_000, 16, keep=keep)
    bias = ctld(0.03).tempering.bias.started_from(learning.bias_table()).frozen()
    run = tacthmc.sample(KEY, ctld(0.03, bias=bias), target, start, 1_000_000, 16, keep=keep)
    first = run.draws[..., 0] < 0
    assert_mean(first, WEIGHTS[0], FROZEN_BIAS * WEIGHTS[0], "weight of the first mode")
    within = (run.draws[..., 0] - np.where(first, -AWAY, AWAY)) ** 2
    assert_mean(within, SD**2, FROZEN_BIAS * SD**2, "variance within modes")
    for name in ("kinetic_temperature", "xi_kinetic_temperature"):
        assert_mean(run.after_warmup(name), 1.0, FROZEN_BIAS, name)


def test_noisy_gradients_heat_it():
    """The temperature is 1 + ηv/(2c) = 1.45 on the plateau; TACT-HMC's thermostat absorbs that."""
    eta, noise, force = 0.01, 0.1, 3.0
    target = tacthmc.noisy(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), force=force)
    heat = eta * force**2 / (2 * noise)
    assert np.isclose(heat, 0.45)
    # On the plateau alone, where the formula holds: ξ does not leave it at this mass.
    sampler = ctld(eta, noise=noise, tempering_step_size=1e-12, bias=NoBias())
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(2), 40_000, 16, keep=Keep(every=20))
    assert np.all(run.plateau_share == 1)
    assert_mean(run.draws[..., 0] ** 2, 1 + heat, 0.02, "variance")
    assert_off_by(run.draws[..., 0] ** 2, 1.0, 0.3, "variance")
    assert_mean(run.after_warmup("kinetic_temperature"), 1 + heat, 0.02, "kinetic temperature")


@pytest.mark.slow
def test_noisy_gradients_make_modes_too_wide():
    target = tacthmc.noisy(tacthmc.potential(pair(1)), force=3.0, energy=1.0)
    start, keep = jnp.array([AWAY]), Keep(every=20)
    run = tacthmc.sample(KEY, ctld(0.01), target, start, 400_000, 16, keep=keep)
    within = (run.draws[..., 0] - np.where(run.draws[..., 0] < 0, -AWAY, AWAY)) ** 2
    assert_off_by(within, SD**2, 0.1 * SD**2, "variance within modes")
    assert within.mean() > SD**2


@pytest.mark.parametrize(("eta", "noise"), [(2.0, 0.1), slow(2.0, 0.5), slow(0.1, 0.02)])
def test_the_variance_of_a_gaussian_is_exact(eta, noise):
    """At half the stability limit, with no allowance for the step size."""
    sampler = Langevin(eta, noise=noise, thermostat=NoThermostat(), integrator=ConstantFriction())
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(2), 20_000, 16, keep=Keep(every=5))
    assert_mean(run.draws[..., 0] ** 2, 1.0, what="variance")


@pytest.mark.slow
def test_masses_change_no_variance():
    sampler = ctld(0.05, mass=jnp.array([1.0, 4.0]))
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2 * jnp.array([1.0, 4.0])))
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(2), 60_000, 16, keep=Keep(every=20))
    assert_mean(run.draws[..., 0] ** 2, 1.0, BIAS, "variance of the light one")
    assert_mean(run.draws[..., 1] ** 2, 0.25, 0.25 * BIAS, "variance of the heavy one")


def test_a_step_by_hand():
    """One step without random numbers, against its equations: g scales the force alone."""
    eta, c, x, r, xi, r_xi = 0.01, 0.2, 1.5, 0.03, 1.0, 0.02
    sampler = ctld(eta, noise=c, bias=NoBias(), tempering_step_size=0.02, tempering_noise=0.3)
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    state = sampler.init(KEY, jnp.array([x]))
    tempering = replace(state.tempering, xi=jnp.array(xi), momentum=jnp.array(r_xi))
    state = replace(state, momentum=jnp.array([r]), tempering=tempering)
    still = jax.tree.map(jnp.zeros_like, sampler.noise(KEY, state.position))
    after, info = sampler.advance(still, state, target, ())

    def half(z):
        return np.exp(-np.arcsinh(z / 2))

    middle, middle_xi = x + r / 2, xi + r_xi / 2
    coupling = PowerCoupling.up_to(9.0, power=2)
    g, slope = (float(v) for v in coupling.value_and_slope(jnp.array(middle_xi)))
    new = half(c) * (half(c) * r - g * eta * middle)
    new_xi = half(0.3) * (half(0.3) * r_xi - 0.02 * slope * 0.5 * middle**2)
    assert np.isclose(after.momentum[0], new, rtol=1e-5)
    assert np.isclose(after.position[0], middle + new / 2, rtol=1e-6)
    assert np.isclose(after.tempering.momentum, new_xi, rtol=1e-5)
    assert np.isclose(after.tempering.xi, middle_xi + new_xi / 2, rtol=1e-6)
    assert np.isclose(info.energy, 0.5 * middle**2)
    assert not info.at_unit_temperature


def test_a_schedule_of_step_sizes_keeps_physical_momenta():
    def falling(step):
        return 0.04 / (1.0 + jnp.asarray(step).astype(float))

    sampler = ctld(falling)
    assert isinstance(sampler.tempering, ConstantFrictionTempering)
    rates = sampler.rates(jnp.array(1), jnp.zeros(2))
    assert np.isclose(rates.xi.eta, 0.002)
    state = sampler.init(KEY, jnp.zeros(2)).tempering
    moved = sampler.tempering.on_new_rates(state, rates.xi)
    assert np.isclose(moved.momentum / state.momentum, np.sqrt(0.5), rtol=1e-5)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: ctld(0.0), ValueError, "step_size must be"),
        (lambda: ctld(0.1, noise=0.0), ValueError, "noise must be"),
        (lambda: ctld(0.1, noise=lambda k: 0.1), TypeError, "noise"),
        (lambda: ctld(0.1, tempering_noise=-1.0), ValueError, "tempering_noise must be"),
        (lambda: ctld(0.1, tempering_step_size=0.0), ValueError, "tempering_step_size must be"),
        (lambda: ctld(0.1, coupling=0.3), TypeError, "coupling"),
        (lambda: ctld(0.1, bias=0.3), TypeError, "bias"),
        (
            lambda: Langevin(
                0.1, integrator=ConstantFriction(), coordinates=Coordinates(center="mean")
            ),
            ValueError,
            "center needs the integrator Splitting",
        ),
    ],
)
def test_bad_settings(build, error, message):
    with pytest.raises(error, match=message):
        build()
