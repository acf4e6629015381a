"""Modes found in draws."""

import numpy as np

from tacthmc.diagnostics import find_modes


def test_modes_of_few_and_of_equal_draws():
    rng = np.random.default_rng(0)
    few = np.concatenate([rng.normal(size=372), 10 + rng.normal(size=28)])[:, None]
    assert len(find_modes(few).shares) == 2
    assert find_modes(rng.normal(size=(20, 1))) is None
    assert find_modes(np.zeros((1000, 2))) is None
    repeated = np.repeat(rng.normal(size=(300, 1)), 20, axis=0)
    assert len(find_modes(repeated).shares) <= 2
