"""Table 1 on a few made images: slices, chains, divergence, and what is written."""

import json
import math
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import tacthmc
from tacthmc.cli._app import app
from tacthmc.paper.data import ImageSet
from tacthmc.paper.networks import mlp
from tacthmc.paper.table1 import averages, checkpoint, paper, reproduce
from tacthmc.paper.table1.configs import CONFIGS, sampler_settings
from tacthmc.paper.table1.group import Group, groups
from tacthmc.paper.table1.images import images, subset
from tacthmc.paper.table1.program import Program
from tacthmc.paper.table1.running import Running
from tacthmc.paper.table1.summary import entries
from tacthmc.paper.table1.tables import latex, markdown
from tacthmc.paper.tasks import METHODS, TASKS
from tacthmc.samplers import tact_from_tuple
from tacthmc.store._errors import StoreError

# One worker: compiled programs are shared.
pytestmark = pytest.mark.xdist_group("test_table1")

CLOCKS = ("wall_seconds", "compile_seconds", "evaluation_share")


def some_images(count=320, tests=96):
    """Images with a bar whose place tells the class."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 47, count + tests).astype(np.uint8)
    pictures = rng.integers(0, 60, (count + tests, 28, 28))
    pictures[np.arange(count + tests), labels // 2, :] += 120
    pictures[np.arange(count + tests), :, labels % 28] += 60
    pictures = pictures.astype(np.uint8)
    names = tuple(map(str, range(47)))
    parts = pictures[:count], labels[:count], pictures[count:], labels[count:]
    return ImageSet("some", *parts, names, "made")


SOME = some_images()


def of(task):
    assert task == "mlp"
    return SOME


def asked(method, **options):
    options = {"noises": (0.0, 0.3), "epochs": 4} | options
    return groups(tasks=["mlp"], methods=[method], **options)


def records_of(folder):
    found = reproduce.read_records(folder)
    return [{k: v for k, v in record.items() if k not in CLOCKS} for record in found]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two methods in one go."""
    folder = tmp_path_factory.mktemp("whole")
    for method in ("adam", "tact"):
        assert reproduce.reproduce(asked(method, seeds=[0, 1]), of, folder, command="a test")
    return folder


def test_slices_make_the_same_numbers_as_one_go(whole, tmp_path):
    for method in ("adam", "tact"):
        # A slice of no time makes one epoch.
        slices = [
            reproduce.reproduce(
                asked(method, seeds=[0, 1]), of, tmp_path, minutes=0, command="a test"
            )
            for _ in range(4)
        ]
        assert slices == [False, False, False, True]
    assert json.dumps(records_of(tmp_path)) == json.dumps(records_of(whole))


def test_records_say_all_that_a_table_needs(whole):
    found = reproduce.read_records(whole)
    assert len(found) == 8
    names = "table task data method noise seed epochs accuracy log_loss brier ece plateau_share"
    names += " round_trips wall_seconds config settings versions device command finished"
    for record in found:
        assert set(names.split()) <= set(record)
        assert record["finished"]
        assert record["epochs_done"] == 4
        assert 0 <= record["accuracy"] <= 1
        assert record["draws"] == 3
        assert len(record["curve"]["epoch"]) == 4
        assert record["curve"]["accuracy"][0] is None  # within the burn-in
        assert record["settings"]["num_data"] == 320
    adam, tact = (next(r for r in found if r["method"] == m) for m in ("adam", "tact"))
    assert adam["judged_by"] == "last iterate"
    assert adam["accuracy"] == adam["curve"]["draw_accuracy"][-1]
    assert adam["average"]["accuracy"] == adam["curve"]["accuracy"][-1]
    assert tact["judged_by"] == "average over draws"
    assert tact["accuracy"] == tact["curve"]["accuracy"][-1]
    assert tact["log_loss"] == pytest.approx(tact["curve"]["log_loss"][-1], rel=1e-4)
    assert tact["plateau_share"] == 1
    assert tact["note"] == "no round trip: SGNHT"
    assert adam["round_trips"] is None
    assert tact["settings"]["thermostat.inertia.steps"] == 100


def test_what_is_finished_is_not_run_again(whole, monkeypatch):
    monkeypatch.setattr(reproduce, "Program", None)
    assert reproduce.reproduce(asked("adam", seeds=[0, 1]), of, whole)


def test_a_cell_does_not_depend_on_its_company(whole, tmp_path):
    assert reproduce.reproduce(asked("adam", noises=[0.3], seeds=[1]), of, tmp_path)
    (alone,) = reproduce.read_records(tmp_path)
    (same,) = (
        r
        for r in reproduce.read_records(whole)
        if (r["method"], r["noise"], r["seed"]) == ("adam", 0.3, 1)
    )
    for score in ("accuracy", "log_loss", "brier"):
        assert alone[score] == pytest.approx(same[score], rel=1e-4)


def test_wrong_labels_and_seeds_make_a_difference(whole):
    found = [r["log_loss"] for r in reproduce.read_records(whole) if r["method"] == "adam"]
    assert len(set(found)) == 4


def test_a_cell_that_diverges_takes_no_other_with_it(tmp_path):
    wild = asked("momentum_sgd", noises=[0.0], settings={"learning_rate": (1e-3, 1e12)})
    assert reproduce.reproduce(wild, of, tmp_path)
    tame, gone = reproduce.read_records(tmp_path)
    assert tame["diverged_at_step"] is None
    assert tame["accuracy"] is not None
    assert tame["settings"]["given"] == {"learning_rate": 1e-3}
    assert gone["diverged_at_step"] > 0
    assert gone["accuracy"] is None
    assert gone["average"]["accuracy"] is None
    assert "diverged at step" in gone["note"]
    assert "diverged in 1 of 1" in markdown(entries([tame, gone]))


def test_tables_stand_beside_the_papers(whole):
    paths = reproduce.write_tables(whole)
    assert {path.name for path in paths} >= {"results.json", "table1.md", "table1.tex"}
    assert (whole / "curves-mlp.pdf").stat().st_size > 5_000
    assert (whole / "reliability-mlp.png").stat().st_size > 5_000
    text = (whole / "table1.md").read_text()
    assert "| TACT-HMC (adapted) | 0% | 4 | 2 |" in text
    assert "no round trip: SGNHT" in text
    assert " 84.85 |" in text
    assert "does not say to what" in text
    assert "| adapted, 4 epochs | 0% | 84.85 on other data | " in text
    for command in {record["command"] for record in reproduce.read_records(whole)}:
        assert f"\n{command}\n" in text
    tex = (whole / "table1.tex").read_text()
    assert "83.39" in tex
    assert tex.count("\\begin{tabular}") == tex.count("\\end{tabular}") == 1
    assert latex([]).startswith("%")


def test_the_papers_numbers_are_all_there():
    assert set(paper.ACCURACY) == set(TASKS)
    for rows in paper.ACCURACY.values():
        assert list(rows) == list(METHODS) == list(paper.TITLES)
        assert all(len(row) == 3 for row in rows.values())
        # TACT-HMC is best in every column there.
        assert all(max(column) == column[-1] for column in zip(*rows.values(), strict=True))


def test_averages_are_those_of_a_predictive():
    model = mlp(inputs=6, hidden=4, classes=3)
    inputs = jnp.asarray(np.random.default_rng(0).normal(size=(11, 6)), jnp.float32)
    labels = np.arange(11) % 3
    predictive = tacthmc.predict.Predictive(model, inputs, per_chain=True)
    sums = averages.Averages.none(2, 11, 3)
    for k in range(5):
        draws = jax.vmap(model.init)(jax.random.split(jax.random.key(k), 2))
        there = jnp.array([True, k > 2])
        probabilities, entropies = averages.predicted(model.logits, draws, inputs)
        sums = averages.added(sums, probabilities, entropies, there)
        for chain in np.flatnonzero(there):
            own = jax.tree.map(lambda x, c=chain: x[c : c + 1], draws)
            predictive.add(own, chain=int(chain))
    accuracy, loss = averages.quick_scores(sums.probabilities, sums.draws, jnp.asarray(labels))
    for chain, right in predictive.chains.items():
        found = sums.prediction(chain)
        assert found.weight == right.weight
        assert np.allclose(found.probabilities, right.probabilities, atol=1e-6)
        assert np.allclose(found.mutual_information, right.mutual_information, atol=1e-5)
        assert float(accuracy[chain]) == pytest.approx(right.scores(labels).accuracy)
        assert float(loss[chain]) == pytest.approx(right.scores(labels).log_loss, rel=1e-5)


def test_the_last_draw_of_an_epoch_counts():
    kept = {"x": jnp.arange(12.0).reshape(3, 4)}
    keep = jnp.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
    draws, there = averages.last_kept(kept, keep)
    assert there.tolist() == [True, False, True]
    # Draws are packed without gaps.
    assert [float(draws["x"][0]), float(draws["x"][2])] == [1.0, 11.0]


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path):
    (group,) = asked("adam", noises=[0.0])
    program, path = Program(group, SOME), tmp_path / "x.npz"
    running = Running(program, path, group.identity(SOME))
    running.advance(time.monotonic(), print)
    with pytest.raises(StoreError, match="belongs to"):
        Running(program, path, {"other": 1})
    arrays, notes = checkpoint.read(path)
    arrays["words"][0, 5] ^= 1
    checkpoint.save(path, arrays, notes)
    with pytest.raises(StoreError, match="its checksum differs"):
        Running(program, path, group.identity(SOME))
    path.write_bytes(b"something else")
    with pytest.raises(StoreError, match="is no checkpoint"):
        Running(program, path, group.identity(SOME))


@pytest.mark.parametrize("config", list(CONFIGS))
@pytest.mark.parametrize("method", list(METHODS))
def test_every_configuration_makes_its_sampler(config, method):
    given = sampler_settings(CONFIGS[config], TASKS["cnn"], method, 50_000, {})
    sampler = METHODS[method](TASKS["cnn"], 50_000, CONFIGS[config].variant, given)
    assert sampler.keep_every == 50
    if method in ("tact", "sgnht"):
        steps = 100.0 if config in ("adapted", "tuned") else None
        assert sampler.thermostat.inertia.steps == steps
        assert sampler.step_size == pytest.approx(1e-3 / 50_000)


def test_a_seed_counts_once(whole):
    records = reproduce.read_records(whole)
    twice = [*records, *({**record, "group": "another"} for record in records)]
    assert [len(e.records) for e in entries(twice)] == [len(e.records) for e in entries(records)]


def test_a_step_size_of_its_own():
    seven = TASKS["cnn"].seven
    assert tact_from_tuple(seven, 100, "splitting", step_size=0.5).step_size == 0.5


def test_epochs_are_as_long_as_the_data():
    group = Group("mlp", "adam", "adapted", (0.0,), (0,), 40)
    program = Program(group, SOME)
    steps = sum(program.intervals(epoch) for epoch in range(40)) * program.keep_every
    assert steps == math.ceil(40 * 320 / 128 / program.keep_every) * program.keep_every
    assert group.burn_in == 12


def test_what_cannot_be_asked_for():
    with pytest.raises(ValueError, match="share of the labels"):
        groups(noises=[2.0])
    with pytest.raises(ValueError, match="name it with --method"):
        groups(settings={"noise": (0.1,)})
    with pytest.raises(ValueError, match="seeds must be different numbers"):
        groups(seeds=[1, 1])
    with pytest.raises(ValueError, match="config must be one of"):
        groups(config="best")


def call(*words):
    return CliRunner().invoke(app, ["reproduce", "table1", *map(str, words)])


def test_the_command_runs_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("tacthmc.paper.table1.images.images", lambda *asked: SOME)
    words = ["--task", "mlp", "--method", "adam", "--noise", "0", "0.2", "--out", tmp_path]
    first = call(*words, "--epochs", 3, "--minutes", 0)
    assert first.exit_code == 0, first.output
    assert "the same command goes on" in first.output
    again = call(*words, "--epochs", 3)
    assert again.exit_code == 0, again.output
    assert "the same command goes on" not in again.output
    found = reproduce.read_records(tmp_path)
    assert [r["noise"] for r in found] == [0.0, 0.2]
    assert "--noise 0 0.2 --method adam" in found[0]["command"]
    help_text = call("--help").output
    assert "Examples" in help_text


def test_without_data_the_command_says_where_to_put_them(tmp_path):
    result = call("--task", "rnn", "--data", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "Fashion-MNIST is not in" in result.output
    with pytest.raises(tacthmc.paper.data.DataError, match="EMNIST Balanced is not in"):
        images("mlp", tmp_path, True)


def test_a_subset_is_always_the_same():
    one, other = (subset(SOME, 50, 20) for _ in range(2))
    assert np.array_equal(one.train_images, other.train_images)
    assert one.num_train == 50
    assert one.name == "some, 50 + 20 images"
