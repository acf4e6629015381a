"""Every sampler's draws and traces are those that were frozen."""

import numpy as np
import pytest

from tests.golden.runs import FOLDER, numbers
from tests.table import SAMPLERS

# Processors differ in the last bits, which 200 steps let grow.
TOLERANCE = 1e-10


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_draws_and_traces_are_the_frozen_ones(name, x64):
    seen = numbers(name)
    with np.load(FOLDER / f"{name}.npz") as frozen:
        assert set(seen) == set(frozen.files)
        for key in frozen.files:
            np.testing.assert_allclose(
                seen[key], frozen[key], rtol=TOLERANCE, atol=TOLERANCE, err_msg=key
            )


def test_no_record_is_left_over():
    assert {path.stem for path in FOLDER.glob("*.npz")} == set(SAMPLERS)
