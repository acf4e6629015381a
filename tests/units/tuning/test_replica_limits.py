"""What the warm-up of replicas refuses, what it does without a usable prior, and what it costs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.samplers import gaussian_base
from tacthmc.samplers._replica_ladder import Barrier
from tacthmc.tuning._curvature import largest_curvature
from tacthmc.tuning._mode_search import Found, Search
from tacthmc.tuning._replica_base import (
    LAST_PART,
    MAX_PRIOR_BARRIER,
    base_of_modes,
    is_flat,
    known_base,
    prior_barrier,
    widening,
)
from tacthmc.tuning._replica_budget import WARM_UP_SHARE
from tacthmc.tuning._replica_travel import check_given_ladder
from tests.budget import assert_mean

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
START = jnp.zeros(2)
NOTHING = Search([], [], 0, 0, 0, "not searched")


def posterior(log_prior):
    return tacthmc.posterior(
        log_prior, lambda x, y: -0.5 * jnp.sum((y - x) ** 2), jnp.ones((4, 2)), 4
    )


def of_width(sd):
    return posterior(lambda x: -0.5 * jnp.sum((x / sd) ** 2))


def flat(x):
    return 0.0 * jnp.sum(x)


def found(*centers, sd=0.5, elsewhere=()):
    modes = [
        Found(np.asarray(c, float), sd * np.eye(len(c)), 0.0, np.asarray(c, float)) for c in centers
    ]
    return Search(modes, [9] * len(modes), 20, 1, 100, "", elsewhere)


def test_the_barrier_of_a_wide_prior():
    """√(2D/π)·log w for large w."""
    modes = base_of_modes(found([0.0, 0.0]).found)
    sd = 0.5 * widening(2)
    for width in (100.0, 10_000.0):
        prior = known_base(of_width(width * sd), None, NOTHING, START)
        expected = np.sqrt(4 / np.pi) * np.log(width)
        assert prior_barrier(prior, modes) == pytest.approx(expected, rel=0.1)
    # One that is narrower has none.
    assert prior_barrier(modes, prior) < 1e-6


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (of_width(3.0), "the prior"),
        (of_width(1e4), "a Gaussian of the only mode, 1.6 times wider; the prior is far too wide"),
        (posterior(flat), "a Gaussian of the only mode, 1.6 times wider; the prior is improper"),
    ],
    ids=["usual", "far too wide", "improper"],
)
def test_a_prior_that_is_no_base(target, why):
    base = known_base(target, None, found([1.0, 1.0]), START)
    assert base.why == why
    assert base.adapts == (why != "the prior")
    if base.adapts:
        assert np.abs(base.gaussian.mean - 1.0).max() < 1e-6


def test_a_prior_far_too_wide_for_one_mode_suits_distant_ones():
    target, near = of_width(1e4), [[1.0, 1.0]]
    far = [[1e4, 0.0], [-1e4, 0.0], [0.0, 1e4], [0.0, -1e4]]
    assert (
        prior_barrier(known_base(target, None, NOTHING, START), base_of_modes(found(*far).found))
        < MAX_PRIOR_BARRIER
    )
    assert known_base(target, None, found(*far), START).why == "the prior"
    assert known_base(target, None, found(*near), START).why != "the prior"


def test_only_energies_that_do_not_change_are_flat():
    assert is_flat(flat, np.zeros(2))
    assert is_flat(lambda x: x[0] ** 2, np.zeros(2))
    for rising in (
        lambda x: jnp.sum(jnp.abs(x)),
        lambda x: jnp.sum(jnp.log1p(x**2)),
        lambda x: jnp.sum(x**2),
    ):
        assert not is_flat(rising, np.zeros(2))


def test_a_prior_without_curvature_is_a_base():
    """A Laplace density is straight, but it can be normalized."""
    split = tacthmc.temper_likelihood(posterior(lambda x: -jnp.sum(jnp.abs(x))))
    assert known_base(split, None, NOTHING, START + 1.0).last == 0.0
    split = tacthmc.temper_likelihood(posterior(flat))
    assert known_base(split, None, NOTHING, START + 1.0).last == LAST_PART


def test_a_base_covers_ends_that_are_no_modes():
    angles = np.linspace(0, 2 * np.pi, 30)
    ring = 20.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    low = tuple((1.0, one) for one in ring)
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    base = known_base(target, None, found([0.0, 0.0], elsewhere=low), START)
    assert np.sqrt(np.linalg.eigvalsh(base.covariance)).min() > 20 / np.sqrt(2)
    # Ends at high energies are failures of minimizations.
    high = tuple((1e3, one) for one in ring)
    base = known_base(target, None, found([0.0, 0.0], elsewhere=high), START)
    assert base.widened == 1.0


@pytest.fixture(scope="module")
def ring():
    """A ring of weight 0.7 around a Gaussian: no minimum on the ring is isolated."""
    radius = np.linspace(1e-6, 14, 100_001)
    mass = np.trapezoid(2 * np.pi * radius * np.exp(-2 * (radius - 8) ** 2), radius)
    inside = np.log(0.3 / (2 * np.pi * 0.16))

    def energy(x):
        r = jnp.sqrt(jnp.sum(x**2) + 1e-12)
        around = float(np.log(0.7 / mass)) - 2 * (r - 8) ** 2
        return -jnp.logaddexp(around, float(inside) - 0.5 * r**2 / 0.16)

    target, start = tacthmc.potential(energy), jnp.full(2, 0.1)
    sampler = tacthmc.replica_exchange()
    return tacthmc.sample(KEY, sampler, target, start, 4_000, 8, progress=False)


def test_a_ring_is_not_forgotten(ring):
    """Shares and log Z = 0, from a start in the Gaussian at the center."""
    inside = np.linalg.norm(ring.draws, axis=-1) < 4
    assert_mean(inside, 0.3, what="share of the center")
    found = ring.sampler.evidence(ring.state)
    assert abs(found.value) < 6 * found.error
    assert found.error < 0.1


def test_the_warm_up_takes_at_most_a_fifth(ring):
    whole = ring.num_steps * ring.num_chains * ring.sampler.gradients_per_step
    assert ring.tuning.gradients < WARM_UP_SHARE * whole
    assert "of those of the run" in str(ring.summary())


def test_a_ladder_closes_a_gap_at_zero_quickly():
    """Swaps with a base 1e5 times wider than the target in two dimensions."""

    def rejections(lam):
        variance = 1 / ((1 - lam) * 1e-10 + lam)
        ratio = variance[1:] / variance[:-1]
        return (np.sqrt(ratio) - 1) / (np.sqrt(ratio) + 1)

    lam = np.append(np.geomspace(1, 1e-3, 9), 0.0)
    for _ in range(6):
        lam = Barrier(lam, rejections(lam)).equalized(24)
    assert np.ptp(rejections(lam)) < 0.05


def test_ladders_on_which_replicas_would_not_travel_are_refused():
    lam = np.array([1.0, 0.3, 0.0])
    check_given_ladder(Barrier(lam, np.array([0.9, 0.95])), None)
    check_given_ladder(Barrier(lam, np.array([0.9, 0.95])), 1_000.0)
    with pytest.raises(tacthmc.TuningError, match=r"99\.9% of swaps between λ = 0\.3 and 0 were"):
        check_given_ladder(Barrier(lam, np.array([0.2, 0.999])), None)
    with pytest.raises(tacthmc.TuningError, match=r"must let replicas travel: 95\.0%"):
        check_given_ladder(Barrier(lam, np.array([0.9, 0.95])), 400.0)


def test_what_cannot_work_is_refused_before_sampling():
    """No base to end at, a base that is no density, and a hot end where barriers are high."""
    deep = tacthmc.potential(lambda x: 30.0 * jnp.sum((x**2 - 1.0) ** 2))
    split = tacthmc.temper_likelihood(posterior(flat))
    to_zero = tacthmc.replica_exchange(inverse_temperatures=(1, 0.3, 0))
    no_base = tacthmc.replica_exchange(base=tacthmc.potential(flat))
    cold = tacthmc.replica_exchange(inverse_temperatures=(1, 0.9, 0.8))
    for sampler, target, error, match in (
        (to_zero, split, ValueError, "inverse_temperatures must end at λ > 0"),
        (no_base, deep, ValueError, "base must be the energy of a density"),
        (cold, deep, tacthmc.TuningError, r"no replica got from mode to mode .* λ = 0\.8"),
    ):
        with pytest.raises(error, match=match):
            tacthmc.sample(KEY, sampler, target, jnp.ones(2), 500, 2, progress=False)


def test_curvature_with_double_precision():
    """The warm-up with mini-batches begins with it."""
    with jax.enable_x64(True):
        target = tacthmc.potential(lambda x: 2.0 * jnp.sum(x**2))
        for dtype in (jnp.float32, jnp.float64):
            assert largest_curvature(KEY, target, jnp.ones(2, dtype)) == pytest.approx(4.0)


def test_one_chain_has_an_error_of_log_z():
    base = gaussian_base(0.0, 3.0)
    sampler = tacthmc.replica_exchange(
        0.5, inverse_temperatures=(1, 0.3, 0), base=base, num_leapfrog=2
    )
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(1), 2_000, 1, progress=False)
    found = sampler.evidence(run.state)
    assert abs(found.value - 0.5 * np.log(2 * np.pi)) < 6 * found.error
    assert 0 < found.error < 0.1
