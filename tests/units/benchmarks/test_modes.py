"""``modes``: truths of its targets against other ways to find them, its scores, and its rivals."""

from functools import partial
from itertools import permutations
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp

from benchmarks.modes.judge import Sample, coverage, judged, standard_errors, temperature
from benchmarks.modes.rivals import tact
from benchmarks.modes.rivals.parallel_tempering import first_ladder, spaced
from benchmarks.modes.score import MILLION, effective, score
from benchmarks.modes.targets import TARGETS, batches, models, planar, several_dimensions, target
from benchmarks.modes.targets.definition import Truth, means, modes, signs
from benchmarks.modes.targets.quadrature import over_the_plane
from tests.budget import QUANTILE

pytestmark = pytest.mark.usefixtures("quick_compilation")
CHEAP = ["grid", "banana", "two-modes-16", "wide-narrow", "many-well", "funnel", "coin-flip"]
CHEAP += ["galaxy", "wells", "mixture-2-500", "network"]
COUNT = 100_000


def assert_features(name, draws):
    """Independent draws have the features of the truth."""
    truth = target(name).truth
    found = np.asarray(truth.features(np.asarray(draws)), float)
    error = np.sqrt(truth.variance / len(found))
    off = np.abs(found.mean(axis=0) - truth.mean)
    assert np.all(off <= QUANTILE * error + 1e-9), off / np.maximum(error, 1e-12)


@pytest.mark.parametrize("name", CHEAP)
def test_a_target_is_complete(name):
    one = target(name)
    assert one.name == name
    drawn = jax.vmap(one.reference.draw)(jax.random.split(jax.random.key(0), 5))
    assert drawn.shape == (5, one.dimension)
    assert np.isfinite(jax.vmap(one.reference.log_density)(drawn)).all()
    features = one.truth.features(np.asarray(drawn))
    assert features.shape == (5, len(one.truth.mean)) == (5, len(one.truth.variance))
    if one.truth.kind == "modes":
        assert one.truth.mean.sum() == pytest.approx(1)
        assert np.all(features.sum(axis=1) == 1)
    batch = one.potential.batch(jax.random.key(1), one.start)
    value, gradient = one.potential.value_and_grad(one.start, batch)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    size = one.num_data / jax.tree.leaves(batch)[0].shape[0] if one.kind == "batches" else 1
    assert one.full_cost == size


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TARGETS if name not in CHEAP])
def test_a_dear_target_is_complete(name):
    test_a_target_is_complete(name)


MIXTURES = {
    "grid": lambda: planar.lattice(),
    "ring": lambda: planar.circle(),
    "gmm40": lambda: planar.forty(),
    "two-modes-8": lambda: several_dimensions.pair(8),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_shares_of_mixtures_are_those_of_exact_draws(name):
    mixture = MIXTURES[name]()
    assert_features(name, mixture.draw(jax.random.key(5), COUNT))
    assert target(name).log_z == pytest.approx(0, abs=1e-5)


def test_wide_and_narrow_by_exact_draws():
    rng = np.random.default_rng(0)
    narrow = rng.random(COUNT) < 0.5
    draws = rng.normal(size=(COUNT, 16)) * np.where(narrow, 0.3, 1.0)[:, None]
    draws[:, 0] += np.where(narrow, 3.0, -3.0)
    assert_features("wide-narrow", draws)
    energy = target("wide-narrow").potential.energy
    for x in draws[:3]:
        apart = [stats.norm.logpdf(x, m, s).sum() for m, s in two_widths()]
        expected = -logsumexp(apart) + np.log(2)
        assert float(energy(jnp.asarray(x, jnp.float32))) == pytest.approx(expected, rel=1e-4)


def two_widths():
    first = np.eye(16)[0]
    return (-3 * first, 1.0), (3 * first, 0.3)


def test_means_of_the_bent_ones_by_exact_draws():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(COUNT, 10))
    banana = np.stack([10 * z[:, 0], 0.1 * (100 * z[:, 0] ** 2 - 100) + z[:, 1]], axis=1)
    assert_features("banana", banana)
    v = 3 * z[:, 0]
    funnel = np.concatenate([v[:, None], np.exp(v / 2)[:, None] * z[:, 1:]], axis=1)
    assert_features("funnel", funnel)
    for name, draws in (("banana", banana), ("funnel", funnel)):
        found = np.asarray(target(name).truth.features(draws), float)
        np.testing.assert_allclose(found.var(axis=0), target(name).truth.variance, rtol=0.1)
    # −U − log Z is the log density of the construction.
    x = banana[0]
    log_density = stats.norm.logpdf(x[0], 0, 10) + stats.norm.logpdf(x[1], 0.1 * (x[0] ** 2 - 100))
    assert normalized("banana", x) == pytest.approx(log_density, rel=1e-4)
    x = funnel[1]
    rest = stats.norm.logpdf(x[1:], 0, np.exp(x[0] / 2)).sum()
    assert normalized("funnel", x) == pytest.approx(stats.norm.logpdf(x[0], 0, 3) + rest, rel=1e-4)


def normalized(name, x):
    one = target(name)
    return -float(one.potential.energy(jnp.asarray(x, jnp.float32))) - one.log_z


def test_shares_of_wells_by_one_dimension_at_a_time():
    def density(x):
        return np.exp(-0.2 * x**2 + 2 * np.cos(2 * np.pi * x))

    each = np.array([quad(density, k - 0.5, k + 0.5)[0] for k in range(-8, 9)])
    shares = each / each.sum()
    inner = np.outer(shares[6:11], shares[6:11]).ravel()
    np.testing.assert_allclose(target("wells").truth.mean[:25], inner, atol=1e-5)
    assert target("wells").log_z == pytest.approx(2 * np.log(each.sum()), abs=1e-4)
    numbers = planar.well(np.array([[-2.0, -2.0], [0.1, 0.0], [2.4, 2.0], [3.0, 0.0]]))
    assert numbers.tolist() == [0, 12, 24, 25]


def test_what_is_seen_through_noise_has_no_exact_energy():
    wells = target("wells")
    assert not wells.potential.traits.has_energy
    with pytest.raises(ValueError, match="no full-data energy"):
        wells.potential.energy(wells.start)
    keys = jax.random.split(jax.random.key(0), 4_000)
    values, slopes = jax.vmap(
        lambda k: wells.potential.value_and_grad(wells.start, wells.potential.batch(k, wells.start))
    )(keys)
    np.testing.assert_allclose(np.std(values), 2.0, rtol=QUANTILE / np.sqrt(8_000))
    np.testing.assert_allclose(np.std(slopes, axis=0), 2.0, rtol=QUANTILE / np.sqrt(8_000))


def test_many_wells_are_those_of_publications():
    one = target("many-well")
    assert one.log_z == pytest.approx(164.69568, abs=1e-4)
    np.testing.assert_allclose(one.truth.mean, 0.844307, atol=1e-6)
    # One well by another quadrature.
    right = quad(lambda x: np.exp(-(x**4) + 6 * x**2 + 0.5 * x - 9), 0, 6)[0]
    left = quad(lambda x: np.exp(-(x**4) + 6 * x**2 + 0.5 * x - 9), -6, 0)[0]
    assert one.truth.mean[0] == pytest.approx(right / (right + left), abs=1e-7)


def test_the_chain_by_transfer_matrices():
    below, log_z = several_dimensions.transfer(0.0025, points=401)
    assert np.log(below / (1 - below)) == pytest.approx(0.77939, abs=2e-5)
    finer = several_dimensions.transfer(0.0025, points=601, reach=2.5)
    assert finer == pytest.approx((below, log_z), abs=1e-6)
    assert several_dimensions.transfer(0.0, points=401)[0] == pytest.approx(0.5)


def test_a_chain_of_two_sites_by_a_sum_over_the_plane(monkeypatch):
    monkeypatch.setattr(several_dimensions, "SITES", 2)
    tilt = 0.05
    found = over_the_plane(
        several_dimensions.Phi4(jnp.asarray(tilt)),
        lambda x: (x[:, 0] > 0).astype(int),
        2,
        ((-3, 3), (-3, 3)),
        0.01,
    )
    below, log_z = several_dimensions.transfer(tilt, points=801)
    assert found.shares[0] == pytest.approx(below, abs=1e-5)
    assert found.log_z == pytest.approx(log_z, abs=1e-5)


def test_the_coin_flip_by_a_sum_over_the_plane():
    one = target("coin-flip")
    box = ((-2.5, 2.5), (-1.5, 2.0))
    found = over_the_plane(models.coins(), lambda x: (x[:, 0] > 0).astype(int), 2, box, 0.008)
    np.testing.assert_allclose(found.shares, one.truth.mean, atol=2e-4)
    assert found.log_z == pytest.approx(one.log_z, abs=2e-3)
    assert 0.55 < one.truth.mean[1] < 0.65


def test_orders_of_components_are_copies_of_each_other():
    one, three = target("galaxy"), target("mixture-3-500")
    assert models.velocities().shape == (82,)
    assert float(models.velocities().mean()) == pytest.approx(20.83, abs=0.01)
    x = np.asarray(one.start) + 0.1 * np.random.default_rng(0).normal(size=9)
    energies, found = [], []
    for some in permutations(range(3)):
        there = x.reshape(3, 3)[:, some].ravel().astype(np.float32)
        energies.append(float(one.potential.energy(jnp.asarray(there))))
        found.append(int(np.argmax(one.truth.features(there[None, :])[0])))
    np.testing.assert_allclose(energies, energies[0], rtol=1e-5)
    assert sorted(found) == list(range(6))
    mu = np.array([-1.8, 0.3, 2.2], np.float32)
    both = [float(three.potential.energy(jnp.asarray(m))) for m in (mu, mu[::-1].copy())]
    assert both[0] == pytest.approx(both[1], rel=1e-5)


def test_the_prior_of_galaxies_is_normalized_and_drawn():
    prior = target("galaxy").reference
    draws = np.asarray(jax.vmap(prior.draw)(jax.random.split(jax.random.key(0), 20_000)), float)
    weights, centers, variances = np.split(draws, 3, axis=1)
    x = draws[0]
    middle, spread = float(prior.middle), float(prior.spread)
    gumbel = stats.gumbel_l.logpdf(x[:3]).sum()
    inverse = stats.invgamma.logpdf(np.exp(x[6:]), 2).sum() + x[6:].sum()
    expected = gumbel + stats.norm.logpdf(x[3:6], middle, spread).sum() + inverse
    assert float(prior.log_density(jnp.asarray(x, jnp.float32))) == pytest.approx(
        expected, rel=1e-4
    )
    for values, law in (
        (np.exp(weights), stats.expon),
        (centers, stats.norm(middle, spread)),
        (np.exp(variances), stats.invgamma(2)),
    ):
        assert stats.kstest(values.ravel(), law.cdf).pvalue > 1e-7


def test_every_sign_of_a_unit_is_as_good():
    one = target("network")
    assert one.dimension == 242
    weights, biases, out = batches.split(one.start)
    flipped = jnp.concatenate([-weights.ravel(), -biases, -out])
    assert float(one.potential.energy(flipped)) == pytest.approx(
        float(one.potential.energy(one.start)), rel=1e-5
    )
    assert np.all(
        one.truth.features(np.asarray(flipped)[None])
        ^ one.truth.features(np.asarray(one.start)[None])
    )


def test_means_of_the_logistic_regression_by_importance_sampling():
    x, y = (column[:2_000].astype(float) for column in batches.logistic_data())
    mean, variance = batches.logistic_truth(x, y)
    sd, rng = np.sqrt(variance), np.random.default_rng(0)
    p = 1 / (1 + np.exp(-x @ mean))
    precision = x.T @ (x * (p * (1 - p))[:, None]) + np.eye(20) / 4
    root = np.linalg.cholesky(np.linalg.inv(precision))
    half = rng.normal(size=(2_000, 20))
    draws = mean + np.concatenate([half, -half]) @ root.T
    log_weights = 0.5 * np.sum(np.concatenate([half, -half]) ** 2, axis=1)
    log_weights -= np.concatenate(
        [
            np.logaddexp(0, x @ some.T).sum(axis=0) - y @ (x @ some.T) + np.sum(some**2, axis=1) / 8
            for some in np.array_split(draws, 8)
        ]
    )
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    parts = weights[:, None] * (draws - mean)
    error = np.sqrt(np.sum((parts[:2_000] + parts[2_000:]) ** 2, axis=0))
    # The next term of the expansion is of the order D/N = 0.01.
    assert np.all(np.abs(parts.sum(axis=0)) < QUANTILE * error + 0.02 * sd)
    np.testing.assert_allclose(weights @ (draws - mean) ** 2, variance, rtol=0.2)


def test_exact_draws_have_unit_temperature_and_hot_ones_do_not():
    for name in ("grid", "two-modes-16"):
        mixture = {"grid": planar.lattice, "two-modes-16": partial(several_dimensions.pair, 16)}
        made = mixture[name]()
        draws = np.asarray(made.draw(jax.random.key(1), 4_000))
        assert temperature(target(name), draws) == pytest.approx(1, abs=0.15)
        centers = np.asarray(made.means)[np.asarray(made.mode(jnp.asarray(draws)))]
        hot = centers + np.sqrt(1.5) * (draws - centers)
        assert temperature(target(name), hot) == pytest.approx(1.5, abs=0.25)


def test_the_temperature_of_weighted_draws():
    one = target("banana")
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40_000, 2)) * np.sqrt(1.4)
    draws = np.stack([10 * z[:, 0], 0.1 * (100 * z[:, 0] ** 2 - 100) + z[:, 1]], axis=1)
    weights = np.exp(-0.5 * np.sum(z**2, axis=1) * (1 - 1 / 1.4))
    assert temperature(one, draws) == pytest.approx(1.4, abs=0.3)
    assert temperature(one, draws, weights) == pytest.approx(1.0, abs=0.25)
    row = judged(one, Sample([draws], 1e4, weights=weights, is_population=True))
    assert abs(row["estimate"][0]) < 0.5
    assert "stated" not in row
    assert "coverage" not in row


def test_standard_errors_know_of_correlation():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(8, 20_000))
    chains = np.zeros_like(noise)
    for i in range(1, noise.shape[1]):
        chains[:, i] = 0.9 * chains[:, i - 1] + noise[:, i]
    # The mean of an AR(1) has the standard error 1/(1 − a)/√n.
    expected = 10 / np.sqrt(chains.size)
    few = standard_errors([chain[:, None] for chain in chains])
    assert few[0] == pytest.approx(expected, rel=0.15)
    many = standard_errors([piece[:, None] for piece in chains.reshape(80, -1)])
    assert many[0] == pytest.approx(expected, rel=0.4)
    assert standard_errors([np.ones((10, 1))] * 3)[0] == 0


def test_chains_that_stay_cover_nothing():
    truth = modes(lambda x: x[:, 0].astype(int), [0.25] * 4)
    stay = [truth.features(np.full((10, 1), k)) for k in range(4)]
    move = truth.features(np.tile(np.arange(4.0), 5)[:, None])
    assert coverage(truth, stay) == 0
    assert coverage(truth, [move]) == pytest.approx(1)
    half = truth.features(np.tile(np.arange(2.0), 5)[:, None])
    assert coverage(truth, [half]) == pytest.approx(1 / 3)
    pair = signs(lambda x: x > 0, [0.5, 0.5])
    assert coverage(pair, [np.array([[1.0, 0.0], [1.0, 1.0]])]) == pytest.approx(0.5)


def test_a_run_without_draws_counts_as_if_it_had_stayed():
    one = target("ring")
    for chains in ([], [np.full((3, 2), np.nan)]):
        row = judged(one, Sample(chains, 5.0, note="diverged"))
        assert row["failed"]
        assert sum(row["estimate"]) == 1
        assert max(row["estimate"]) == 1


HALVES = Truth("modes", lambda x: x, np.array([0.5, 0.5]), np.array([0.25, 0.25]))


def repeats(estimates, **more):
    return [{"estimate": list(e), "gradients": 2e6} | more for e in estimates]


def test_effective_draws_are_the_variance_over_the_squared_error():
    rng = np.random.default_rng(0)
    shares = rng.binomial(400, 0.5, size=20_000) / 400
    estimates = np.stack([shares, 1 - shares], axis=1)
    assert effective(HALVES, estimates) == pytest.approx(400, rel=0.05)
    numbers = means(lambda x: x, [1.0, 2.0], [4.0, 9.0])
    both = np.stack([1 + 2 * rng.normal(size=20_000) / 10, 2 + 3 * rng.normal(size=20_000) / 5], 1)
    assert effective(numbers, both) == pytest.approx(25, rel=0.05)


def test_the_interval_of_a_score_covers_what_is_true():
    rng, inside = np.random.default_rng(1), 0
    for _ in range(100):
        shares = rng.binomial(400, 0.5, size=16) / 400
        found = score(HALVES, repeats(np.stack([shares, 1 - shares], axis=1), temperature=1.0))
        low, high = found.interval
        inside += low <= 400 * MILLION / 2e6 <= high
    # 90% for many repeats; a bootstrap of 16 is somewhat too short.
    assert 70 <= inside <= 97
    assert found.repeats == 16
    assert found.gradients == 2e6


def test_what_counts_and_what_does_not():
    near = [[0.5, 0.5], [0.48, 0.52], [0.51, 0.49]]
    fine = score(HALVES, repeats(near, temperature=1.02, coverage=0.9, stated=[0.01, 0.01]))
    assert fine.counts
    assert fine.total_variation == pytest.approx(0.01)
    assert fine.honesty == pytest.approx(np.sqrt(2 * np.mean([0, 4e-4, 1e-4]) / 2e-4))
    assert not score(HALVES, repeats(near, temperature=1.2, coverage=0.9)).counts
    assert not score(HALVES, repeats(near, temperature=1.0, coverage=0.01)).crosses
    population = score(HALVES, repeats(near, temperature=1.0, log_z=2.0))
    assert population.counts
    assert population.log_z == (2.0, 0.0)
    noisy = repeats(near)
    for one, heat in zip(noisy, (0.7, 1.2, 1.6), strict=True):
        one["temperature"] = heat
    assert not score(HALVES, noisy).is_hot
    assert not score(HALVES, repeats(near, failed=True)).counts


def test_energies_of_jumps_are_counted():
    jumps = SimpleNamespace(every=10, energies_per_move=2)
    sampler = SimpleNamespace(jumps=jumps, gradients_per_step=1)
    keep = SimpleNamespace(every=8)
    # A jump is due at every second interval of 8 steps: ten of them, in three chains.
    run = SimpleNamespace(
        sampler=sampler, keep=keep, num_steps=160, num_chains=3, tuning=SimpleNamespace(gradients=7)
    )
    assert tact.jump_energies(run) == 60
    assert tact.gradients(run, 100.0) == 7 + 160 * 3 + 60 * 100


def test_ladders_reject_alike():
    betas = first_ladder(6)
    assert betas[0] == 0
    assert betas[-1] == 1
    rejection = np.array([0.1, 0.1, 0.2, 0.4, 0.1, 0.1])
    new = spaced(betas, rejection)
    assert np.all(np.diff(new) > 0)
    barrier = np.interp(new, betas, np.append(0, np.cumsum(rejection)))
    np.testing.assert_allclose(np.diff(barrier), rejection.mean(), atol=2e-3)
