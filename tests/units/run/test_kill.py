"""SIGKILL at any moment loses nothing: the resumed run is the uninterrupted one, byte for byte."""

import numpy as np
import pytest

import tacthmc
from tests import stored_run
from tests.killed_process import computed_again, run_until
from tests.stored_run import assert_identical, contents


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "run"
    stored_run.begin(path)
    return contents(path)


def test_killed_and_resumed(tmp_path, tmp_path_factory, reference, capfd):
    path, cache = tmp_path / "run", tmp_path_factory.mktemp("cache")
    run_until("checkpoint:3", path, cache)  # the first checkpoint is at step 0
    seen, visible = [], tacthmc.load(path).num_draws
    for kill in ("flush:2", "publish:2", "steps:6500", None):
        if kill is None:
            tacthmc.resume(path, trust=True)
        seen.append(
            computed_again(run_until(kill, path, cache) if kill else capfd.readouterr().err)
        )
        # What readers once saw stays there.
        draws = tacthmc.load(path).num_draws
        assert draws >= visible
        visible = draws
    steps, again = np.array(seen).T
    assert np.all(np.diff(steps) > 0), seen
    assert steps[0] > 0
    assert np.all(again <= stored_run.CHECKPOINT_STEPS), seen
    assert_identical(contents(path), reference)


def test_the_reference_is_what_a_run_in_memory_gives(reference):
    run = stored_run.begin()
    for chain, draws in enumerate(run.all_draws):
        for name, leaf in draws.items():
            assert leaf.tobytes() == reference[f"posterior/{name}[{chain}]"].tobytes()
    assert run.trace["energy"].tobytes() == reference["trace/energy"].tobytes()
