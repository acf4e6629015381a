"""A frame of a few directions: the law stays, and noise that is large in them heats nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import Frame, LowRank
from tacthmc.tuning import _friction as friction
from tacthmc.tuning._friction import HOT
from tacthmc.tuning._plateau import Plateau
from tacthmc.tuning._thin_preconditioner import NUMBERS, thin
from tests.budget import assert_mean

SIZE = 300
NOISY = 3
ETA, C = 0.05, 0.1


@pytest.fixture(scope="module")
def directions():
    square = np.random.default_rng(0).normal(size=(SIZE, NOISY))
    return np.linalg.qr(square)[0].T.astype(np.float32)


@pytest.fixture(scope="module")
def few():
    """ηv/2c of 10 in the first coordinates, 0.025 in the others."""
    sds = np.where(np.arange(SIZE) < NOISY, np.sqrt(10 * 2 * C / ETA), 0.1 * np.sqrt(10))
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    return tacthmc.noisy(target, force=jnp.asarray(sds, jnp.float32)), sds


def test_there_and_back(directions):
    frame = Frame(LowRank(directions, [0.1, 0.5, 3.0]), shift=np.ones(SIZE))
    away = jnp.linspace(-2.0, 5.0, SIZE)
    np.testing.assert_allclose(frame.outward(frame.inward(away)), away, rtol=1e-4, atol=1e-4)


def test_the_same_as_its_matrix(directions):
    factors = np.array([0.1, 0.5, 3.0], np.float32)
    matrix = np.eye(SIZE) + directions.T @ np.diag(factors - 1) @ directions
    x = jnp.linspace(-1.0, 2.0, SIZE)
    low = LowRank(directions, factors)
    np.testing.assert_allclose(low(x), matrix @ np.asarray(x, float), rtol=1e-4, atol=1e-5)
    back = np.linalg.inv(matrix) @ np.asarray(x, float)
    np.testing.assert_allclose(low.inverse(x), back, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "factors", "words"),
    [
        (np.eye(3)[0], [1.0], "k rows and factors k numbers"),
        (np.eye(3)[:2], [1.0], "k rows and factors k numbers"),
        (2 * np.eye(3)[:2], [1.0, 1.0], "orthonormal; their products are off by up to 3"),
        (np.full((1, 3), np.nan), [1.0], "orthonormal"),
        (np.eye(3)[:2], [1.0, 0.0], "positive and finite"),
    ],
)
def test_maps_that_are_none(rows, factors, words):
    with pytest.raises(ValueError, match=words):
        LowRank(rows, factors)


def test_a_shift_of_another_size(directions):
    with pytest.raises(ValueError, match="shift must have shape"):
        Frame(LowRank(directions, np.ones(NOISY)), shift=np.ones(2))


def _draws(sampler, potential):
    run = tacthmc.sample(
        jax.random.key(0), sampler, potential, jnp.zeros(SIZE), 40_000, 4, num_warmup=4_000
    )
    return np.asarray(run.draws, float)


def test_noise_in_few_directions(few):
    """Without a frame they are as hot as theory says, with it HOT too hot; the rest as before."""
    potential, sds = few
    rng = np.random.default_rng(1)
    found = thin((rng.normal(size=(2048, SIZE)) * sds).astype(np.float32), ETA, C)
    assert found.directions == NOISY
    plain = _draws(tacthmc.sgnht(ETA, noise=C, keep_every=20), potential) ** 2
    framed = _draws(tacthmc.sgnht(ETA, noise=C, keep_every=20, frame=found.frame), potential) ** 2
    mean = np.mean(sds**2)
    hot, rest = ((C + ETA * v / 2) / (C + ETA * mean / 2) for v in (sds[0] ** 2, sds[-1] ** 2))
    assert hot > 8
    assert_mean(plain[..., :NOISY].mean(axis=-1) / hot, 1.0, 0.05, "hot without a frame")
    assert_mean(plain[..., NOISY:].mean(axis=-1) / rest, 1.0, 0.02, "the rest without")
    # Of HOT itself what 1,024 estimates of a variance leave unknown: 5%.
    assert_mean(framed[..., :NOISY].mean(axis=-1), 1 + HOT, 0.05, "in the frame")
    assert_mean(framed[..., NOISY:].mean(axis=-1), 1.0, 0.02, "the rest in the frame")


def test_tempered_in_the_frame(directions):
    """TACT's plateau has the same law in a frame of this kind, along its directions and across."""
    frame = Frame(LowRank(directions, [0.3, 0.5, 2.0]))
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    draws = _draws(tacthmc.tact(0.2, frame=frame, centre="mean", keep_every=20), target)
    inside = draws @ directions.T.astype(float)
    for number in range(NOISY):
        assert_mean(inside[..., number] ** 2, 1.0, 0.05, f"along direction {number}")
    across = np.sum(draws**2, axis=-1) - np.sum(inside**2, axis=-1)
    assert_mean(across / (SIZE - NOISY), 1.0, 0.02, "across")


@pytest.mark.parametrize("turned", [False, True], ids=["along axes", "turned"])
@pytest.mark.parametrize("size", [257, 1_000])
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
    found = thin(noise, eta, C)
    assert found.directions == 3
    matrix = np.asarray(jax.vmap(found.frame.scale)(jnp.eye(size)), float)
    left = np.diag(matrix @ axes @ np.diag(sds**2) @ axes.T @ matrix.T)
    rows = np.asarray(found.frame.scale.directions, float)
    inside = np.array([r @ matrix @ axes @ np.diag(sds**2) @ axes.T @ matrix.T @ r for r in rows])
    heat = (C + eta * inside / 2) / (C + eta / 2)
    assert np.all(np.abs(heat - (1 + HOT)) < 0.2)
    assert np.median(left) == pytest.approx(1.0, rel=0.05)
    # The rule for the step is one for directions, whichever way they point.
    seen = friction.force_noise(noise)
    assert seen.typical == pytest.approx(1.0, rel=0.05)


def test_few_estimates_make_few_directions():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 500)) * np.where(np.arange(500) < 30, 100.0, 1.0)
    assert thin(noise, 1e-3, C).directions == 5


def test_directions_have_to_fit():
    size = NUMBERS // 2
    noise = np.zeros((40, size), np.float32)
    noise[:, :20] = np.random.default_rng(0).normal(size=(40, 20)) * 1e4
    found = thin(noise, 1e-3, C)
    assert found.directions == 2
    assert "too much room" in found.why


@pytest.mark.parametrize("size", [1, 2, 400])
def test_noise_of_any_dimension(size):
    seen = friction.force_noise(np.random.default_rng(0).normal(size=(200, size)))
    assert seen.mean == pytest.approx(1.0, rel=0.15)
    assert seen.mean <= seen.top < 1.2


def test_even_noise_needs_no_frame():
    noise = np.random.default_rng(0).normal(size=(200, 1_000))
    found = thin(noise, 0.01, C)
    assert found.frame is None
    assert "times as hot as it should be" in found.why


def test_the_many_decide_in_high_dimension(few):
    potential, sds = few
    plateau = Plateau(potential, jnp.zeros((4, SIZE)), 100)
    numbers = plateau.numbers(jax.random.key(0), 1.0, None, None)
    assert numbers.noise.typical == pytest.approx(sds[-1] ** 2, rel=0.1)
    assert "typical direction" in numbers.steps.why_eta
    assert "times too hot" in numbers.steps.why_eta
    found = plateau.better_frame(jax.random.key(1))
    plateau.use(found.frame)
    longer = plateau.numbers(jax.random.key(0), 1.0, None, None)
    assert longer.steps.eta > 3 * numbers.steps.eta
    # A frame is one for the step that is given, if one is.
    short = plateau.better_frame(jax.random.key(1), eta=1e-6, c=C)
    assert short.frame is None
