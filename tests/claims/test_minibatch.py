"""Posteriors from mini-batches: exact answers, NUTS, and what reshuffling costs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import Keep
from tacthmc.dynamics import MatrixThermostat
from tacthmc.potentials import control_variates, measure_noise
from tests.budget import assert_mean, assert_off_by
from tests.table import chains_of_each

NUM_DATA, BATCH = 400, 20


@pytest.fixture(scope="module")
def observations():
    rng = np.random.default_rng(0)
    spread = np.array([[1.0, 0.4], [0.0, 0.8]])
    return jnp.asarray(rng.normal(size=(NUM_DATA, 2)) @ spread + [0.5, -1.0], jnp.float32)


COVARIANCE = np.array([[1.0, 0.4], [0.4, 0.8]])


def conjugate(observations, batches="replacement", batch_size=BATCH):
    """x ~ N(θ, C) with C known, θ ~ N(0, 4·I): a Gaussian posterior."""
    precision = jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32)

    def log_likelihood(theta, x):
        away = x - theta
        return -0.5 * away @ (precision @ away)

    return tacthmc.posterior(
        lambda theta: -0.5 * jnp.sum(theta**2) / 4,
        log_likelihood,
        observations,
        batch_size,
        batches=batches,
    )


def exact(observations):
    precision = np.linalg.inv(COVARIANCE)
    posterior = np.linalg.inv(NUM_DATA * precision + np.eye(2) / 4)
    return posterior @ (precision @ np.asarray(observations, float).sum(axis=0)), posterior


def sample(sampler, potential, start, num_steps, every):
    """A run of 16 chains, or of one for each of several samplers."""
    chains, keep = len(sampler) if isinstance(sampler, list) else 16, Keep(every=every)
    key = jax.random.key(0)
    return tacthmc.sample(key, sampler, potential, start, num_steps, chains, keep=keep)


def assert_posterior(draws, mean, covariance, allowance):
    draws = np.asarray(draws, float)
    sd = np.sqrt(np.diag(covariance))
    away = draws - mean
    for i in range(len(mean)):
        assert_mean(draws[..., i], mean[i], allowance * sd[i], f"mean {i}")
        for j in range(i + 1):
            product = away[..., i] * away[..., j]
            assert_mean(product, covariance[i, j], allowance * sd[i] * sd[j], f"cov {i}{j}")


def slow(name):
    return pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", ["sgnht", slow("tact"), slow("sghmc-cv"), "sgld-cv"])
def test_conjugate_gaussian(observations, name):
    """Mini-batch noise here has the posterior precision's shape: the matrix thermostat's case."""
    mean, covariance = exact(observations)
    potential = conjugate(observations)
    step = 0.02 / NUM_DATA
    sampler, every = {
        "sgnht": (tacthmc.sgnht(step, thermostat=MatrixThermostat()), 40),
        "tact": (tacthmc.tact(step, thermostat=MatrixThermostat()), 20),
        "sghmc-cv": (tacthmc.sghmc(step), 40),
        "sgld-cv": (tacthmc.sgld(step), 80),
    }[name]
    if name.endswith("cv"):
        # A quadratic energy: around its mode the control variate removes all noise.
        potential = control_variates(potential, jnp.asarray(mean, jnp.float32))
    start = jnp.asarray(mean, jnp.float32)
    run = sample(sampler, potential, start, 40_000, every)
    assert not run.failures
    assert_posterior(run.draws, mean, covariance, 0.04)


def test_sghmc_needs_to_know_the_noise(observations):
    """Without an estimate of the noise SGHMC is too hot; with it, right."""
    mean, covariance = exact(observations)
    potential = conjugate(observations)
    start = jnp.asarray(mean, jnp.float32)
    levels = measure_noise(jax.random.key(9), potential, start, 2000)
    step = 0.02 / NUM_DATA
    estimate = jnp.asarray(levels.force, jnp.float32)
    assert np.all(step * np.asarray(estimate) / 2 < 0.5), "friction must exceed ηv/2"

    samplers = [
        tacthmc.sghmc(step, friction=0.5, noise_estimate=v)
        for v in (estimate, jnp.zeros_like(estimate))
    ]
    run = sample(chains_of_each(samplers, 16), potential, start, 60_000, 40)
    known, unknown = np.split((np.asarray(run.draws, float) - mean) ** 2, 2)
    for i in range(2):
        truth = covariance[i, i]
        assert_mean(known[..., i], truth, 0.12 * truth, "known noise")
        assert_off_by(unknown[..., i], truth, 0.2 * truth, "unknown noise")


def test_reshuffled_epochs_shrink_the_posterior():
    """Where mini-batch noise dominates, anticorrelated batches take variance away."""
    num_data, batch = 100, 5
    data = jnp.asarray(np.random.default_rng(1).normal(size=num_data), jnp.float32)
    data = (data - data.mean()) / data.std()
    variances = {}
    for batches in ("replacement", "epochs"):
        potential = tacthmc.posterior(
            lambda theta: -0.5 * theta**2 / 100,
            lambda theta, x: -0.5 * (x - theta) ** 2,
            data,
            batch,
            batches=batches,
        )
        sampler = tacthmc.sgnht(0.02 / num_data, noise=0.02)
        run = sample(sampler, potential, jnp.array(0.0), 60_000, 20)
        variances[batches] = np.asarray(run.draws, float) ** 2
    truth = 1 / (num_data + 0.01)
    assert_mean(variances["replacement"], truth, 0.04 * truth, "with replacement")
    assert_off_by(variances["epochs"], truth, 0.15 * truth, "reshuffled")
    assert variances["epochs"].mean() < truth


def test_logistic_regression_against_nuts():
    blackjax = pytest.importorskip("blackjax")
    rng = np.random.default_rng(2)
    features = rng.normal(size=(1000, 3))
    truth = np.array([1.0, -0.5, 0.25])
    labels = rng.random(1000) < 1 / (1 + np.exp(-features @ truth))
    data = {"x": jnp.asarray(features, jnp.float32), "y": jnp.asarray(labels, jnp.float32)}

    def log_prior(theta):
        return -0.5 * jnp.sum(theta**2)

    def log_likelihood(theta, example):
        logit = example["x"] @ theta
        return example["y"] * logit - jax.nn.softplus(logit)

    potential = tacthmc.posterior(log_prior, log_likelihood, data, batch_size=100)
    sampler = tacthmc.tact(2e-5, thermostat=MatrixThermostat())
    run = sample(sampler, potential, jnp.zeros(3), 40_000, 20)
    assert not run.failures

    def log_density(theta):
        return -potential.energy(theta)

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
        first, second = jax.random.split(jax.random.key(1))
        (state, parameters), _ = warmup.run(first, jnp.zeros(3), num_steps=300)
        kernel = blackjax.nuts(log_density, **parameters)

        def chain(key):
            def step(state, key):
                state, _ = kernel.step(key, state)
                return state, state.position

            return jax.lax.scan(step, state, jax.random.split(key, 1000))[1]

        reference = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(second, 8)), float)
    mean = reference.mean((0, 1))
    covariance = np.cov(reference.reshape(-1, 3).T)
    # The reference has an error of its own: 8,000 nearly independent draws, under 0.05 sd.
    assert_posterior(run.draws, mean, covariance, 0.05 + 0.04)
