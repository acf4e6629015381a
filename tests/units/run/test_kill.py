"""SIGKILL at any moment loses nothing: the resumed run is the uninterrupted one, byte for byte."""

import numpy as np
import pytest

import tacthmc
from tests import child as problem
from tests.killing import child, computed_again, contents, same


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "run"
    problem.begin(path)
    return contents(path)


@pytest.mark.xdist_group("kill")
def test_killed_and_resumed(tmp_path, tmp_path_factory, reference):
    path, cache = tmp_path / "run", tmp_path_factory.mktemp("cache")
    child(path, "checkpoint:3", cache)  # the first checkpoint is at step 0
    seen = []
    visible = tacthmc.load(path).num_draws
    for kill in ("flush:2", "publish:2", "checkpoint:2", "steps:6500", ""):
        errors = child(path, kill, cache)
        seen.append(computed_again(errors))
        # What readers once saw stays there.
        draws = tacthmc.load(path).num_draws
        assert draws >= visible
        visible = draws
    steps, again = np.array(seen).T
    assert np.all(np.diff(steps) > 0), seen
    assert steps[0] > 0
    assert np.all(again <= problem.CHECKPOINT_STEPS), seen
    same(contents(path), reference)


@pytest.mark.xdist_group("kill")
def test_the_reference_is_what_a_run_in_memory_gives(reference):
    run = problem.begin()
    for chain, draws in enumerate(run.all_draws):
        for name, leaf in draws.items():
            assert leaf.tobytes() == reference[f"posterior/{name}[{chain}]"].tobytes()
    assert run.trace["energy"].tobytes() == reference["trace/energy"].tobytes()
