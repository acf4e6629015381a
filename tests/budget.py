"""The failure probability of the whole suite, declared once; every tolerance follows from it.

A statistical check compares a mean over correlated draws with its true value. It may be off
by ``QUANTILE`` Monte-Carlo standard errors (sd over the square root of the measured
effective sample size), plus an allowance for the integrator's bias that the test states.
Bounds outside these functions are either demanded as such or many standard errors wide, and
with fixed seeds do not depend on chance.
"""

import numpy as np
from scipy.stats import norm

from tacthmc.diagnostics._mixing import ess

SUITE_FAILURE_PROBABILITY = 1e-3
CHECKS = 10_000
"""An upper bound on the number of checks, the slow ones included."""

PER_CHECK = SUITE_FAILURE_PROBABILITY / CHECKS
QUANTILE = float(norm.isf(PER_CHECK / 2))

LEAST_ESS = 100
"""Below this a normal law for the mean is not to be trusted, and the check is void."""


def standard_error(values):
    """The Monte-Carlo standard error of the mean of a (chain, draw) array."""
    values = np.asarray(values, float)
    size = ess(values)
    assert size >= LEAST_ESS, f"only {size:.0f} effective draws: the check would mean nothing"
    return values.std() / np.sqrt(size)


def assert_mean(values, truth, allowance=0.0, what="mean"):
    """The mean of a (chain, draw) array is the truth, up to allowance and Monte-Carlo error."""
    values = np.asarray(values, float)
    seen = values.mean()
    error = QUANTILE * standard_error(values)
    assert abs(seen - truth) <= allowance + error, (
        f"{what}: {seen:.5g}, expected {truth:.5g} ± {allowance:.2g} (bias) ± {error:.2g} (noise)"
    )


def assert_off_by(values, truth, least, what="mean"):
    """The mean differs from ``truth`` by at least ``least`` beyond Monte-Carlo error."""
    values = np.asarray(values, float)
    seen, error = values.mean(), QUANTILE * standard_error(values)
    assert abs(seen - truth) >= least + error, (
        f"{what}: {seen:.5g} is too near {truth:.5g} (noise {error:.2g}): it should be wrong"
    )


def total_variation_bound(shares, effective):
    """A bound that the total variation of exact sampling exceeds with ``PER_CHECK``.

    Its mean is at most Σ ½·sqrt(2/π)·sqrt(p(1−p)/n), and it changes by at most 1/n with one
    draw, so McDiarmid's inequality bounds the rest.
    """
    mean = 0.5 * np.sqrt(2 / np.pi) * np.sqrt(shares * (1 - shares) / effective).sum()
    return mean + np.sqrt(np.log(1 / PER_CHECK) / (2 * effective))
