"""Bias, width and power against ranks whose errors are known."""

import numpy as np
import pytest

from tacthmc.calibration._scores import (
    POWER,
    bias,
    bias_p_value,
    detectable_bias,
    detectable_widths,
    width,
    width_p_value,
)
from tests.budget import QUANTILE


def ranks_of(rng, count, num_draws, shift=0.0, wide=1.0, shape=None):
    """Normalized ranks of standard normal truths among shifted and widened draws."""
    truth = rng.normal(size=count)
    draws = shift + wide * rng.normal(size=(count, num_draws))
    if shape is not None:
        truth, draws = shape(truth), shape(draws)
    below = (draws < truth[:, None]).sum(axis=1)
    return (below + rng.random(count)) / (num_draws + 1)


@pytest.mark.parametrize("shape", [None, np.exp])
def test_p_values_hold_for_any_posterior(shape):
    rng = np.random.default_rng(0)
    found = np.array(
        [
            (bias_p_value(ranks), width_p_value(ranks))
            for ranks in (ranks_of(rng, 60, 10, shape=shape) for _ in range(800))
        ]
    )
    for share in (0.02, 0.3):
        error = QUANTILE * np.sqrt(share * (1 - share) / len(found))
        assert np.all(np.abs((found < share).mean(axis=0) - share) < error)


@pytest.mark.parametrize("wide", [0.7, 0.9, 1.0, 1.3])
@pytest.mark.parametrize("num_draws", [20, 100])
def test_width_and_bias_are_estimated(wide, num_draws):
    rng = np.random.default_rng(1)
    ranks = ranks_of(rng, 20_000, num_draws, shift=0.1, wide=wide)
    found = width(ranks, num_draws, 2e-7)
    # The shift of 0.1 adds about 0.01/2 to the width.
    assert found.low - 0.01 < wide < found.high + 0.01
    assert abs(found.value - wide) < 0.05
    assert abs(bias(ranks, 0.01).value - 0.1 / wide) < 0.05


def test_detectable_errors_are_found_as_often_as_they_say():
    rng, count, num_draws, level, repeats = np.random.default_rng(2), 200, 50, 0.01, 400
    narrow, wide = detectable_widths(count, num_draws, level)
    shift = detectable_bias(count, level)
    error = QUANTILE * np.sqrt(POWER * (1 - POWER) / repeats)
    for settings, p_value in (
        ({"wide": narrow}, width_p_value),
        ({"wide": wide}, width_p_value),
        ({"shift": shift}, bias_p_value),
    ):
        found = [
            p_value(ranks_of(rng, count, num_draws, **settings)) < level for _ in range(repeats)
        ]
        # Where ranks are wrong, their squares are not quite those of a scaled normal law.
        assert abs(np.mean(found) - POWER) < error + 0.02
