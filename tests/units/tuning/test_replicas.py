"""``replica_exchange()`` without a number: its base, its ladder, and what it says of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, t

import tacthmc
from tacthmc.samplers import UntunedReplicas, gaussian_base, with_base
from tacthmc.samplers._metropolis import Metropolis
from tacthmc.samplers._replica_path import ReplicaPath
from tacthmc.tuning._mode_search import Found, Search
from tacthmc.tuning._replica_base import (
    LAST_PART,
    Shapes,
    base_of_draws,
    base_of_modes,
    known_base,
    shapes_of,
    starts_in_modes,
    widening,
)
from tests.budget import PER_CHECK, assert_mean

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
NOTHING = Search([], [], 0, 0, 0, "not searched")


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def wells(x):
    """Two wells in x₀ whose weights differ, and a unit Gaussian in the others."""
    return jnp.sum(4.0 * (x[0] ** 2 - 1.0) ** 2 + 0.5 * x[0]) + 0.5 * jnp.sum(x[1:] ** 2)


def of_wells(function):
    """The integral of a function of x₀ times exp(−U)."""
    return quad(lambda x: function(x) * np.exp(-4 * (x**2 - 1) ** 2 - 0.5 * x), -4, 4)[0]


@pytest.fixture(scope="module")
def run():
    target = tacthmc.potential(wells)
    sampler = tacthmc.replica_exchange()
    return tacthmc.sample(KEY, sampler, target, jnp.ones(2), 4_000, 16, progress=False)


def test_the_whole_run(run):
    sampler, tuning = run.sampler, run.tuning
    assert isinstance(sampler, ReplicaPath)
    assert isinstance(sampler.move, Metropolis)
    names = [choice.name for choice in tuning.choices]
    assert names == [
        *("base", "barrier", "replicas", "inverse_temperatures"),
        *("num_leapfrog", "step_size", "keep_every"),
    ]
    assert "a Gaussian of 2 modes" in str(tuning)
    assert tuning.modes.count == 2
    assert 1_000 < tuning.gradients < 60_000
    # What tuning said of the barrier holds for the run.
    barrier = sampler.barrier(run.state)
    assert barrier.total == pytest.approx(tuning["barrier"], abs=0.15)
    assert len(barrier.rejections) == tuning["replicas"] - 1 <= np.ceil(2 * barrier.total) + 1
    assert np.ptp(barrier.rejections) < 0.1
    rates = np.asarray(sampler.acceptance_rates(run.state)).mean(axis=0)[:-1]
    assert np.all((rates > 0.5) & (rates < 0.8)), rates


def test_the_draws_of_the_whole_run(run):
    whole = of_wells(lambda x: 1.0)
    assert_mean(run.draws[..., 0] < 0, of_wells(lambda x: float(x < 0)) / whole, what="weight")
    assert_mean(run.draws[..., 0] ** 2, of_wells(lambda x: x * x) / whole, what="square")
    assert_mean(run.draws[..., 1] ** 2, 1.0, what="other square")
    found = run.sampler.evidence(run.state)
    truth = np.log(whole) + 0.5 * np.log(2 * np.pi)
    assert abs(found.value - truth) < t.isf(PER_CHECK / 2, 15) * found.error
    assert found.error < 0.02
    text = str(run.summary())
    assert "barrier Λ = " in text
    assert "log Z relative to the base" in text
    assert "shares of 2 modes" in text


def gaussian_prior(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2) / 9.0


def student_prior(x):
    return -2.5 * jnp.sum(jnp.log1p(x**2 / 4.0))


def of_prior(log_prior, batch_size=4, **settings):
    return tacthmc.posterior(
        log_prior,
        lambda x, y: -0.5 * jnp.sum((y - x) ** 2),
        jnp.ones((4, 2)),
        batch_size,
        **settings,
    )


def test_the_prior_is_a_base():
    start = jnp.zeros(2)
    known = known_base(of_prior(gaussian_prior), None, NOTHING, start)
    assert (known.why, known.adapts, known.of_potential) == ("the prior", False, False)
    np.testing.assert_allclose(known.covariance, 9 * np.eye(2), rtol=1e-4)
    np.testing.assert_allclose(known.gaussian.mean, [1.0, 1.0], atol=1e-4)
    # One that is not a Gaussian lends its curvature, and is widened where draws are.
    near = known_base(of_prior(student_prior), None, NOTHING, start)
    assert "the mode of the prior" in near.why
    assert near.adapts
    np.testing.assert_allclose(near.covariance, 4 / 5 * np.eye(2), rtol=1e-3)


@pytest.mark.parametrize(
    ("build", "last", "drawn"),
    [
        (lambda: tacthmc.temper_likelihood(of_prior(gaussian_prior)), 0.0, True),
        slow(lambda: tacthmc.temper_likelihood(of_prior(student_prior)), 0.0, False),
        slow(lambda: with_base(tacthmc.potential(wells), gaussian_base(1.0, 3.0)), 0.0, True),
        # Without a prior, or with a block that U0 does not hold, there is no base.
        slow(lambda: tacthmc.temper_likelihood(of_prior(lambda x: 0.0 * jnp.sum(x))), None, False),
    ],
)
def test_the_base_of_a_potential(build, last, drawn):
    known = known_base(build(), None, NOTHING, jnp.zeros(2))
    assert known.of_potential
    assert not known.adapts
    assert known.last == (LAST_PART if last is None else last)
    assert (known.gaussian is not None) == drawn


def found_modes(centers, sds):
    return [
        Found(np.asarray(c, float), s * np.eye(len(c)), 0.0, np.asarray(c, float))
        for c, s in zip(centers, sds, strict=True)
    ]


def test_a_gaussian_covers_all_modes():
    base = base_of_modes(found_modes([[-3.0, 0.0], [3.0, 0.0], [0.0, 4.0]], [0.5, 0.5, 1.0]))
    w = widening(2) ** 2
    across = np.array([[9.0 * 2 / 3, 0.0], [0.0, 16 * 2 / 9]]) * (4 / 2)
    np.testing.assert_allclose(base.covariance, w * (across + np.eye(2)), atol=1e-9)
    assert base.why.startswith("a Gaussian of 3 modes")
    alone = base_of_modes(found_modes([[1.0, 2.0]], [0.5]))
    np.testing.assert_allclose(alone.covariance, w * 0.25 * np.eye(2))


def test_a_base_is_widened_where_draws_are():
    rng = np.random.default_rng(0)
    base = base_of_modes(found_modes([[0.0, 0.0]], [1.0]))
    inside = rng.normal(size=(4_000, 2))
    assert base.covering(inside, 400.0) is base
    # Twice as wide along a diagonal only.
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    wide = rng.normal(size=(4_000, 2)) * [5.0, 0.5] @ turn
    wider = base.covering(wide, 4_000.0)
    variances = np.diag(turn @ wider.covariance @ turn.T)
    w = widening(2) ** 2
    assert variances[0] == pytest.approx(25 * w, rel=0.15)
    assert variances[1] == pytest.approx(w, rel=0.01)
    assert "times wider where draws are" in wider.reason
    np.testing.assert_allclose(
        wider.gaussian.scale @ wider.gaussian.scale.T, wider.covariance, rtol=1e-4
    )


def test_a_base_of_draws():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4_000, 2)) * [3.0, 1.0] + [5.0, 0.0]
    base = base_of_draws(draws, 3.0)
    sds = np.sqrt(np.diag(base.covariance)) / widening(2)
    assert sds == pytest.approx([3.0, 1.0], rel=0.1)
    few = base_of_draws(draws[:3], 1.0)
    assert few.covariance.ndim == 1


def test_widening_costs_half_a_barrier():
    """The barrier between N(0, w²) and N(0, 1), from the local rates ½E|U1 − U1′|."""
    rng = np.random.default_rng(0)
    for size in (4, 50):
        w = widening(size)
        lam = np.linspace(0, 1, 401)
        spread = np.abs(np.diff(rng.chisquare(size, (2, 400_000)), axis=0)).mean()
        local = 0.5 * 0.5 * (1 - 1 / w**2) * spread / ((1 - lam) / w**2 + lam)
        assert np.trapezoid(local, lam) == pytest.approx(0.5, rel=0.06)


def test_scales_of_steps_lie_between_those_of_base_and_modes():
    base, target = np.diag([0.04, 1.0]), np.array([[4.0, 1.0], [1.0, 2.0]])
    scales = Shapes(base, target).scales(np.array([1.0, 0.5, 0.0]))
    inverses = [np.linalg.inv(target), np.linalg.inv((base + target) / 2), np.linalg.inv(base)]
    np.testing.assert_allclose(scales @ scales.swapaxes(1, 2), inverses, rtol=1e-9)
    flat = Shapes(np.array([0.04, 1.0]), np.array([4.0, 2.0])).scales(np.array([1.0, 0.0]))
    np.testing.assert_allclose(flat, [[0.5, 2**-0.5], [5.0, 1.0]])


def test_starts_are_in_modes_by_their_weights():
    found = found_modes([[-5.0, 0.0], [5.0, 0.0]], [1.0, 0.5])
    search = Search(found, [2, 2], 4, 1, 10)
    # Laplace's weights are 4 to 1.
    rng, scales = np.random.default_rng(0), 0.1 * np.ones((3, 2))
    starts = starts_in_modes(rng, found, scales, 2_000)
    assert starts.shape == (2_000, 3, 2)
    assert np.mean(starts[..., 0] < 0) == pytest.approx(0.8, abs=0.03)
    shapes = shapes_of(base_of_modes(found), search, jnp.zeros(2))
    np.testing.assert_allclose(shapes.target, (0.8 + 0.2 * 4) * np.eye(2))


def test_what_is_given_is_shown_and_checked():
    given = tacthmc.replica_exchange(inverse_temperatures=(1, 0.2, 0), base=gaussian_base(0.0, 2.0))
    assert isinstance(given, UntunedReplicas)
    assert sorted(given.given) == ["base", "inverse_temperatures"]
    with pytest.raises(ValueError, match="num_leapfrog must be"):
        tacthmc.replica_exchange(num_leapfrog=0)


@pytest.mark.slow
def test_given_parts_are_kept():
    ladder, base = (1, 0.2, 0.02, 0), gaussian_base(0.0, 2.0)
    untuned = tacthmc.replica_exchange(inverse_temperatures=ladder, base=base, num_leapfrog=3)
    sampler = tacthmc.tune(KEY, untuned, tacthmc.potential(wells), jnp.ones(2), progress=False)
    np.testing.assert_allclose(sampler.inverse_temperatures, ladder)
    assert sampler.base is base
    assert sampler.gradients_per_step == 3 * 3 + 1
    for name in ("base", "inverse_temperatures", "num_leapfrog"):
        assert "given" in [c.reason for c in sampler.tuning.choices if c.name == name]


@pytest.mark.slow
def test_a_stored_run_has_its_tuning(tmp_path):
    target = tacthmc.potential(wells)
    sampler, path = tacthmc.replica_exchange(), tmp_path / "run"
    run = tacthmc.sample(KEY, sampler, target, jnp.ones(2), 500, 2, store=path, progress=False)
    again = tacthmc.load(path)
    assert again.tuning["barrier"] == run.tuning["barrier"]
    assert again.config["tuning"]["gradients"] == run.tuning.gradients
    longer = tacthmc.resume(path, num_steps=1_000, progress=False)
    whole = tacthmc.sample(KEY, sampler, target, jnp.ones(2), 1_000, 2, progress=False)
    assert longer.num_steps == whole.num_steps
    assert longer.sampler.rungs == whole.sampler.rungs


@pytest.mark.slow
@pytest.mark.parametrize("split", [False, True])
def test_a_posterior(split):
    """A conjugate Gaussian: moments and log evidence are known."""
    data = np.random.default_rng(0).normal(1.0, 1.0, (10, 2)).astype(np.float32)
    model = tacthmc.posterior(
        lambda m: -0.5 * jnp.sum(m**2) / 4 - np.log(2 * np.pi * 4),
        lambda m, x: jnp.sum(-0.5 * (x - m) ** 2 - 0.5 * np.log(2 * np.pi)),
        jnp.asarray(data),
        10,
    )
    target = tacthmc.temper_likelihood(model) if split else model
    run = tacthmc.sample(
        KEY, tacthmc.replica_exchange(), target, jnp.zeros(2), 4_000, 16, progress=False
    )
    assert_mean(run.draws[..., 0], data[:, 0].sum() / 10.25, what="mean")
    each = multivariate_normal(np.zeros(10), np.eye(10) + 4.0)
    found = run.sampler.evidence(run.state)
    truth = each.logpdf(data[:, 0]) + each.logpdf(data[:, 1])
    assert abs(found.value - truth) < t.isf(PER_CHECK / 2, 15) * found.error
    assert found.error < 0.05


@pytest.mark.slow
def test_a_tempered_block():
    target = tacthmc.potential(wells)
    both = tacthmc.potential(lambda p: target.energy(jnp.append(p["b"], p["w"])))
    split = tacthmc.potentials.temper_block(both, {"w": False, "b": True}, reference=1.0)
    start = {"w": jnp.zeros(2), "b": jnp.ones(1)}
    run = tacthmc.sample(KEY, tacthmc.replica_exchange(), split, start, 10_000, 16, progress=False)
    assert run.tuning["inverse_temperatures"][-1] == pytest.approx(LAST_PART)
    whole = of_wells(lambda x: 1.0)
    share = of_wells(lambda x: float(x < 0)) / whole
    assert_mean(run.draws["b"][..., 0] < 0, share, what="weight")
    assert_mean(run.draws["w"][..., 0] ** 2, 1.0, what="square")


@pytest.mark.slow
def test_a_bent_mode_needs_a_wider_base():
    target = tacthmc.potential(
        lambda x: 0.5 * (x[0] / 10) ** 2 + 0.5 * (x[1] - 0.1 * (x[0] ** 2 - 100)) ** 2
    )
    sampler = tacthmc.tune(KEY, tacthmc.replica_exchange(), target, jnp.zeros(2), progress=False)
    assert "times wider where draws are" in str(sampler.tuning)
    # The mode alone would make it 1.6 wide across, and the target is 14 wide there.
    assert np.sqrt(np.diag(sampler.base.scale @ sampler.base.scale.T))[1] > 5.0


@pytest.mark.slow
def test_in_a_funnel_the_base_follows_the_draws():
    """The curvature at the mode says nothing of its width."""

    def funnel(x):
        return x[0] ** 2 / 8 + 0.5 * jnp.exp(-x[0]) * jnp.sum(x[1:] ** 2) + 0.5 * 2 * x[0]

    run = tacthmc.sample(
        KEY,
        tacthmc.replica_exchange(),
        tacthmc.potential(funnel),
        jnp.zeros(3),
        10_000,
        16,
        progress=False,
    )
    assert "times wider where draws are" in str(run.tuning)
    assert abs(run.draws[..., 0].mean()) < 0.4
    assert run.draws[..., 0].std() == pytest.approx(2.0, rel=0.15)


@pytest.mark.slow
def test_mini_batches():
    """Two means of a mixture, in either order alike, by batches of a tenth of the data."""
    rng = np.random.default_rng(0)
    data = jnp.asarray(rng.choice([-1.5, 1.5], 200) + rng.normal(size=200), jnp.float32)
    target = tacthmc.posterior(
        lambda m: -0.5 * jnp.sum(m**2) / 9,
        lambda m, x: jax.nn.logsumexp(-0.5 * (x - m) ** 2),
        data,
        20,
    )
    run = tacthmc.sample(
        KEY, tacthmc.replica_exchange(), target, jnp.array([0.1, -0.1]), 60_000, 8, progress=False
    )
    assert run.sampler.swap_every > 1
    assert run.tuning["base"] is not None
    assert "thermostat" in [c.name for c in run.tuning.choices]
    assert np.asarray(run.state.round_trips).min() > 20
    assert_mean(run.draws[..., 0] < run.draws[..., 1], 0.5, 0.01, "weight")


@pytest.mark.slow
def test_energies_that_are_only_seen_through_noise():
    """No energy of all data: the base covers heated draws."""

    class OnlyNoisy(tacthmc.potentials.WrappedPotential):
        inner: tacthmc.potentials.Potential

        @property
        def traits(self):
            return self.inner.traits._replace(has_energy=False)

        def estimate(self, position, batch, model=None, correction=None):
            return self.inner.estimate(position, batch, model, correction)

        def full(self, position):
            raise ValueError("seen through noise alone")

    target = OnlyNoisy(tacthmc.noisy(tacthmc.potential(wells), force=1.0, energy=1.0))
    run = tacthmc.sample(
        KEY, tacthmc.replica_exchange(), target, jnp.ones(2), 60_000, 16, progress=False
    )
    assert "of draws at temperature" in str(run.tuning)
    share = of_wells(lambda x: float(x < 0)) / of_wells(lambda x: 1.0)
    assert_mean(run.draws[..., 0] < 0, share, 0.02, "weight")
