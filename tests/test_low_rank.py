"""A frame of a few directions: the law stays, and noise that is large in them heats nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.tuning.plateau import Plateau
from tacthmc.tuning.thin import HOT, NUMBERS, thin
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
    frame = tacthmc.Frame(tacthmc.LowRank(directions, [0.1, 0.5, 3.0]), shift=np.ones(SIZE))
    away = jnp.linspace(-2.0, 5.0, SIZE)
    np.testing.assert_allclose(frame.outward(frame.inward(away)), away, rtol=1e-4, atol=1e-4)


def test_the_same_as_its_matrix(directions):
    factors = np.array([0.1, 0.5, 3.0], np.float32)
    matrix = np.eye(SIZE) + directions.T @ np.diag(factors - 1) @ directions
    x = jnp.linspace(-1.0, 2.0, SIZE)
    low = tacthmc.LowRank(directions, factors)
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
        tacthmc.LowRank(rows, factors)


def test_a_shift_of_another_size(directions):
    with pytest.raises(ValueError, match="shift must have shape"):
        tacthmc.Frame(tacthmc.LowRank(directions, np.ones(NOISY)), shift=np.ones(2))


def _variances(sampler, potential):
    run = tacthmc.sample(
        jax.random.key(0), sampler, potential, jnp.zeros(SIZE), 40_000, 4, num_warmup=4_000
    )
    return run.draws**2


def test_noise_in_few_directions(few):
    """Without a frame they are as hot as theory says, with it HOT at most; the rest as before."""
    potential, sds = few
    rng = np.random.default_rng(1)
    found = thin((rng.normal(size=(512, SIZE)) * sds).astype(np.float32), ETA, C)
    assert found.directions == NOISY
    plain = _variances(tacthmc.sgnht(ETA, noise=C, keep_every=20), potential)
    framed = _variances(tacthmc.sgnht(ETA, noise=C, keep_every=20, frame=found.frame), potential)
    mean = np.mean(sds**2)
    hot, rest = ((C + ETA * v / 2) / (C + ETA * mean / 2) for v in (sds[0] ** 2, sds[-1] ** 2))
    assert hot > 8
    assert_mean(plain[..., :NOISY].mean(axis=-1) / hot, 1.0, 0.05, "hot without a frame")
    assert_mean(plain[..., NOISY:].mean(axis=-1) / rest, 1.0, 0.02, "the rest without")
    assert_mean(framed[..., :NOISY].mean(axis=-1), 1 + HOT, 0.12, "in the frame")
    assert_mean(framed[..., NOISY:].mean(axis=-1), 1.0, 0.03, "the rest in the frame")


def test_tempered_in_the_frame(directions):
    """TACT's plateau has the same law in a frame of this kind."""
    frame = tacthmc.Frame(tacthmc.LowRank(directions, [0.3, 0.5, 2.0]))
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    draws = _variances(tacthmc.tact(0.2, frame=frame, centre="mean", keep_every=20), target)
    assert_mean(draws.mean(axis=-1), 1.0, 0.02, "variance")


def test_few_estimates_make_few_directions():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 500)) * np.where(np.arange(500) < 30, 100.0, 1.0)
    assert thin(noise, 1e-3, C).directions == 10


def test_directions_have_to_fit():
    size = NUMBERS // 2
    noise = np.zeros((16, size), np.float32)
    noise[np.arange(16), np.arange(16)] = 1e5 / 4.0 ** np.arange(16)
    assert thin(noise, 1e-3, C).directions == 2


def test_even_noise_needs_no_frame():
    noise = np.random.default_rng(0).normal(size=(200, 1_000))
    found = thin(noise, 0.01, C)
    assert found.frame is None
    assert "times as hot as it should be" in found.why


def test_the_many_decide_in_high_dimension(few):
    """A step that has the noisiest direction within 3% would be 300 times shorter."""
    potential, sds = few
    plateau = Plateau(potential, jnp.zeros((4, SIZE)), 100)
    numbers = plateau.numbers(jax.random.key(0), 1.0, None, None)
    assert numbers.noise.typical == pytest.approx(sds[-1] ** 2, rel=0.1)
    assert "typical coordinate" in numbers.steps.why_eta
    found = plateau.better_frame(jax.random.key(1))
    plateau.use(found.frame)
    longer = plateau.numbers(jax.random.key(0), 1.0, None, None)
    assert longer.steps.eta > 3 * numbers.steps.eta
