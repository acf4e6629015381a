"""Modes found in draws."""

import numpy as np
import pytest

from tacthmc.diagnostics import find_modes


def test_modes_of_few_and_of_equal_draws():
    rng = np.random.default_rng(0)
    few = np.concatenate([rng.normal(size=372), 10 + rng.normal(size=28)])[:, None]
    assert len(find_modes(few).shares) == 2
    assert find_modes(rng.normal(size=(20, 1))) is None
    assert find_modes(np.zeros((1000, 2))) is None
    repeated = np.repeat(rng.normal(size=(300, 1)), 20, axis=0)
    assert len(find_modes(repeated).shares) <= 2


@pytest.mark.parametrize(
    ("draws", "options", "message"),
    [
        (np.zeros((0, 2)), {}, "draws must be numbers of shape"),
        (np.zeros((5, 0)), {}, "draws must be numbers of shape"),
        (np.zeros(5), {}, "draws must be numbers of shape"),
        (np.array([[None, 1.0]]), {}, "draws must be numbers of shape.*object"),
        (np.full((50, 1), np.nan), {}, "draws must be finite; got 50 values"),
        (np.ones((50, 1)), {"ratio": 1.0}, "ratio must be more than 1; got 1.0"),
        (np.ones((50, 1)), {"least": 1.0}, "least must be a share below 1; got 1.0"),
        (np.ones((50, 1)), {"neighbors": 0}, "neighbors must be a whole number >= 1; got 0"),
        (np.ones((50, 1)), {"most": 0}, "most must be a whole number >= 1; got 0"),
    ],
)
def test_draws_without_modes_are_refused(draws, options, message):
    with pytest.raises(ValueError, match=message):
        find_modes(draws, **options)
