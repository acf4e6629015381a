"""Configurational temperatures of draws from laws that are known."""

import numpy as np
import pytest

from tacthmc.diagnostics._mean_errors import mean_errors
from tacthmc.diagnostics._mixing import mean_ess
from tacthmc.diagnostics._stein import centers, principal_terms, stein_terms
from tacthmc.diagnostics._width import is_off

MU = np.array([[-2.0, 0.0, 0.0], [1.5, 1.0, 0.0]])
SD = np.array([[0.5, 1.0, 2.0], [1.0, 1.5, 0.3]])
SHARES = np.array([0.3, 0.7])


def autocorrelated(rng, phi, shape=(4, 1000, 3)):
    z = rng.normal(size=shape)
    for t in range(1, shape[1]):
        z[:, t] = phi * z[:, t - 1] + np.sqrt(1 - phi**2) * z[:, t]
    return z


def mixture(rng, draws=4000, wide=(1.0, 1.0)):
    """Exact draws of a mixture whose modes overlap, each mode so many times too wide, and ∇U."""
    which = (rng.random((4, draws)) > SHARES[0]).astype(int)
    scale = SD * np.array(wide)[:, None]
    x = MU[which] + scale[which] * rng.normal(size=(4, draws, 3))
    logs = [
        np.log(SHARES[k]) - np.sum(0.5 * ((x - MU[k]) / SD[k]) ** 2 + np.log(SD[k]), axis=-1)
        for k in range(2)
    ]
    share = 1 / (1 + np.exp(logs[0] - logs[1]))[..., None]
    slope = (1 - share) * (x - MU[0]) / SD[0] ** 2 + share * (x - MU[1]) / SD[1] ** 2
    return x, slope, which


@pytest.mark.parametrize("phi", [-0.4, 0.0, 0.9])
def test_errors_are_those_of_the_effective_sample_size(phi):
    values = autocorrelated(np.random.default_rng(0), phi)
    found = mean_errors(values)
    known = np.array([mean_ess(values[:, :, i]) for i in range(3)])
    assert found.ess == pytest.approx(known, rel=0.1)
    expected = values.std(axis=(0, 1)) / np.sqrt(known)
    assert found.error == pytest.approx(expected, rel=0.1)


def test_chains_that_disagree_have_a_large_error():
    values = np.random.default_rng(0).normal(size=(4, 1000, 1)) + np.arange(4)[:, None, None]
    assert mean_errors(values).ess[0] < 20


@pytest.mark.parametrize("labels", ["none", "true", "cut"])
def test_the_identity_holds_for_modes_that_overlap_and_any_labels(labels):
    x, gradient, which = mixture(np.random.default_rng(1))
    known = {"none": 0 * which, "true": which, "cut": (x[..., 0] > 0).astype(int)}[labels]
    at = centers(x, known)
    terms = stein_terms(x, gradient, at)
    for values in (terms.total, principal_terms(x, gradient, at)):
        found = mean_errors(values)
        assert np.all(np.abs(found.mean - 1) < 5 * found.error)
        assert np.all(found.error < 0.03)
    of_modes = terms.by_mode.mean(axis=(0, 1)) / terms.shares.mean(axis=(0, 1))
    assert of_modes == pytest.approx(1.0, abs=0.05)


def test_one_wide_mode_is_seen_by_itself():
    x, gradient, which = mixture(np.random.default_rng(2), wide=(1.3, 1.0))
    terms = stein_terms(x, gradient, centers(x, which))
    heavy, light = terms.by_mode.mean(axis=(0, 1)) / terms.shares.mean(axis=(0, 1))
    assert light > 1.3
    assert heavy == pytest.approx(1.0, abs=0.1)


def test_a_wide_direction_is_seen_where_each_coordinate_hides_it():
    """In 20 dimensions a direction across all of them is 1.3 times too wide."""
    rng = np.random.default_rng(3)
    across = np.ones(20) / np.sqrt(20)
    # The widest direction of the posterior, so that draws show where it is.
    z = rng.normal(size=(4, 1000, 20))
    along = (z @ across)[..., None] * across
    x, gradient = z - along + 1.3 * 3 * along, z - along + 1.3 / 3 * along
    at = centers(x, np.zeros((4, 1000), int))
    each = mean_errors(stein_terms(x, gradient, at).total)
    directions = mean_errors(principal_terms(x, gradient, at))
    ess = np.full(20, 4000.0)
    assert not is_off(each, 40, ess).any()
    assert np.flatnonzero(is_off(directions, 40, ess)).tolist() == [19]
    assert directions.mean[19] == pytest.approx(1.69, abs=0.15)


def _laws(z):
    """Draws of laws from normal ones, with the gradients of their energies."""
    from scipy.stats import norm, t

    u = norm.cdf(z)
    yield "normal", z, z
    x = t.ppf(u, 3)
    yield "Student", x, 4 * x / (3 + x**2)
    x = t.ppf(u, 1)
    yield "Cauchy", x, 2 * x / (1 + x**2)
    x = np.log(-np.log1p(-u))
    yield "log of an exponential", x, np.exp(x) - 1


@pytest.mark.parametrize("phi", [0.0, 0.7, 0.95])
def test_right_draws_are_hardly_ever_called_wrong(phi):
    """About 0.1% of runs by chance; of 480 here, 5 or more have a probability of 1e-4."""
    rng, alarms, count = np.random.default_rng(4), 0, 0
    for _ in range(40):
        z = autocorrelated(rng, phi, (4, 300, 5))
        for _, x, gradient in _laws(z):
            count += 1
            at = centers(x, np.zeros((4, 300), int))
            found, own = mean_errors(stein_terms(x, gradient, at).total), mean_errors(x)
            alarms += is_off(found, 5, own.ess).any()
    assert alarms < 5 * count / 480


def test_wrong_draws_are_called_wrong():
    rng = np.random.default_rng(5)
    for ratio in (0.8, 1.2):
        z = autocorrelated(rng, 0.5, (4, 2000, 5))
        at = centers(ratio * z, np.zeros((4, 2000), int))
        found = mean_errors(stein_terms(ratio * z, ratio * z, at).total)
        assert found.mean == pytest.approx(ratio**2, rel=0.1)
        assert is_off(found, 5, mean_errors(z).ess).all()
