"""Every sampler's draws and traces are those that were frozen.

``make test`` makes one of each sampler's runs, the four of them taking turns; ``make test-slow``
makes the others.
"""

import numpy as np
import pytest

from tests.golden.runs import FOLDER, RUNS, numbers
from tests.table import SAMPLERS

pytestmark = pytest.mark.usefixtures("quick_compilation")

TOLERANCE = 1e-10
SURE_ROWS = 8
"""Rows of 10 steps after which two trajectories with a ξ still agree to the tolerance.

Programs and processors differ in the last bits, and a ξ that learns its bias makes trajectories
part exponentially. With mini-batches their distance grows about tenfold in a row: from 1e-16 to
1e-11 in 8 rows, and to 1e-6 or more in 20. A change of the equations shows in the first row.
"""
MAX_TOLERANCE = 1e-3
"""Rows with a larger tolerance are not compared."""

CASES = [
    pytest.param(name, *run, marks=() if number % len(RUNS) == turn else pytest.mark.slow)
    for number, name in enumerate(SAMPLERS)
    for turn, run in enumerate(RUNS)
]


def frozen_run(name, kind, chains):
    part = f"{kind}/{chains}/"
    with np.load(FOLDER / f"{name}.npz") as records:
        return {
            key.removeprefix(part): records[key] for key in records.files if key.startswith(part)
        }


def agree(found, frozen):
    assert set(found) == set(frozen)
    kept = found["trace/keep"]
    for row in range(kept.shape[1]):
        parted = max(0, row + 1 - SURE_ROWS) if "trace/xi" in found else 0
        tolerance = TOLERANCE * 10.0**parted
        if tolerance > MAX_TOLERANCE:
            break
        for key, values in found.items():
            if key.startswith("trace/"):
                here, there = values[:, row], frozen[key][:, row]
            else:
                chain = int(key.split("/")[1])
                draw = slice(kept[chain, :row].sum(), kept[chain, : row + 1].sum())
                here, there = values[draw], frozen[key][draw]
            np.testing.assert_allclose(
                here, there, rtol=tolerance, atol=tolerance, err_msg=f"{key}, row {row}"
            )


@pytest.mark.parametrize(("name", "kind", "chains"), CASES)
def test_draws_and_traces_are_the_frozen_ones(name, kind, chains, x64):
    found = numbers(name, kind, chains)
    part = f"{kind}/{chains}/"
    agree(
        {key.removeprefix(part): value for key, value in found.items()},
        frozen_run(name, kind, chains),
    )


@pytest.mark.parametrize(("name", "row"), [("tact", 7), ("sgnht", 19)])
@pytest.mark.parametrize("column", ["energy", "thermostat"])
def test_a_small_change_is_noticed(name, row, column):
    run = frozen_run(name, "mini-batches", 3)
    other = {key: np.array(values) for key, values in run.items()}
    other[f"trace/{column}"][1, row] *= 1 + 1e-8
    agree(run, run)
    with pytest.raises(AssertionError, match=f"trace/{column}, row {row}"):
        agree(other, run)


def test_every_record_is_compared():
    assert {path.stem for path in FOLDER.glob("*.npz")} == set(SAMPLERS)
    for name in SAMPLERS:
        with np.load(FOLDER / f"{name}.npz") as frozen:
            parts = {tuple(key.split("/")[:2]) for key in frozen.files}
        assert parts == {(kind, str(chains)) for kind, chains in RUNS}
