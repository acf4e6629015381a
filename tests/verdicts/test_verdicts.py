"""No green light on a wrong run, and no warning on a right one.

A few rows of the tables run by default. All of them run with ``make test-slow``, on seeds on which
no threshold was chosen.
"""

import re
import warnings

import jax
import numpy as np
import pytest

from tacthmc.run import DivergedWarning
from tests.verdicts.right_runs import RIGHT
from tests.verdicts.wrong_runs import WRONG

pytestmark = pytest.mark.usefixtures("quick_compilation")

UNUSED_SEEDS = range(2_000, 2_010)
MAX_MISSED = MAX_FALSE = 0.025
QUICK_WRONG = ["a likelihood whose gradient is stopped", "few moves between modes"]
QUICK_RIGHT = ["a flat top"]
POINTS = {"noise", "steps", "agreement", "width", "modes", "model", "length"}


def alarms(run):
    return [note for note in run.summary().notes if note.startswith("!")]


def made(one, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)
        return one.run(jax.random.key(seed))


def named(rows, names=None):
    return [pytest.param(row, id=row.name) for row in rows if names is None or row.name in names]


def is_caught(one, run):
    return any(re.search(one.warning, note) for note in alarms(run))


def is_wrong(one, run):
    # A run that lost a chain has draws that are not finite.
    with np.errstate(all="ignore"):
        error = one.error(run)
    return not error < one.least


@pytest.mark.parametrize("one", named(WRONG, QUICK_WRONG))
def test_a_wrong_run_is_caught(one):
    run = made(one, 0)
    assert is_wrong(one, run)
    assert is_caught(one, run), alarms(run)


@pytest.mark.parametrize("one", named(RIGHT, QUICK_RIGHT))
def test_a_right_run_is_not_warned_of(one):
    assert alarms(made(one, 0)) == []


def test_the_tables_have_no_row_twice():
    for rows in (WRONG, RIGHT):
        assert len({row.name for row in rows}) == len(rows)
    assert {row.point for row in WRONG} <= POINTS
    assert {row.name for row in WRONG} >= set(QUICK_WRONG)
    assert {row.name for row in RIGHT} >= set(QUICK_RIGHT)


@pytest.mark.slow
def test_wrong_runs_of_unused_seeds_are_caught(record):
    wrong, missed = 0, []
    for one in WRONG:
        runs = [made(one, seed) for seed in UNUSED_SEEDS]
        bad = [run for run in runs if is_wrong(one, run)]
        assert len(bad) >= 0.8 * len(runs), f"{one.name} is wrong in {len(bad)} runs only"
        wrong += len(bad)
        missed += [one.name for run in bad if not is_caught(one, run)]
        jax.clear_caches()
    record(quantity="wrong runs missed", runs=wrong, missed=len(missed), names=missed)
    assert len(missed) <= MAX_MISSED * wrong, missed


@pytest.mark.slow
def test_right_runs_of_unused_seeds_are_not_warned_of(record):
    false = []
    for one in RIGHT:
        for seed in UNUSED_SEEDS:
            false += [(one.name, seed, note) for note in alarms(made(one, seed))[:1]]
        jax.clear_caches()
    count = len(RIGHT) * len(UNUSED_SEEDS)
    record(quantity="right runs warned of", runs=count, warned=len(false), names=false)
    assert len(false) <= MAX_FALSE * count, false
