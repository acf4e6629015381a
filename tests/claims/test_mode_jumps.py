"""Jumps between modes leave π invariant for any list of modes, and mix modes in full runs.

The first tests move independent draws of a distribution whose law is known. Each draw is moved on
its own, so the draws stay independent, and the mean change of a function f over n of them has the
standard error sd(f(after) − f(before))/√n.
"""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tacthmc
from tacthmc.dynamics import ModeJumps, Modes
from tests.budget import QUANTILE, assert_mean

COUNT = 200_000
MOVES = 3


class Bent(eqx.Module):
    """0.7 of a banana at x = −3 and 0.3 of a heavy-tailed, skewed mode at x = 3."""

    def log_parts(self, x):
        first = x[0] + 3.0
        banana = np.log(0.7) + _normal(first) + _normal((x[1] - 0.5 * first**2) / 0.7, 0.7)
        tail = jax.scipy.stats.t.logpdf((x[0] - 3.0) / 0.6, 6.0) - np.log(0.6)
        # The logarithm of a Gamma variable is skewed.
        skewed = 2.0 * x[1] - jnp.exp(x[1]) - jax.scipy.special.gammaln(2.0)
        return jnp.stack([banana, np.log(0.3) + tail + skewed])

    def __call__(self, x):
        return -jax.nn.logsumexp(self.log_parts(x))

    def draw(self, rng, count):
        first = rng.normal(size=count)
        banana = np.stack([first - 3.0, 0.5 * first**2 + 0.7 * rng.normal(size=count)], 1)
        tail = 3.0 + 0.6 * rng.standard_t(6.0, size=count)
        skewed = np.stack([tail, np.log(rng.gamma(2.0, size=count))], 1)
        return np.where(rng.random((count, 1)) < 0.7, banana, skewed)


def _normal(z, scale=1.0):
    return -0.5 * z**2 - np.log(scale * np.sqrt(2 * np.pi))


WRONG_LISTS = {
    "matrices": Modes(
        [[-2.5, 0.8], [3.4, 0.3]],
        [[[0.8, 0.0], [-0.5, 1.2]], [[0.7, 0.0], [0.6, 0.5]]],
        [0.35, 0.65],
    ),
    "diagonals": Modes([[-3.5, 0.0], [2.6, 0.9]], [[1.6, 0.5], [0.4, 1.3]], [0.9, 0.1]),
    "near each other": Modes(
        [[-3.0, 0.0], [-1.0, 1.0], [3.0, 0.5]], [[1, 1], [2, 1], [0.5, 1]], [1, 2, 3]
    ),
    "one mode, of the other sign": Modes([[1.0, 0.0]], [[[-3.0, 0.0], [1.0, 2.0]]], [1.0]),
}


@eqx.filter_jit
def moved(jumps, energy, starts, moves):
    """The draws after some moves, and whether the last one was accepted."""
    potential = tacthmc.potential(energy)

    def one(key, position):
        def move(position, key):
            jump = jumps.move(key, position, potential)
            return jump.position, jump

        return jax.lax.scan(move, position, jax.random.split(key, moves))

    keys = jax.random.split(jax.random.key(1), starts.shape[0])
    return jax.vmap(one)(keys, starts)


def assert_unchanged(before, after, what):
    change = np.asarray(after, float) - np.asarray(before, float)
    error = QUANTILE * change.std() / np.sqrt(len(change))
    assert abs(change.mean()) <= error, f"{what} changed by {change.mean():.2g} ± {error:.2g}"


@cache
def bent_draws():
    return Bent().draw(np.random.default_rng(0), COUNT)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "matrices" else pytest.mark.slow)
        for name in WRONG_LISTS
    ],
)
def test_the_law_stays_for_any_list(name):
    before = bent_draws()
    starts = jnp.asarray(before, jnp.float32)
    after, jumps = moved(ModeJumps(WRONG_LISTS[name]), Bent(), starts, MOVES)
    after = np.asarray(after, float)
    accepted = np.asarray(jumps.accepted).mean()
    assert 0.1 < accepted < 0.9, "the list is to be wrong, but not useless"
    assert_unchanged(before[:, 0] > 0, after[:, 0] > 0, "the share of a mode")
    for i in range(2):
        # Moments up to the second are finite for both functions of x and their squares.
        for power in (1, 2):
            assert_unchanged(before[:, i] ** power, after[:, i] ** power, f"moment {power} of {i}")
        for edge in np.quantile(before[:, i], np.linspace(0.05, 0.95, 10)):
            assert_unchanged(before[:, i] < edge, after[:, i] < edge, f"P(x[{i}] < {edge:.2g})")
    assert_unchanged(np.prod(before, 1), np.prod(after, 1), "the product")
    share = 0.7 * stats.norm.cdf(3.0) + 0.3 * stats.t.cdf(-5.0, 6)
    error = QUANTILE * np.sqrt(share * (1 - share) / COUNT)
    assert abs(np.mean(after[:, 0] < 0) - share) < error


def unequal_gaussians(size):
    """A list of two far Gaussian modes with correlations and unequal scales, and its energy."""
    rng = np.random.default_rng(size)
    spread = np.diag(np.geomspace(0.1, 10.0, size))
    scales = [np.linalg.cholesky(spread @ _covariance(rng, size) @ spread), 0.05 * np.eye(size)]
    modes = Modes([np.full(size, 50.0), np.full(size, -50.0)], scales, [0.8, 0.2])
    return modes, lambda x: -modes.log_density(x)


def _covariance(rng, size):
    away = rng.normal(size=(2 * size, size))
    return away.T @ away / (2 * size)


@pytest.mark.parametrize("size", [1, pytest.param(32, marks=pytest.mark.slow)])
def test_jumps_between_gaussian_modes_are_accepted(size):
    modes, energy = unequal_gaussians(size)
    keys = jax.random.split(jax.random.key(0), 2000)
    normal = jax.random.normal(jax.random.key(1), (2000, size))
    starts = jax.vmap(modes.mapped)(normal, jnp.arange(2000) % 2)
    _, jumps = moved(ModeJumps(modes), energy, starts, 1)
    # Rounding of θ by 1e-7 of 50, over the smallest scale of 0.05 and less in many directions.
    assert np.abs(jumps.log_ratio).max() < 0.01
    goals = jax.vmap(modes.proposed)(keys, starts)
    before, after = jax.vmap(modes.nearest)(starts), jax.vmap(modes.nearest)(goals)
    arrived = np.bincount(2 * before + after, minlength=4).reshape(2, 2) / 1000
    # The goal's mode is drawn from the weights, wherever a move starts.
    assert np.abs(arrived - [0.8, 0.2]).max() < QUANTILE * np.sqrt(0.16 / 1000)


@pytest.mark.slow
def test_copies_of_any_shape_are_reached_by_half_of_the_moves():
    """With ρ = 1 the ratio is one for affine images of each other, such as symmetric copies."""
    centers = np.array([[-20.0, 0.0, 5.0], [20.0, 1.0, 5.0]])

    def energy(x):
        away = jnp.abs(x[None] - jnp.asarray(centers, x.dtype))
        # Laplace distributions, which have another shape than the Gaussians of the list.
        return -jax.nn.logsumexp(-3.0 * jnp.sum(away, axis=1))

    modes = Modes(centers, np.full((2, 3), 0.3), [0.5, 0.5])
    shape = (4000, 3)
    starts = centers[0] + np.random.default_rng(0).laplace(scale=1 / 3, size=shape)
    _, jumps = moved(ModeJumps(modes), energy, jnp.asarray(starts, jnp.float32), 1)
    whole = np.abs(np.asarray(jumps.log_ratio)[:, 0]) < 1e-3
    # Half of the goals are in the other mode, and half of those keep z.
    assert whole.mean() > 0.25 - QUANTILE * np.sqrt(0.1875 / 4000)


@pytest.mark.parametrize("bad", [jnp.nan, pytest.param(jnp.inf, marks=pytest.mark.slow)])
def test_a_goal_without_an_energy_is_rejected(bad):
    def energy(x):
        return jnp.where(x[0] > 0, bad, 0.5 * jnp.sum((x + 5.0) ** 2))

    jumps = ModeJumps(Modes([[-5.0], [5.0]], [[1.0], [1.0]], [0.3, 0.7]))
    starts = jax.random.normal(jax.random.key(0), (500, 1)) - 5.0
    after, jumps = moved(jumps, energy, starts, 4)
    assert float(after.max()) < 0.0
    assert np.isfinite(jumps.energy).all()
    assert 0.2 < np.asarray(jumps.accepted).mean() < 0.4


# Full runs.


class Peaks(eqx.Module):
    """0.25·N(−6, 0.5²) + 0.75·(a Laplace distribution of scale 1 at 8) in each of d coordinates.

    The second mode is 2^d times as wide, and not a Gaussian.
    """

    def __call__(self, x):
        narrow = jnp.sum(_normal((x + 6.0) / 0.5, 0.5))
        # √(1 + z²) in place of |z|, which has no second derivative at zero.
        wide = jnp.sum(1.0 - jnp.sqrt(1.0 + (x - 8.0) ** 2) - LOG_WIDE)
        return -jnp.logaddexp(np.log(0.25) + narrow, np.log(0.75) + wide)


LOG_WIDE = float(np.log(2.0 * np.e * 0.6019072301972346))
"""log ∫exp(1 − √(1 + z²)), with Bessel's K₁(1)."""

PEAKS = Modes([[-6.2, -5.9], [7.6, 8.4]], [[0.6, 0.4], [1.2, 1.0]], [0.6, 0.4])


def assert_peaks(run, allowance=0.01):
    """The share of the narrow mode and the spread in each mode."""
    draws = np.asarray(run.draws, float)
    narrow = draws.sum(axis=2) < 0
    assert_mean(narrow, 0.25, allowance, "the share of the narrow mode")
    for i in range(2):
        inside = narrow * ((draws[..., i] + 6.0) ** 2 - 0.25)
        assert_mean(inside, 0.0, allowance * 0.25, f"the variance of x[{i}] in the narrow mode")
    assert np.array_equal(run.stats["mode"] == 0, narrow)


def noisy_peaks():
    return tacthmc.noisy(tacthmc.potential(Peaks()), force=1.0, energy=0.5)


@pytest.mark.slow
def test_weights_of_modes_by_sgnht_with_jumps():
    sampler = tacthmc.sgnht(0.05, jumps=ModeJumps(PEAKS, every=10))
    keep = tacthmc.Keep(every=10)
    start = jnp.array([-6.0, -6.0])
    run = tacthmc.sample(jax.random.key(0), sampler, noisy_peaks(), start, 100_000, 4, keep=keep)
    assert_peaks(run)
    # Without jumps no chain would leave its mode.
    assert (np.diff(run.stats["mode"], axis=1) != 0).sum() > 1000


@pytest.mark.slow
def test_tact_jumps_at_unit_temperature_only():
    tempering = tacthmc.dynamics.ContinuousTempering(
        tacthmc.dynamics.PowerCoupling.up_to(2.0, plateau=0.25, wall=1.0)
    )
    sampler = tacthmc.tact(0.05, tempering=tempering, jumps=ModeJumps(PEAKS, every=20))
    keep = tacthmc.Keep(every=10)
    start = jnp.array([8.0, 8.0])
    run = tacthmc.sample(jax.random.key(0), sampler, noisy_peaks(), start, 400_000, 4, keep=keep)
    assert_peaks(run)
    cold = run.trace["temperature"] == 1.0
    assert 0.1 < cold.mean() < 0.9
    jumped = run.trace["jumped"]
    assert not jumped[~cold].any()
    # A jump is due at the end of every second interval.
    assert not jumped[:, ::2].any()
    assert jumped[:, 1::2][cold[:, 1::2]].mean() > 0.2


def test_mini_batches_with_jumps_in_some_of_the_intervals():
    """θ = ±2 up to data, with the ratio of the prior, where batches could not tell the masses."""
    data = 4.0 + np.random.default_rng(0).normal(size=200)
    posterior = tacthmc.posterior(
        lambda t: 0.3 * t[0] - 0.5 * (t[0] / 3.0) ** 2,
        lambda t, x: -0.5 * (x - t[0] ** 2) ** 2,
        jnp.asarray(data, jnp.float32),
        20,
    )
    grid = np.linspace(-3, 3, 100_001)
    log_density = (
        0.3 * grid - grid**2 / 18 - 100 * (grid**4 - 2 * data.mean() * grid**2 + data.mean() ** 2)
    )
    density = np.exp(log_density - log_density.max())
    share = density[grid > 0].sum() / density.sum()
    jumps = ModeJumps(Modes([[-2.01], [1.99]], [[0.02], [0.015]], [0.5, 0.5]), every=35)
    sampler, keep = tacthmc.sgnht(3e-6, jumps=jumps), tacthmc.Keep(every=10)
    start = jnp.array([-2.0])
    run = tacthmc.sample(jax.random.key(0), sampler, posterior, start, 200_000, 4, keep=keep)
    assert_mean(run.draws[..., 0] > 0, share, 0.01, "the share of the positive mode")
    jumped = np.flatnonzero(run.trace["jumped"].any(axis=0))
    # Four intervals of 10 steps are the first multiple that is not below 35.
    assert jumped.size > 1000
    assert np.all(jumped % 4 == 3)
