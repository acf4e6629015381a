"""Screening: a narrow mode that no minimization hits, and places that only look unknown."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.tuning import _mode_search
from tacthmc.tuning._mode_search import search_modes
from tacthmc.tuning._mode_starts import Gaussian
from tacthmc.tuning._screening import Known, excess, screened
from tests.units.tuning.test_mode_search import log_normal

pytestmark = pytest.mark.usefixtures("quick_compilation")

PLACE = jnp.array([45.0, 32.0])


def needle(x):
    """Half of the mass with a standard deviation of 10, and half of it with 0.1, 55 away."""
    return -jnp.logaddexp(log_normal(x, 0.0, 10.0), log_normal(x, PLACE, 0.1))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_mode_a_hundred_times_as_narrow(seed, monkeypatch):
    start = jnp.zeros((1, 2))
    key, target = jax.random.key(seed), tacthmc.potential(needle)
    found = search_modes(key, target, start, 120_000.0)
    assert found.exhaustive, found
    assert any(np.allclose(one.center, PLACE, atol=0.1) for one in found.found)
    assert np.exp(found.modes(jnp.float32).log_weights) == pytest.approx([0.5, 0.5], rel=0.02)
    # Minimizations alone do not find it.
    monkeypatch.setattr(_mode_search, "MAX_DIRECTIONS", 0)
    assert len(search_modes(key, target, start, 120_000.0).found) == 1


def test_screening_keeps_to_the_gradients_it_is_given():
    found = search_modes(jax.random.key(0), tacthmc.potential(needle), jnp.zeros((1, 2)), 40_000.0)
    assert found.gradients < 45_000


def test_heavy_tails_are_no_modes():
    heavy = tacthmc.potential(lambda x: 2.5 * jnp.log1p(jnp.sum(x**2) / 3.0))
    found = search_modes(jax.random.key(0), heavy, jnp.ones((1, 2)), 60_000.0)
    assert len(found.found) == 1
    assert found.exhaustive, found


def test_excess_is_zero_where_known_modes_explain_all():
    known = [Known(Gaussian(np.zeros(2), 10.0 * np.eye(2)), 0.0)]
    places = np.array([[3.0, -4.0], [45.0, 32.0], [np.inf, 0.0]])
    energy = np.asarray(jax.vmap(needle)(jnp.asarray(places)), float)
    over = excess(known, places, energy)
    assert abs(over[0]) < 1e-4
    # The peaks have the densities 1/(2π·0.1²) and exp(−½·(55.2/10)²)/(2π·10²).
    away = float(np.sum(places[1] ** 2)) / 200
    assert over[1] == pytest.approx(np.log(1e4) + away, abs=0.01)
    assert over[2] == -np.inf


def test_no_place_is_kept_without_excess():
    from tacthmc.tuning._objective import objective

    like = jnp.zeros(2)
    target = tacthmc.potential(lambda x: -log_normal(x, 0.0, 1.0))
    energies = objective(jax.random.key(0), target, like)
    known = [Known(Gaussian(np.zeros(2), np.eye(2)), 0.01)]  # a little more than all
    rng = np.random.default_rng(0)
    found = screened(rng, energies, known, None, 4096, 64, like.dtype)
    assert found.places.shape == (0, 2)
    assert found.gradients == 4096
