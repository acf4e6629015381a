"""Shapes of modes from draws."""

import jax.numpy as jnp
import numpy as np
import pytest

from tacthmc.dynamics import Modes
from tacthmc.tuning._mode_shapes import fitted_modes

RNG = np.random.default_rng(0)
TWO = Modes(jnp.array([[-20.0, 0.0], [20.0, 0.0]]), 0.1 * jnp.ones((2, 2)), jnp.ones(2))


def draws(centers, scales, rows=100):
    """Chains of independent draws, one around each center."""
    normal = RNG.normal(size=(len(centers), rows, 2))
    return np.asarray(centers)[:, None] + np.einsum("cij,crj->cri", np.asarray(scales), normal)


def covariances(modes):
    scales = np.asarray(modes.scales, float)
    return np.einsum("kij,klj->kil", scales, scales)


def test_covariances_become_those_of_the_draws():
    wide = np.array([[1.0, 0.0], [0.8, 0.6]])
    centers = [[-20.0, 0.5], [20.0, 0.0]] * 8
    found = fitted_modes(TWO, draws(centers, [wide, 3 * wide] * 8))
    expected = np.stack([wide @ wide.T, 9 * wide @ wide.T])
    assert np.allclose(covariances(found), expected, rtol=0.15, atol=0.15)
    assert np.allclose(found.centers[0], [-20.0, 0.5], atol=0.15)
    assert np.allclose(found.log_weights, TWO.log_weights)


def test_shapes_that_fit_stay_as_they_are():
    found = fitted_modes(TWO, draws([[-20.0, 0.0], [20.0, 0.0]] * 8, [0.1 * np.eye(2)] * 16))
    assert np.allclose(covariances(found), 0.01 * np.eye(2))
    assert np.array_equal(found.centers, TWO.centers)


def test_a_mode_without_draws_is_widened_like_the_others():
    found = fitted_modes(TWO, draws([[-20.0, 0.0]] * 16, [np.eye(2)] * 16))
    assert np.allclose(covariances(found)[1], np.eye(2), rtol=0.2, atol=0.1)
    assert np.array_equal(found.centers[1], TWO.centers[1])


@pytest.mark.parametrize("rows", [2, 3])
def test_few_draws_say_nothing(rows):
    found = fitted_modes(TWO, draws([[-20.0, 0.0]], [np.eye(2)], rows))
    assert np.allclose(covariances(found), 0.01 * np.eye(2))
