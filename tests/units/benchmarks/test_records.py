"""Records: rows that a later run adds to, with how each was measured."""

import json
from argparse import ArgumentParser, Namespace

import numpy as np
import pytest

from benchmarks import images, record
from benchmarks.record import RecordError, Rows
from tacthmc.paper import data
from tacthmc.paper.networks import mlp

SAME = ("method", "size")


def rows_of(path):
    return json.loads(path.read_text())["rows"]


def test_rows_are_written_one_by_one_and_not_measured_again(tmp_path):
    path = tmp_path / "deep" / "rows.json"
    rows = Rows(path, {"command": "one"}, SAME)
    assert not path.exists()
    rows.add({"method": "a", "size": 1, "rate": 1 / 3})
    assert rows_of(path) == [{"method": "a", "size": 1, "rate": 0.333333, "run": 0}]
    later = Rows(path, {"command": "two"}, SAME)
    assert later.has({"method": "a", "size": 1})
    assert not later.has({"method": "a", "size": 2})
    later.add({"method": "a", "size": 2, "rate": 2.0})
    file = json.loads(path.read_text())
    assert [run["command"] for run in file["runs"]] == ["one", "two"]
    assert [row["run"] for row in file["rows"]] == [0, 1]
    assert not list(path.parent.glob("*.part"))


def test_again_replaces_rows_once(tmp_path):
    path = tmp_path / "rows.json"
    Rows(path, {"command": "one"}, SAME).add({"method": "a", "size": 1, "rate": 1.0})
    rows = Rows(path, {"command": "two"}, SAME, again=True)
    assert not rows.has({"method": "a", "size": 1})
    rows.add({"method": "a", "size": 1, "rate": 2.0})
    assert rows.has({"method": "a", "size": 1})
    assert rows_of(path) == [{"method": "a", "size": 1, "rate": 2.0, "run": 1}]


def test_a_key_that_an_earlier_row_lacks_is_ignored(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"about": {"command": "old"}, "rows": [{"method": "a"}]}))
    rows = Rows(path, {"command": "new"}, SAME)
    assert rows.has({"method": "a", "size": 3})
    assert not rows.has({"method": "b", "size": 3})
    rows.add({"method": "b", "size": 3})
    assert json.loads(path.read_text())["about"] == {"command": "old"}


def test_earlier_rows_keep_all_their_digits(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"method": "a", "size": 1, "rate": 0.1234567890123}]))
    rows = Rows(path, {"command": "new"}, SAME)
    rows.add({"method": "b", "size": 1, "rate": np.float32(0.1234567890123)})
    rows.write(ratios={"a": np.float64(1 / 3)})
    assert [row["rate"] for row in rows_of(path)] == [0.1234567890123, 0.123457]
    assert json.loads(path.read_text())["ratios"] == {"a": 0.333333}


@pytest.mark.parametrize("text", ["[1, 2", '{"cases": {}}', "3"])
def test_a_file_of_something_else_is_left_alone(tmp_path, text):
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(RecordError, match="--out"):
        Rows(path, {}, SAME)
    assert path.read_text() == text


def test_a_record_says_how_it_was_made():
    found = record.about(Namespace(command="python -m benchmarks x"), seed=3)
    assert {"command", "date", "device", "versions", "seed"} == set(found)
    assert {"python", "tacthmc", "jax"} <= set(found["versions"])


@pytest.mark.parametrize("path", sorted(record.RECORDS.glob("*.json")), ids=lambda path: path.name)
def test_every_published_record_says_how_it_was_made(path):
    text = path.read_text(encoding="utf-8")
    if path.name != "no_numbers_references.json":  # no measurement, but computed
        assert '"command' in text
        assert '"jax"' in text
    assert record.read(path.name) == json.loads(text)


def test_a_quick_look_at_a_network_needs_no_data(tmp_path):
    parser = ArgumentParser()
    images.add_data(parser)
    args = Namespace(**vars(parser.parse_args([])), quick=True)
    found = images.loaded("fashion_mnist", args)
    assert found.num_train == images.STAND_IN[0]
    other = images.loaded("emnist47", args)
    assert (found.test_images != other.test_images).any()
    few = images.limited(found, 30)
    assert (few.num_train, len(few.test_labels)) == (30, 30)
    model = mlp(784, 3, 10)
    potential = images.posterior(model, data.shaped(few, model).train, 5)
    assert potential.num_data == 30
    with pytest.raises(RecordError, match="--data"):
        images.loaded("fashion_mnist", Namespace(data=None, quick=False))


def test_a_folder_of_random_images_is_read_like_a_real_one(tmp_path):
    images.write_stand_in("fashion_mnist", tmp_path)
    found = images.loaded("fashion_mnist", Namespace(data=tmp_path, quick=False))
    assert found.num_train == 60_000


def test_a_run_without_draws_has_no_scores():
    predictive = images.predict.Predictive(lambda draw, x: x, np.ones((2, 3), np.float32))
    assert images.prediction_of(predictive) is None
    assert images.scores_of(None, np.zeros(2)) == {"draws": 0.0}
