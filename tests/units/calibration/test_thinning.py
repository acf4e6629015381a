"""Draws as far apart as their correlation asks for."""

import numpy as np
import pytest

from tacthmc.calibration._thinning import spaced, stride


def autoregressive(share, chains, length, rng):
    noise = rng.normal(size=(chains, length + 200))
    for k in range(1, noise.shape[1]):
        noise[:, k] = share * noise[:, k - 1] + np.sqrt(1 - share**2) * noise[:, k]
    return noise[:, 200:]


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_the_sum_of_correlations_is_small(share):
    distance = stride(autoregressive(share, 300, 1000, np.random.default_rng(0)))
    far = share**distance
    assert far / (1 - far) < 0.15
    near = share ** max(distance - 1, 1)
    assert distance == 1 or near / (1 - near) > 0.05


def test_chains_that_do_not_forget_or_move_give_one_draw():
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.normal(size=(50, 100)), axis=1)
    assert stride(walk) > 20
    assert stride(np.ones((50, 100))) == 100
    assert stride(rng.normal(size=(50, 3))) == 3


@pytest.mark.parametrize(("length", "distance", "most"), [(100, 7, 100), (99, 1, 10), (5, 9, 3)])
def test_places_are_spread_over_the_chain(length, distance, most):
    places = spaced(length, distance, most)
    assert len(places) == min(most, length // distance)
    assert np.all(np.diff(places) >= distance)
    assert not places.size or places[-1] == length - 1
