"""Replicas on a path: exact at large steps, swaps and round trips by theory, and log Z.

Statistical checks have the suite's failure probability (2e-7 each, ``tests/budget.py``). With
trajectories there is no allowance for the step size: there is a Metropolis test.
"""

from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, t

import tacthmc
from tacthmc import Keep
from tacthmc.samplers import gaussian_base, with_base
from tacthmc.samplers._gaussian_reference import GaussianReference
from tacthmc.targets import GaussianMixture
from tests.budget import PER_CHECK, QUANTILE, assert_mean
from tests.claims.test_rivals import RoughEnergy

KEY = jax.random.key(0)
WEIGHTS, SD, AWAY, LOG_Z = np.array([0.8, 0.2]), 0.7, 3.0, -7.5
LADDER = (1, 0.3, 0.07, 0)
LARGE, SMALL = 0.9, 0.05
"""Step sizes η. At the large one, a fifth of all trajectories are rejected at the target."""
STEP_BIAS = 0.02
"""The allowance for the step size without a Metropolis test, relative."""


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def pair(size):
    """Two modes that local moves do not connect, with exp(−U) = Z·density."""
    means = np.zeros((2, size), np.float32)
    means[:, 0] = -AWAY, AWAY
    mixture = GaussianMixture(jnp.asarray(means), jnp.asarray(WEIGHTS, jnp.float32), SD)
    return tacthmc.potential(lambda x: mixture(x) - LOG_Z)


def assert_evidence(run, truth, largest_error):
    """log Z is right, and its error is of the right size."""
    found = run.sampler.evidence(run.state)
    bound = t.isf(PER_CHECK / 2, run.num_chains - 1)
    assert abs(found.value - truth) <= bound * found.error
    assert found.error < largest_error


@pytest.mark.parametrize(
    ("size", "step_size", "leaps"), [(2, LARGE, 3), slow(1, LARGE, 1), slow(2, SMALL, 10)]
)
def test_a_mixture_at_any_step_size(size, step_size, leaps):
    sampler = tacthmc.replica_exchange(
        step_size,
        inverse_temperatures=LADDER,
        base=gaussian_base(0.0, 3.0),
        num_leapfrog=leaps,
    )
    assert sampler.gradients_per_step == 3 * leaps + 1
    start = jnp.full(size, AWAY)
    run = tacthmc.sample(KEY, sampler, pair(size), start, 6_000, 16, keep=Keep(every=2))
    assert not run.failures
    rates = np.asarray(sampler.acceptance_rates(run.state))
    assert np.all(rates[:, 0] < 0.9 if step_size == LARGE else rates[:, 0] > 0.95), rates
    assert np.all(rates[:, -1] == 0)
    first = run.draws[..., 0] < 0
    nearest = np.where(first, -AWAY, AWAY)
    assert_mean(first, WEIGHTS[0], what="weight")
    assert_mean(run.draws[..., 0], AWAY * (WEIGHTS[1] - WEIGHTS[0]), what="mean")
    # Draws are assigned to the nearest mode: of the 1e-5 beyond the ridge, nothing is seen.
    assert_mean((run.draws[..., 0] - nearest) ** 2, SD**2, what="variance within modes")
    if size > 1:
        assert_mean(run.draws[..., 1] ** 2, SD**2, what="variance across")
    assert_evidence(run, LOG_Z, 0.05)
    assert "log Z relative to the base: -7." in str(run.summary())


def wide(size, scale, ladder, **settings):
    """Replicas between N(0, scale²) and N(0, 1), whose energies are independent from step to
    step: trajectories turn by about a quarter of a circle."""
    lam = np.array(ladder)
    quarter = (np.pi / 2 / 4) ** 2 / ((1 - lam) / scale**2 + lam)
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    sampler = tacthmc.replica_exchange(
        quarter.tolist(),
        inverse_temperatures=ladder,
        base=gaussian_base(0.0, scale),
        num_leapfrog=4,
        **settings,
    )
    return sampler, target, jnp.zeros(size)


def rejection(size, scale, cold, hot):
    """The rejection rate between two rungs, by the laws of U1 there."""
    rng = np.random.default_rng(0)
    half = 0.5 * (1 - 1 / scale**2)
    energies = [
        half * rng.chisquare(size, 1_000_000) / ((1 - lam) / scale**2 + lam) for lam in (cold, hot)
    ]
    odds = (cold - hot) * (energies[0] - energies[1])
    return 1 - np.exp(np.minimum(odds, 0)).mean()


@cache
def travels():
    ladder = (1.0, 0.5, 0.2, 0.05, 0.0)
    sampler, target, start = wide(6, 4.0, ladder)
    run = tacthmc.sample(KEY, sampler, target, start, 8_000, 16, keep=Keep(every=1, after=0))
    return ladder, run


def test_swaps_are_accepted_as_often_as_theory_says():
    ladder, run = travels()
    rates = 1 - np.asarray(run.sampler.swap_rates(run.state))
    expected = [rejection(6, 4.0, *both) for both in pairwise(ladder)]
    # The spread over chains gives the error, which is far above that of the million pairs.
    error = rates.std(axis=0, ddof=1) / np.sqrt(len(rates))
    assert np.all(np.abs(rates.mean(axis=0) - expected) < t.isf(PER_CHECK / 2, 15) * error)
    assert np.all(error < 0.01)
    barrier = run.sampler.barrier(run.state)
    assert barrier.total == pytest.approx(sum(expected), abs=0.05)


def simulated_arrivals(rejections, steps, seed=0):
    """Arrivals at the target from the base, of an index process whose swaps are independent."""
    rng = np.random.default_rng(seed)
    rungs = len(rejections) + 1
    came, arrivals = np.zeros(rungs, bool), 0
    pairs = np.arange(rungs - 1)
    for step in range(1, steps + 1):
        came[-1] = True
        due = pairs % 2 == (step + 1) % 2
        for i in pairs[due & (rng.random(rungs - 1) > rejections)]:
            came[[i, i + 1]] = came[[i + 1, i]]
        arrivals += came[0]
        came[0] = False
    return arrivals


def test_round_trips_are_those_of_an_index_process():
    _, run = travels()
    barrier = run.sampler.barrier(run.state)
    seen = np.asarray(run.state.round_trips)
    many = np.array([simulated_arrivals(barrier.rejections, 8_000, k) for k in range(16)])
    error = np.hypot(seen.std(ddof=1), many.std(ddof=1)) / 4
    assert abs(seen.mean() - many.mean()) < QUANTILE * error + 0.03 * many.mean()
    # Both know the formula of non-reversible swaps, 2 + 2Σr/(1 − r) rounds a trip.
    assert many.mean() * barrier.trip == pytest.approx(8_000, rel=0.05)


def test_round_trips_are_counted_from_the_places_of_replicas():
    """Arrivals follow from the recorded permutations, for all replicas and for the first one."""
    sampler, target, start = wide(2, 3.0, (1.0, 0.4, 0.1, 0.0))

    def chain(key):
        first, rest = jax.random.split(key)

        def step(state, key):
            state, info = sampler.step(key, state, target, ())
            return state, (state.number, state.round_trips, info.at_unit_temperature, info.hot)

        return jax.lax.scan(step, sampler.init(first, start), jax.random.split(rest, 500))[1]

    numbers, trips, cold, hot = (np.asarray(x) for x in jax.jit(chain)(KEY))
    came, arrivals = np.zeros(4, bool), 0
    before = np.arange(4)
    for step in range(500):
        came[before[-1]] = True
        assert sorted(numbers[step]) == [0, 1, 2, 3]
        arrivals += came[numbers[step][0]]
        came[numbers[step][0]] = False
        assert trips[step] == arrivals
        assert cold[step] == (numbers[step][0] == 0)
        assert hot[step] == (numbers[step][-1] == 0)
        before = numbers[step]
    assert arrivals > 20


@pytest.mark.parametrize("exact", [True, slow(False)])
def test_every_rung_has_its_density(exact):
    """In a Gaussian the variance is 1/((1 − λ)/s² + λ) on the rung λ, right after swaps too."""
    ladder, scale = (1.0, 0.3, 0.0), 3.0
    lam = np.array(ladder)
    target, base = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), gaussian_base(0.0, scale)
    numbers = {"num_leapfrog": 2} if exact else {"swap_every": 2}
    size = 1.5 if exact else 0.02
    sampler = tacthmc.replica_exchange(size, inverse_temperatures=ladder, base=base, **numbers)

    def chain(key):
        first, rest = jax.random.split(key)

        def step(state, key):
            return sampler.step(key, state, target, ())[0], None

        def block(state, key):
            state, _ = jax.lax.scan(step, state, jax.random.split(key, 3 if exact else 20))
            return state, jax.vmap(sampler.move.position)(state.replicas)

        return jax.lax.scan(
            block, sampler.init(first, jnp.zeros(2)), jax.random.split(rest, 2_000)
        )[1]

    theta = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(KEY, 8)), float)[:, 100:]
    for k, variance in enumerate(1 / ((1 - lam) / scale**2 + lam)):
        allowance = 0.0 if exact else STEP_BIAS * variance
        assert_mean(theta[..., k, 0] ** 2, variance, allowance, f"variance at {k}")
    # The replica at the base is drawn afresh.
    last = theta[..., -1, 0]
    shift = np.mean(last[:, 1:] * last[:, :-1]) / scale**2
    assert abs(shift) < QUANTILE / np.sqrt(last.size)


def posterior(batch_size=10, **settings):
    data = np.random.default_rng(0).normal(1.0, 1.0, (10, 1)).astype(np.float32)
    return data, tacthmc.posterior(
        lambda m: -0.5 * jnp.sum(m**2) / 4 - 0.5 * np.log(2 * np.pi * 4),
        lambda m, x: jnp.sum(-0.5 * (x - m) ** 2 - 0.5 * np.log(2 * np.pi)),
        jnp.asarray(data),
        batch_size,
        **settings,
    )


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [True, False])
def test_the_prior_is_the_base_of_a_posterior(drawn):
    """A conjugate Gaussian: posterior moments and the log evidence are known."""
    data, model = posterior()
    truth = multivariate_normal(np.zeros(10), np.eye(10) + 4.0).logpdf(data[:, 0])
    # The prior as a base that the sampler knows, or that belongs to the potential.
    base = gaussian_base(0.0, 2.0) if drawn else None
    potential = model if drawn else tacthmc.temper_likelihood(model)
    sampler = tacthmc.replica_exchange(
        [0.15, 0.6, 3.0, 4.0],
        inverse_temperatures=(1, 0.25, 0.05, 0),
        base=base,
        num_leapfrog=2,
    )
    run = tacthmc.sample(KEY, sampler, potential, jnp.zeros(1), 8_000, 8, keep=Keep(every=1))
    assert_mean(run.draws[..., 0], data.sum() / 10.25, what="posterior mean")
    assert_mean((run.draws[..., 0] - data.sum() / 10.25) ** 2, 1 / 10.25, what="posterior variance")
    assert_evidence(run, truth, 0.05)


@pytest.mark.slow
def test_a_tempered_block():
    """U1 is 4(b² − 1)², and the ladder ends at λ = 0.1, where it can still be normalized."""
    target = tacthmc.potential(
        lambda p: 0.5 * jnp.sum(p["w"] ** 2) + jnp.sum(4.0 * (p["b"] ** 2 - 1.0) ** 2)
    )
    split = tacthmc.potentials.temper_block(target, {"w": False, "b": True}, reference=1.0)
    sampler = tacthmc.replica_exchange([0.06, 0.2], inverse_temperatures=(1, 0.1), num_leapfrog=2)
    assert sampler.gradients_per_step == 4
    start = {"w": jnp.zeros(3), "b": jnp.ones(1)}
    run = tacthmc.sample(KEY, sampler, split, start, 20_000, 16, keep=Keep(every=2))
    assert_mean(run.draws["b"][..., 0] > 0, 0.5, what="weight")
    assert_mean(run.draws["w"][..., 0] ** 2, 1.0, what="variance of the rest")
    b = np.linspace(-4, 4, 20_001)
    walls = 4.0 * (b**2 - 1.0) ** 2
    truth = np.log(np.exp(-walls).sum() / np.exp(-0.1 * walls).sum())
    assert_evidence(run, truth, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["likelihood", "block"])
def test_given_temperatures_of_a_part(part):
    """With ``temperatures``, λ = 1/T multiplies the tempered part only."""
    sampler = tacthmc.replica_exchange(0.02, temperatures=(1, 3, 9))
    if part == "likelihood":
        # An epoch of one batch has all data, without the noise of drawing with replacement.
        data, model = posterior(batches="epochs")
        split, start = tacthmc.temper_likelihood(model), jnp.zeros(1)
        mean, variance = data.sum() / 10.25, 1 / 10.25
    else:
        target = tacthmc.potential(lambda p: 0.5 * jnp.sum((p["a"] + p["b"]) ** 2 + p["b"] ** 2))
        split = tacthmc.potentials.temper_block(target, {"a": False, "b": True}, reference=0.0)
        start, mean, variance = {"a": jnp.zeros(1), "b": jnp.zeros(1)}, 0.0, 1.0
    run = tacthmc.sample(KEY, sampler, split, start, 40_000, 16, keep=Keep(every=20))
    values = run.draws[..., 0] if part == "likelihood" else run.draws["b"][..., 0]
    assert_mean(values, mean, STEP_BIAS * abs(mean), "mean")
    assert_mean((values - mean) ** 2, variance, STEP_BIAS * variance, "variance")
    assert np.asarray(sampler.swap_rates(run.state)).min() > 0.4


@pytest.mark.slow
def test_a_base_that_cannot_be_drawn_from():
    """A logistic density: its replica has trajectories of its own."""
    base = tacthmc.potential(lambda x: jnp.sum(x + 2 * jax.nn.softplus(-x)))
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum((x - 2.0) ** 2))
    sampler = tacthmc.replica_exchange(
        [1.0, 2.0, 4.0], inverse_temperatures=(1, 0.3, 0), base=base, num_leapfrog=2
    )
    assert sampler.gradients_per_step == 6
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(1), 8_000, 16, keep=Keep(every=2))
    assert_mean(run.draws[..., 0], 2.0)
    assert_evidence(run, 0.5 * np.log(2 * np.pi), 0.02)
    assert np.asarray(sampler.acceptance_rates(run.state)).min() > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("given", ["known", "measured"])
def test_weights_of_modes_with_noisy_energies(given):
    sd = 1.5
    v = 2 * sd**2 if given == "known" else given
    sampler = tacthmc.replica_exchange(
        [0.03, 0.06, 0.1],
        inverse_temperatures=(1, 0.3, 0),
        base=gaussian_base(0.0, 3.0),
        energy_noise=v,
    )
    target = RoughEnergy(pair(2), sd)
    start = jnp.array([-AWAY, 0.0])
    run = tacthmc.sample(KEY, sampler, target, start, 100_000, 16, keep=Keep(every=20))
    first = run.draws[..., 0] < 0
    assert_mean(first, WEIGHTS[0], STEP_BIAS * WEIGHTS[0], "weight of the first mode")
    assert np.asarray(run.state.round_trips).min() > 50
    # The noise of both rungs of a pair is the same, and cancels in the bridge.
    found = sampler.evidence(run.state)
    assert abs(found.value - LOG_Z) < 0.1 + t.isf(PER_CHECK / 2, 15) * found.error
    if given == "measured":
        seen = np.asarray(run.state.measured.variance).mean(axis=0)
        assert np.all((seen > 0.97 * 2 * sd**2) & (seen < 1.3 * 2 * sd**2)), seen


def test_a_gaussian_of_any_covariance():
    """It is normalized, draws have its moments, and leaves keep their order."""
    scale = np.array([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.3, 0.1, 0.5]])
    mean = np.array([1.0, -2.0, 0.5])
    base = GaussianReference(mean, scale)
    here = {"a": jnp.array([0.3, -1.0]), "b": jnp.asarray(2.0)}
    truth = -multivariate_normal(mean, scale @ scale.T).logpdf([0.3, -1.0, 2.0])
    assert np.isclose(base.energy(here), truth, rtol=1e-5)

    def one(key):
        normal = jax.random.normal(key, (3,))
        return base.drawn({"a": normal[:2], "b": normal[2]})

    drawn = jax.vmap(one)(jax.random.split(KEY, 100_000))
    vectors = np.concatenate([drawn["a"], np.asarray(drawn["b"])[:, None]], axis=1)
    assert np.allclose(np.cov(vectors.T), scale @ scale.T, atol=0.06)
    assert np.allclose(vectors.mean(axis=0), mean, atol=0.03)


def test_an_unstable_start_stays_where_it_is():
    """Energies of the start are found before anything moves, however long steps are."""
    target = tacthmc.potential(lambda x: jnp.sum(x**4))
    sampler = tacthmc.replica_exchange(
        1e4, inverse_temperatures=(1, 0), base=gaussian_base(), num_leapfrog=5
    )
    state = sampler.init(KEY, jnp.ones(2))
    # After the first step there is a swap, so look at both rungs.
    state, info = sampler.step(KEY, state, target, ())
    assert np.all(np.isfinite(state.replicas.fixed))
    assert np.isfinite(info.energy)
    places = np.asarray(state.replicas.position)
    assert np.any(np.all(places == 1.0, axis=1))


def refused(**settings):
    return tacthmc.replica_exchange(0.1, inverse_temperatures=(1, 0), **settings)


@pytest.mark.parametrize(
    ("build", "potential", "message"),
    [
        (lambda: refused(num_leapfrog=2), lambda: posterior(5)[1], "batches of 5 out of 10"),
        (lambda: refused(num_leapfrog=2), lambda: pair(1), "replicas on a path need a base"),
        (
            lambda: refused(base=gaussian_base()),
            lambda: with_base(pair(1), gaussian_base()),
            "leave out base",
        ),
    ],
)
def test_potentials_it_refuses(build, potential, message):
    sampler = build()
    state = sampler.init(KEY, jnp.zeros(1))
    with pytest.raises(ValueError, match=message):
        sampler.step(KEY, state, potential(), ())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: refused(temperatures=(1, 2)), "temperatures does not go with"),
        (lambda: refused(num_leapfrog=2, noise=0.1), "noise is not for trajectories"),
        (lambda: tacthmc.replica_exchange(0.1, base=gaussian_base()), "base needs inverse"),
        (lambda: tacthmc.replica_exchange(noise=0.1), "noise needs a step size"),
        (
            lambda: tacthmc.replica_exchange(0.1, inverse_temperatures=(1, 0.5, 0.7)),
            "that fall from 1",
        ),
        (
            lambda: tacthmc.replica_exchange([0.1, 0.2, 0.3], inverse_temperatures=(1, 0)),
            "step_size must be a number, or 2 of them",
        ),
        (lambda: tacthmc.replica_exchange(inverse_temperatures=(0.5, 0)), "that fall from 1"),
    ],
)
def test_bad_settings(build, message):
    with pytest.raises(ValueError, match=message):
        build()
