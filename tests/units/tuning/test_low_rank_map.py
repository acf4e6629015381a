"""A map for high dimension shortens the few directions whose noise is large, and those alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import Coordinates, ScalarThermostat
from tacthmc.tuning import _friction as friction
from tacthmc.tuning import _low_rank_map
from tacthmc.tuning._friction import MIN_NOTABLE_HEAT
from tacthmc.tuning._low_rank_map import low_rank_map
from tacthmc.tuning._plateau import Plateau
from tests.budget import assert_mean

SIZE, NOISY = 300, 3
ETA, C = 0.05, 0.1


@pytest.fixture(scope="module")
def few():
    """ηv/2c of 10 in the first coordinates, 0.025 in the others."""
    sds = np.where(np.arange(SIZE) < NOISY, np.sqrt(10 * 2 * C / ETA), 0.1 * np.sqrt(10))
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    return tacthmc.noisy(target, force=jnp.asarray(sds, jnp.float32)), sds


def squares(potential, linear):
    one = ScalarThermostat()
    sampler = tacthmc.sgnht(ETA, noise=C, coordinates=Coordinates(linear), thermostat=one)
    start, keep = jnp.zeros(SIZE), tacthmc.Keep(every=20)
    run = tacthmc.sample(jax.random.key(0), sampler, potential, start, 40_000, 4, keep=keep)
    return np.asarray(run.draws, float) ** 2


def test_noise_in_few_directions(few):
    """Without a map they are as hot as theory says, with it notably hot; the rest as before."""
    potential, sds = few
    rng = np.random.default_rng(1)
    found = low_rank_map((rng.normal(size=(2048, SIZE)) * sds).astype(np.float32), ETA, C)
    assert found.directions == NOISY
    plain, mapped = squares(potential, None), squares(potential, found.linear)
    mean = np.mean(sds**2)
    hot, rest = ((C + ETA * v / 2) / (C + ETA * mean / 2) for v in (sds[0] ** 2, sds[-1] ** 2))
    assert hot > 8
    assert_mean(plain[..., :NOISY].mean(axis=-1) / hot, 1.0, 0.05, "hot without a map")
    assert_mean(plain[..., NOISY:].mean(axis=-1) / rest, 1.0, 0.02, "the rest without")
    # 1,024 estimates of a variance leave 5% of it unknown.
    assert_mean(mapped[..., :NOISY].mean(axis=-1), 1 + MIN_NOTABLE_HEAT, 0.05, "with the map")
    assert_mean(mapped[..., NOISY:].mean(axis=-1), 1.0, 0.02, "the rest with the map")


@pytest.mark.parametrize(
    ("size", "turned"),
    [
        (257, True),
        *(pytest.param(1_000, turned, marks=pytest.mark.slow) for turned in (False, True)),
    ],
    ids=["turned", "along axes", "turned in more dimensions"],
)
def test_even_where_the_bulk_is_noisy_too(size, turned):
    """Three directions of noise 100 in a bulk of 1 that makes more friction than c does."""
    rng = np.random.default_rng(0)
    sds = np.where(np.arange(size) < 3, 10.0, 1.0)
    noise = rng.normal(size=(1024, size)) * sds
    axes = np.eye(size)
    if turned:
        axes = np.linalg.qr(rng.normal(size=(size, size)))[0]
        noise = noise @ axes.T
    eta = 0.3
    found = low_rank_map(noise, eta, C)
    assert found.directions == 3
    scale = found.linear.scale
    matrix = np.asarray(jax.vmap(scale)(jnp.eye(size)), float)
    covariance = matrix @ axes @ np.diag(sds**2) @ axes.T @ matrix.T
    rows = np.asarray(scale.directions, float)
    inside = np.einsum("ki,ij,kj->k", rows, covariance, rows)
    heat = (C + eta * inside / 2) / (C + eta / 2)
    assert np.all(np.abs(heat - (1 + MIN_NOTABLE_HEAT)) < 0.2)
    assert np.median(np.diag(covariance)) == pytest.approx(1.0, rel=0.05)
    # The rule for the step is one for directions, whichever way they point.
    assert friction.force_noise(noise).typical == pytest.approx(1.0, rel=0.05)


def test_few_estimates_make_few_directions():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 500)) * np.where(np.arange(500) < 30, 100.0, 1.0)
    assert low_rank_map(noise, 1e-3, C).directions == 5


def test_directions_have_to_fit(monkeypatch):
    """Here there is room for two of 500 numbers."""
    monkeypatch.setattr(_low_rank_map, "MAX_NUMBERS", 1_000)
    noise = np.zeros((40, 500), np.float32)
    noise[:, :20] = np.random.default_rng(0).normal(size=(40, 20)) * 1e4
    found = low_rank_map(noise, 1e-3, C)
    assert found.directions == 2
    assert "too much room" in found.why


@pytest.mark.parametrize("size", [1, 2, 400])
def test_noise_of_any_dimension(size):
    noise = friction.force_noise(np.random.default_rng(0).normal(size=(200, size)))
    assert noise.mean == pytest.approx(1.0, rel=0.15)
    assert noise.mean <= noise.top < 1.2


def test_even_noise_needs_no_map():
    noise = np.random.default_rng(0).normal(size=(200, 1_000))
    found = low_rank_map(noise, 0.01, C)
    assert found.linear is None
    assert "times as hot as it should be" in found.why


def test_the_many_decide_in_high_dimension(few):
    potential, sds = few
    plateau = Plateau(potential, jnp.zeros((4, SIZE)), 100)
    numbers = plateau.numbers(jax.random.key(0), 1.0, None, None)
    assert numbers.noise.typical == pytest.approx(sds[-1] ** 2, rel=0.1)
    assert "typical direction" in numbers.steps.why_eta
    assert "times too hot" in numbers.steps.why_eta
    plateau.use_map(plateau.better_map(jax.random.key(1)).linear)
    longer = plateau.numbers(jax.random.key(0), 1.0, None, None)
    assert longer.steps.eta > 3 * numbers.steps.eta
    # A map is one for the step that is given, if one is.
    assert plateau.better_map(jax.random.key(1), eta=1e-6, c=C).linear is None
