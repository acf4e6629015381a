"""Bridge sampling: known masses, and errors that are as large as they say."""

import numpy as np
import pytest
from scipy.special import gammaln

from tacthmc.diagnostics._bridge import log_mass
from tests.budget import QUANTILE

RUNS = 400


def log_normal(x, mean=0.0, sd=1.0):
    return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi))


def shifted(rng, n1, n2):
    """p is 7·N(0, 1), and q has another center and width."""
    q = 0.5 + 1.4 * rng.normal(size=n2)
    p = rng.normal(size=n1)
    return [np.log(7.0) + log_normal(x) - log_normal(x, 0.5, 1.4) for x in (p, q)]


def half(rng, n1, n2):
    """p is the part of N(0, 1) above zero, of mass ½, and q = N(0.5, 1) reaches below."""
    q, p = 0.5 + rng.normal(size=n2), np.abs(rng.normal(size=n1))
    ratio = log_normal(q) - log_normal(q, 0.5)
    return log_normal(p) - log_normal(p, 0.5), np.where(q > 0, ratio, -np.inf)


def many(rng, n1, n2):
    """p is exp(1000)·N(0, I) in ten dimensions, and q is 1.2 times as wide."""
    p, q = rng.normal(size=(n1, 10)), 1.2 * rng.normal(size=(n2, 10))
    return [1000 + (log_normal(x) - log_normal(x, 0, 1.2)).sum(axis=1) for x in (p, q)]


@pytest.mark.parametrize(
    ("make", "truth"), [(shifted, np.log(7.0)), (half, np.log(0.5)), (many, 1000.0)]
)
@pytest.mark.parametrize("sizes", [(256, 256), (60, 256), (400, 32), (0, 256)])
def test_errors_are_calibrated(make, truth, sizes):
    found = [log_mass(*make(np.random.default_rng(seed), *sizes)) for seed in range(RUNS)]
    z = np.array([(one.value - truth) / one.error for one in found])
    # The estimate of the error of log Z is of first order, so z is a little wider than a normal.
    assert abs(z.mean()) < 0.15 + QUANTILE / np.sqrt(RUNS)
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.2 + QUANTILE / np.sqrt(2 * RUNS)


def test_draws_of_both_are_better_than_those_of_one():
    rng = np.random.default_rng(0)
    of_p, of_q = many(rng, 256, 256)
    assert log_mass(of_p, of_q).error < 0.8 * log_mass(np.zeros(0), of_q).error


def test_correlated_draws_are_worth_fewer():
    """Draws of p that come in runs of ten equal ones, worth a tenth."""
    z, naive = [], []
    for seed in range(RUNS):
        of_p, of_q = many(np.random.default_rng(seed), 40, 256)
        for effective, into in ((40.0, z), (None, naive)):
            found = log_mass(np.repeat(of_p, 10), of_q, effective)
            into.append((found.value - 1000.0) / found.error)
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.2 + QUANTILE / np.sqrt(2 * RUNS)
    assert np.sqrt(np.mean(np.square(naive))) > 1.3


def test_a_gaussian_that_is_the_mode():
    found = log_mass(np.full(50, 3.0), np.full(50, 3.0))
    assert found.value == pytest.approx(3.0)
    assert found.error == pytest.approx(0.0, abs=1e-9)


def test_tails_that_are_far_heavier_than_those_of_the_gaussian():
    """t with 4 degrees of freedom in 10-D: ℓ ranges over hundreds of powers of e."""
    rng = np.random.default_rng(0)
    size, dof = 10, 4.0
    p = rng.normal(size=(256, size)) / np.sqrt(rng.chisquare(dof, (256, 1)) / dof)
    wide = np.sqrt(dof / (dof + size))
    q = wide * rng.normal(size=(256, size))

    def log_t(x):
        constant = gammaln((dof + size) / 2) - gammaln(dof / 2) - size / 2 * np.log(dof * np.pi)
        return constant - (dof + size) / 2 * np.log1p((x**2).sum(axis=1) / dof)

    of_p, of_q = (log_t(x) - log_normal(x, 0.0, wide).sum(axis=1) for x in (p, q))
    assert np.ptp(of_p) > 100
    found = log_mass(of_p, of_q)
    assert 0.01 < found.error < 0.5
    assert abs(found.value) < QUANTILE * found.error


@pytest.mark.parametrize("of_p", [np.zeros(0), np.array([1.0, 2.0])])
@pytest.mark.parametrize("of_q", [np.zeros(0), np.full(5, -np.inf)])
def test_nothing_is_known_without_draws_of_the_gaussian_in_the_mode(of_p, of_q):
    assert log_mass(of_p, of_q) == (-np.inf, np.inf)
