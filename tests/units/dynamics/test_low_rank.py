"""A map of a few directions: its inverse, its matrix, and the law that is sampled with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import Coordinates, LinearMap, LowRank
from tests.budget import assert_mean

SIZE = 300
DIRECTIONS = 3


@pytest.fixture(scope="module")
def directions():
    square = np.random.default_rng(0).normal(size=(SIZE, DIRECTIONS))
    return np.linalg.qr(square)[0].T.astype(np.float32)


def test_there_and_back(directions):
    linear = LinearMap(LowRank(directions, [0.1, 0.5, 3.0]), shift=np.ones(SIZE))
    away = jnp.linspace(-2.0, 5.0, SIZE)
    np.testing.assert_allclose(linear.forward(linear.inverse(away)), away, rtol=1e-4, atol=1e-4)


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
        LinearMap(LowRank(directions, np.ones(DIRECTIONS)), shift=np.ones(2))


def test_the_plateau_keeps_its_law(directions):
    """TACT's plateau has the same law along the map's directions and across them."""
    coordinates = Coordinates(LinearMap(LowRank(directions, [0.3, 0.5, 2.0])), center="mean")
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    run = tacthmc.sample(
        jax.random.key(0),
        tacthmc.tact(0.2, coordinates=coordinates),
        target,
        jnp.zeros(SIZE),
        40_000,
        4,
        keep=tacthmc.Keep(every=20),
    )
    draws = np.asarray(run.draws, float)
    inside = draws @ directions.T.astype(float)
    for number in range(DIRECTIONS):
        assert_mean(inside[..., number] ** 2, 1.0, 0.05, f"along direction {number}")
    across = np.sum(draws**2, axis=-1) - np.sum(inside**2, axis=-1)
    assert_mean(across / (SIZE - DIRECTIONS), 1.0, 0.02, "across")
