"""Calibration by simulation: every sampler that has a posterior, on five models."""

import pytest

from tests.calibration.cases import CASES, Case, faults
from tests.calibration.contenders import CONTENDERS, WITHOUT_A_POSTERIOR
from tests.calibration.models import MODELS
from tests.calibration.rows import row_of
from tests.table import SAMPLERS


def test_every_sampler_is_calibrated_or_has_no_posterior():
    assert set(CONTENDERS) | WITHOUT_A_POSTERIOR == set(SAMPLERS)
    assert not set(CONTENDERS) & WITHOUT_A_POSTERIOR
    assert len(MODELS) == 5
    full = {(case.model, case.sampler) for case in CASES if not case.batched}
    assert len(full) == 5 * len(CONTENDERS)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_calibration(case, record):
    row = row_of(case)
    record(verdict=row["verdict"], draws=row["draws"], cpu_seconds=row["cpu_seconds"])
    assert not row["faults"]


def wide(value, low, high):
    return {"name": "theta[0]", "width": [value, low, high], "bias": [0.0, -0.1, 0.1]}


def test_a_row_that_is_not_as_expected_is_a_fault():
    """The judge itself: a width beyond what the docstring lets expect."""
    case = Case("mean", "sghmc", True)
    expected = case.expected
    assert expected.high > 1.15, "mini-batches heat SGHMC, and its docstring says so"
    row = {"verdict": "wrong", "expected": expected._asdict(), "diverged": 0, "draws": 50}
    row["simulations"] = 2_000
    hot = expected.high**0.5
    assert not faults({**row, "checks": [wide(hot, hot - 0.05, hot + 0.05)]})
    assert faults({**row, "checks": [wide(hot + 0.2, hot + 0.15, hot + 0.25)]})
    assert faults({**row, "checks": [wide(0.8, 0.75, 0.85)]})
    assert faults({**row, "verdict": "too short", "checks": []})
    assert faults({**row, "diverged": 3, "checks": []})
    exact = Case("mean", "adjusted", False).expected
    assert faults({**row, "expected": exact._asdict(), "checks": []})
