"""The targets of the mobility benchmark have the law and the noise that they state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from benchmarks.maintained.mobility_targets import (
    BATCH_SIZE,
    CURVATURE,
    NUM_DATA,
    PRIOR_SD,
    in_a_wide_prior,
    of_examples,
    pair,
    summing_to_zero,
)
from tests.budget import QUANTILE

D, NOISE = 16, 0.7


@pytest.fixture(scope="module")
def target():
    return pair(D)


@pytest.fixture(scope="module")
def posterior(target):
    return of_examples(target, NOISE)


@pytest.fixture(scope="module")
def places(target):
    """Draws of both modes, and one far from either."""
    drawn = target.draw(jax.random.key(3), 4)
    return jnp.concatenate([drawn, drawn[:1] + 4.0])


def test_examples_sum_to_zero_exactly():
    numbers = np.asarray(summing_to_zero(jax.random.key(0), (1_000, 5), 0.003))
    for order in (slice(None), slice(None, None, -1)):
        np.testing.assert_array_equal(np.cumsum(numbers[order], axis=0)[-1], 0)
    # No example pays for the others: none is further out than a normal one may be.
    assert np.abs(numbers).max() < 5.5 * 0.003
    np.testing.assert_allclose(numbers.std(axis=0), 0.003, rtol=QUANTILE / np.sqrt(2_000))


def test_energies_of_the_examples_sum_to_the_mixture(target, posterior, places):
    whole, slope = jax.jit(jax.vmap(jax.value_and_grad(target)))(places)
    estimate = jax.vmap(lambda x: posterior.value_and_grad(x, posterior.data))
    value, gradient = jax.jit(estimate)(places)
    np.testing.assert_allclose(value, whole, rtol=3e-6)
    np.testing.assert_allclose(gradient, slope, atol=1e-5)
    np.testing.assert_allclose(posterior.energy(places[0]), whole[0], rtol=3e-6)


def test_mini_batches_are_unbiased_and_as_noisy_as_asked(target, posterior, places):
    count = 4_000
    keys = jax.random.split(jax.random.key(1), count)
    center = np.asarray(target.means, float).mean(axis=0)
    one = jax.vmap(lambda k, x: posterior.value_and_grad(x, posterior.batch(k, x)), (0, None))
    estimates, exact = jax.jit(one), jax.jit(jax.value_and_grad(target))
    for theta in (places[0], places[-1]):
        values, gradients = estimates(keys, theta)
        whole, slope = exact(theta)
        values, gradients = np.asarray(values, float), np.asarray(gradients, float)
        sd = gradients.std(axis=0)
        assert abs(values.mean() - whole) < QUANTILE * values.std() / np.sqrt(count)
        assert np.all(np.abs(gradients.mean(axis=0) - slope) < QUANTILE * sd / np.sqrt(count))
        away = np.asarray(theta, float) - center
        expected = NOISE**2 * (1 + np.mean((CURVATURE * away) ** 2))
        assert np.mean(sd**2) == pytest.approx(expected, rel=0.1)
        # Exact, from all examples: their energies' noise, and how it goes with their forces'.
        own = np.asarray(posterior.log_likelihood(theta, posterior.data), float)
        assert values.std() == pytest.approx(own.std() * NUM_DATA / BATCH_SIZE**0.5, rel=0.1)
        along = (gradients - np.asarray(slope)) @ away
        assert np.corrcoef(values, along)[0, 1] > 0.9


def test_prior_and_likelihood_sum_to_the_mixture_in_a_wide_prior():
    subspace, posterior = in_a_wide_prior(12, 4)
    split = tacthmc.temper_likelihood(posterior)
    basis = np.asarray(subspace.basis, float)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-6)
    rest = np.eye(12) - basis @ basis.T
    for key in jax.random.split(jax.random.key(2)):
        theta = subspace.start + 2 * jax.random.normal(key, (12,))
        prior, likelihood, _ = split.full(theta)
        away = np.asarray(theta - subspace.middle, float)
        mixture = float(subspace.mixture(jnp.asarray(away @ basis, jnp.float32)))
        others = 0.5 * away @ rest @ away / PRIOR_SD**2
        assert float(prior) == pytest.approx(0.5 * away @ away / PRIOR_SD**2, rel=1e-5)
        assert float(prior + likelihood) == pytest.approx(mixture + others, rel=1e-5)
    np.testing.assert_allclose(subspace.seen(subspace.start), subspace.mixture.means[0], atol=1e-4)
