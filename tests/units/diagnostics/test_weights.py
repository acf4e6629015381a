"""Draws of all temperatures, weighted: moments, modes, summaries and predictions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri

import tacthmc
from tacthmc.diagnostics._mixing import mean_ess
from tacthmc.diagnostics._weights import influence, log_weights, weighted_rhat
from tests.budget import QUANTILE


def check(values, weights, truth, allowance, what):
    """A weighted mean against the truth, with the Monte-Carlo error of its influence."""
    shares = influence(values, weights)
    size = mean_ess(shares)
    assert size > 100
    error = QUANTILE * shares.std() / np.sqrt(size)
    seen = np.average(values, weights=weights)
    assert abs(seen - truth) < allowance + error, f"{what}: {seen:.4f} is not {truth} ± {error:.4f}"


def test_exact_draws_at_three_temperatures():
    rng = np.random.default_rng(0)
    lam = np.tile(np.repeat([1.0, 0.5, 0.25], 2_000), (10, 1))
    lam = rng.permuted(lam, axis=1)
    x = rng.normal(size=(3, *lam.shape)) / np.sqrt(lam)
    logs = log_weights(list(lam), list(0.5 * np.sum(x**2, axis=0)))
    weights = np.exp(np.stack(logs))
    assert np.isclose(weights.mean(), 1.0)
    check(x[0] ** 2, weights, 1.0, 0.0, "variance")
    check((x[0] > ndtri(0.9)).astype(float), weights, 0.1, 0.0, "tail")
    # No draw counts for more than a third of the draws being on the plateau allows.
    assert weights.max() < 3.1


def test_energies_that_are_lost_and_chains_that_say_nothing():
    lam, energy = np.array([1.0, 1.0, 0.5, 0.5]), np.array([1.0, 2.0, np.inf, 3.0])
    (weights,) = np.exp(log_weights([lam], [energy]))
    assert weights[2] == 0
    assert np.all(weights[[0, 1, 3]] > 0)
    one = np.ones((2, 1))
    assert np.isnan(weighted_rhat(one, one))
    values = np.random.default_rng(0).normal(size=(2, 8))
    assert np.isnan(weighted_rhat(values, np.repeat([0.0, 1.0], 4) * np.ones((2, 8))))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same run on the mixture, kept at all temperatures (on disk, too) and on the plateau."""
    target = tacthmc.noisy(tacthmc.potential(tacthmc.targets.three_gaussians()), force=3.0)
    path = tmp_path_factory.mktemp("weighted") / "run"

    def run(temperatures, store=None):
        key, start = jax.random.key(1), jnp.array([-4.0])
        keep = tacthmc.Keep(temperatures=temperatures)
        return tacthmc.sample(
            key, tacthmc.tact(0.01), target, start, 400_000, 4, keep=keep, store=store
        )

    return run("all"), run("unit"), run("all", path)


def test_weighted_draws_are_the_posterior(runs):
    every, plateau, _ = runs
    assert every.num_draws == 7_200
    assert plateau.num_draws < 2_000
    weights = np.exp(every.log_weights)
    draws = every.draws[..., 0]
    assert np.allclose(every.stats["lambda"][every.stats["temperature"] == 1], 1)
    middle = (np.abs(draws) < 2).astype(float)
    check(middle, weights, 0.4, 0.01, "weight of the middle mode")
    check(draws**2, weights, 0.6 * 16 + 0.25, 0.1, "second moment")
    # Unweighted they are something else.
    assert abs(np.mean(draws**2) - 9.85) > 0.4


def test_summary_and_predictions_respect_the_weights(runs):
    every, plateau, stored = runs
    parameter = every.summary().parameters[0]
    weights = np.exp(every.log_weights)
    mean = np.average(every.draws[..., 0], weights=weights)
    assert np.isclose(parameter.mean, mean)
    assert np.isclose(
        parameter.sd**2, np.average((every.draws[..., 0] - mean) ** 2, weights=weights)
    )
    # More draws of use than the plateau alone has, fewer than there are.
    alone = plateau.summary().parameters[0]
    assert 0.7 * alone.ess < parameter.ess < every.draws.size
    assert parameter.rhat < 1.1
    assert "of all temperatures, weighted" in str(every.summary())
    share = every.expectation(lambda x: (jnp.abs(x[0]) < 2).astype(jnp.float32))
    assert np.isclose(
        share, np.average(np.abs(every.draws[..., 0]) < 2, weights=weights), atol=1e-5
    )
    # Truth values and whole numbers are averaged, too.
    assert np.isclose(every.expectation(lambda x: jnp.abs(x[0]) < 2), share, atol=1e-5)
    signs = every.expectation(lambda x: jnp.sign(x[0]).astype(int))
    assert np.isclose(signs, np.average(np.sign(every.draws[..., 0]), weights=weights), atol=1e-5)
    for loaded in (stored, tacthmc.load(stored.path)):
        assert np.array_equal(loaded.log_weights, every.log_weights)
        assert np.isclose(loaded.expectation(lambda x: x[0]), mean, atol=1e-4)
    exported = every.to_arviz()["sample_stats"]
    assert np.array_equal(exported["log_weight"], every.log_weights)


def test_plateau_runs_have_no_weights(runs):
    _, plateau, _ = runs
    assert not plateau.log_weights.any()
    assert "log_weight" not in plateau.stats
    draws = np.concatenate(plateau.all_draws)
    assert np.isclose(plateau.expectation(lambda x: x[0]), draws.mean(), atol=1e-4)


def test_refused():
    with pytest.raises((TypeError, ValueError), match="temperatures"):
        tacthmc.Keep(temperatures="hot")
    with pytest.raises(ValueError, match="weights need all draws"):
        tacthmc.Keep(temperatures="all", forget=True)
