"""The band and its p-values against simulation and against small cases done by hand."""

from itertools import product

import numpy as np
import pytest

from tacthmc.calibration._rank_band import (
    _counts,
    _coverage,
    _intervals,
    differences,
    points_of,
    rank_band,
    uniform_p_value,
)
from tests.budget import PER_CHECK, QUANTILE


def test_the_recursion_counts_every_way_of_few_ranks():
    """Four ranks in four cells: all 256 ways, one by one."""
    count, gamma = 4, 0.2
    points = points_of(count)
    low, high = _intervals(count, gamma)
    inside = 0
    for cells in product(range(4), repeat=count):
        ranks = (np.array(cells) + 0.5) / 4
        counts = _counts(ranks, points)
        inside += bool(np.all((counts >= low) & (counts <= high)))
    assert np.isclose(_coverage(count, gamma), inside / 4**count, atol=1e-12)


@pytest.mark.parametrize("count", [30, 500])
def test_the_band_holds_uniform_ranks_as_often_as_it_says(count):
    repeats, level = 4000, 0.2
    ranks = np.random.default_rng(count).random((repeats, count))
    band = rank_band(count, level)
    gaps = np.stack([differences(row) for row in ranks])
    inside = np.mean(np.all((gaps >= band.low - 1e-9) & (gaps <= band.high + 1e-9), axis=1))
    # Counts are whole numbers, so that no band has the level exactly.
    error = QUANTILE * np.sqrt(level * (1 - level) / repeats)
    assert 1 - level - error < inside < 1 - level + error + 0.02


def test_p_values_are_those_of_uniform_ranks():
    rng = np.random.default_rng(0)
    found = np.array([uniform_p_value(rng.random(40)) for _ in range(1000)])
    for share in (0.01, 0.1, 0.5):
        error = QUANTILE * np.sqrt(share * (1 - share) / len(found))
        assert np.mean(found <= share) < share + error
        assert np.mean(found <= share) > 0.5 * share - error


def test_small_p_values_are_small():
    """Where the p-value is below the suite's own failure probability per check."""
    rng = np.random.default_rng(1)
    assert uniform_p_value(rng.beta(1.5, 1.5, 1000)) < PER_CHECK
    assert uniform_p_value(np.full(1000, 0.5)) == pytest.approx(0, abs=1e-12)
