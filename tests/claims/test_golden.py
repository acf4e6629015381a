"""Every sampler's draws and traces are those that were frozen, in double precision.

``make test`` makes one of a sampler's four runs, of samplers that have code of their own;
``make test-slow`` makes the others.
"""

import numpy as np
import pytest

from tests.golden.runs import FOLDER, RUNS, numbers
from tests.table import EVERY, SAMPLERS

TOLERANCE = 1e-10
EARLY_ROWS = 150 // EVERY
LATE_TOLERANCE = 1e-8
"""Of a trace beyond 150 steps. Programs and processors differ in the last bits, and trajectories
part exponentially: by 200 steps 1e-16 has grown to 5e-9 where it grows fastest."""

PARTS_FROZEN_ELSEWHERE = {
    "tact-tensor-metadynamics",
    "tact-diagonal-well-tempered",
    "tact-linear",
    "tact-scheduled-widening",
    "tact-scheduled-euler",
    "without-thermostat",
    "sghmc",
}


def is_fast(name, turn):
    return name not in PARTS_FROZEN_ELSEWHERE and list(SAMPLERS).index(name) % len(RUNS) == turn


CASES = [
    pytest.param(name, *run, marks=() if is_fast(name, turn) else pytest.mark.slow)
    for name in SAMPLERS
    for turn, run in enumerate(RUNS)
]


def agree(found, frozen, tolerance, what):
    assert found.dtype == frozen.dtype
    np.testing.assert_allclose(found, frozen, rtol=tolerance, atol=tolerance, err_msg=what)


@pytest.mark.parametrize(("name", "kind", "chains"), CASES)
def test_draws_and_traces_are_the_frozen_ones(name, kind, chains, x64):
    found, part = numbers(name, kind, chains), f"{kind}/{chains}/"
    with np.load(FOLDER / f"{name}.npz") as frozen:
        assert set(found) == {key for key in frozen.files if key.startswith(part)}
        for key, values in found.items():
            if "/trace/" in key:
                early, late = np.split(values, [EARLY_ROWS], axis=1)
                frozen_early, frozen_late = np.split(frozen[key], [EARLY_ROWS], axis=1)
                agree(early, frozen_early, TOLERANCE, key)
                agree(late, frozen_late, LATE_TOLERANCE, key)
            else:
                agree(values, frozen[key], TOLERANCE, key)


def test_every_record_is_compared():
    assert {path.stem for path in FOLDER.glob("*.npz")} == set(SAMPLERS)
    for name in SAMPLERS:
        with np.load(FOLDER / f"{name}.npz") as frozen:
            parts = {tuple(key.split("/")[:2]) for key in frozen.files}
        assert parts == {(kind, str(chains)) for kind, chains in RUNS}
