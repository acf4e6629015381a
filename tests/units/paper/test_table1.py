"""Table 1 on a few made images: slices, chains, divergence, and what is written."""

import json
import math
import shutil
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.paper.networks import mlp
from tacthmc.paper.table1 import averages, group_run, paper, reproduce
from tacthmc.paper.table1.cell_sampler import cell_sampler
from tacthmc.paper.table1.configs import CONFIGS
from tacthmc.paper.table1.evaluation import Evaluation
from tacthmc.paper.table1.group import Group, groups
from tacthmc.paper.table1.images import images, subset
from tacthmc.paper.table1.program import GroupProgram
from tacthmc.paper.table1.summary import entries
from tacthmc.paper.table1.tables import latex
from tacthmc.paper.tasks import METHODS, TASKS
from tacthmc.predict import per_draw
from tests.units.paper.made_images import SOME, call, records_of

pytestmark = pytest.mark.usefixtures("quick_compilation")


def of(task):
    assert task == "mlp"
    return SOME


def asked(method, **options):
    options = {"noises": (0.0, 0.3), "epochs": 4} | options
    return groups(tasks=["mlp"], methods=[method], **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two methods in one go."""
    folder = tmp_path_factory.mktemp("whole")
    for method in ("adam", "tact"):
        assert reproduce.reproduce(asked(method, seeds=[0, 1]), of, folder, command="a test")
    return folder


# Adam's slices are tested with table B.
@pytest.mark.parametrize("method", ["tact", pytest.param("adam", marks=pytest.mark.slow)])
def test_slices_make_the_same_numbers_as_one_go(whole, method, tmp_path):
    # A slice of no time makes one epoch.
    slices = [
        reproduce.reproduce(asked(method, seeds=[0, 1]), of, tmp_path, minutes=0, command="a test")
        for _ in range(4)
    ]
    assert slices == [False, False, False, True]
    expected = [record for record in records_of(whole) if record["method"] == method]
    assert json.dumps(records_of(tmp_path)) == json.dumps(expected)


def test_a_slice_goes_on_where_runs_are_spread_over_cores(whole, tmp_path, monkeypatch):
    # A program that names no devices has one, when it begins and when it goes on.
    monkeypatch.setattr("tacthmc.compiler._cpu_devices._in_use", 2)
    group = asked("adam", seeds=[0, 1])
    assert not reproduce.reproduce(group, of, tmp_path, minutes=0, command="a test")
    assert reproduce.reproduce(group, of, tmp_path, command="a test")
    expected = [record for record in records_of(whole) if record["method"] == "adam"]
    assert json.dumps(records_of(tmp_path)) == json.dumps(expected)


def stop_after_a_chunk(observer, snapshot):
    """What Ctrl-C does: the run ends after a chunk, wherever that is in an epoch."""
    Evaluation.__call__(observer, snapshot)
    return True


class Interrupted(Evaluation):
    __call__ = stop_after_a_chunk


def test_an_interrupted_run_goes_on_within_the_epoch(whole, tmp_path, monkeypatch):
    both = [*asked("adam", seeds=[0, 1]), *asked("tact", seeds=[0, 1])]
    with monkeypatch.context() as patch:
        patch.setattr(group_run, "Evaluation", Interrupted)
        assert not reproduce.reproduce(both, of, tmp_path, command="a test")
    # The first chunk is one interval, and the first epoch has two. Nothing else began.
    found = reproduce.read_records(tmp_path)
    assert {(r["method"], r["epochs_done"], r["steps"]) for r in found} == {("adam", 0, 2)}
    assert not any(r["finished"] for r in found)
    assert reproduce.reproduce(both, of, tmp_path, command="a test")
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
    monkeypatch.setattr(reproduce, "advance", None)
    assert reproduce.reproduce(asked("adam", seeds=[0, 1]), of, whole)


def test_a_cell_does_not_depend_on_its_company(whole, tmp_path):
    # As many chains as there, so that the program is compiled already.
    others = asked("adam", noises=[0.1, 0.3], seeds=[1, 7])
    assert reproduce.reproduce(others, of, tmp_path)

    def cell(folder):
        found = reproduce.read_records(folder)
        return next(r for r in found if (r["method"], r["noise"], r["seed"]) == ("adam", 0.3, 1))

    for score in ("accuracy", "log_loss", "brier"):
        assert cell(tmp_path)[score] == pytest.approx(cell(whole)[score], rel=1e-4)


def test_wrong_labels_and_seeds_make_a_difference(whole):
    found = [r["log_loss"] for r in reproduce.read_records(whole) if r["method"] == "adam"]
    assert len(set(found)) == 4


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
        probabilities, entropies = per_draw(model.logits, draws, inputs)
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
    none = averages.LatestDraws.none({"x": jnp.zeros(3)})
    draws = averages.latest_draws(none, kept, keep)
    assert draws.there.tolist() == [True, False, True]
    # Draws are packed without gaps.
    assert [float(draws.positions["x"][0]), float(draws.positions["x"][2])] == [1.0, 11.0]
    # A chain without a draw in the epoch's next chunk has the one from before.
    later = averages.latest_draws(draws, {"x": 100 + kept["x"]}, keep[jnp.array([1, 2, 1])])
    assert later.there.tolist() == [True, True, True]
    assert later.positions["x"].tolist() == [1.0, 107.0, 11.0]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A group after one epoch, and its folder."""
    (group,), out = asked("adam", seeds=[0, 1]), tmp_path_factory.mktemp("stored")
    group_run.advance(group, SOME, out, time.monotonic())
    return group, out


@pytest.fixture
def copy(stored, tmp_path):
    """A copy of them that may be damaged: the group, its folder of results, its run's folder."""
    group, out = stored
    shutil.copytree(out, tmp_path, dirs_exist_ok=True)
    return group, tmp_path, group_run.state_folder(tmp_path, group, SOME)


def test_another_groups_run_is_refused(copy):
    _, out, path = copy
    (other,) = asked("adam", seeds=[0, 1], draw_every=2)
    path.rename(group_run.state_folder(out, other, SOME))
    with pytest.raises(tacthmc.StoreError, match=r"belongs to .*'draw_every': 1.* not"):
        group_run.advance(other, SOME, out, None)


def test_a_damaged_run_is_refused(copy):
    group, out, path = copy
    for file in path.glob("checkpoints/*/state/**/*"):
        if file.is_file():
            file.write_bytes(b"something else")
    with (
        pytest.warns(UserWarning, match="trying an older one"),
        pytest.raises(tacthmc.StoreError, match="has no sound checkpoint"),
    ):
        group_run.advance(group, SOME, out, None)
    for file in (path / "config.json", *path.glob("copies/config.json*")):
        file.write_text("something else")
    with pytest.raises(tacthmc.StoreError, match=r"config\.json is damaged"):
        group_run.advance(group, SOME, out, None)


def test_a_checkpoint_of_an_earlier_layout_is_refused(copy):
    group, out, path = copy
    path.rename(path.with_name(f"{path.name}.npz"))
    with pytest.raises(tacthmc.StoreError, match=r"earlier version of tacthmc.* delete it"):
        group_run.advance(group, SOME, out, None)


def test_without_its_run_a_former_group_is_missed(copy):
    group, out, path = copy
    shutil.rmtree(path)
    with pytest.raises(tacthmc.StoreError, match="from which chains were to go on, is gone"):
        group_run.read(group, SOME, out)


@pytest.mark.parametrize("config", list(CONFIGS))
@pytest.mark.parametrize("method", list(METHODS))
def test_every_configuration_makes_its_sampler(config, method):
    sampler, keep = cell_sampler(CONFIGS[config], TASKS["cnn"], method, 50_000, {})
    window = 390 if (config, method) == ("tuned", "tact") else None
    assert (keep.every, keep.after, keep.relaxation_window) == (50, 0, window)
    if method in ("tact", "sgnht"):
        steps = 100.0 if config in ("adapted", "tuned") else None
        assert sampler.thermostat.inertia.steps == steps
        assert sampler.step_size == pytest.approx(1e-3 / 50_000)
    if method == "tact" and config != "tuned":
        assert sampler.tempering.thermostat.inertia.steps == steps


def test_xi_takes_settings_of_its_own():
    given = {"xi_learning_rate": 5e-3, "xi_noise": 0.3, "inertia": 20.0, "keep_every": 25}
    sampler, keep = cell_sampler(CONFIGS["paper"], TASKS["cnn"], "tact", 1000, given)
    xi = sampler.tempering
    assert (xi.step_size, xi.noise) == (5e-3 / 1000, 0.3)
    assert (sampler.step_size, sampler.injected) == (1e-3 / 1000, 0.1)
    assert sampler.thermostat.inertia.steps == 20
    assert xi.thermostat.inertia.gamma == 1
    # K is one number: that of draws and of momenta drawn afresh.
    assert keep.every == sampler.refresh.every == xi.refresh.every == 25


def test_a_seed_counts_once(whole):
    records = reproduce.read_records(whole)
    twice = [*records, *({**record, "group": "another"} for record in records)]
    assert [len(e.records) for e in entries(twice)] == [len(e.records) for e in entries(records)]


def test_a_step_size_of_its_own():
    for method in ("tact", "sgnht", "sghmc"):
        given = {"learning_rate": 50.0}
        sampler = cell_sampler(CONFIGS["splitting"], TASKS["cnn"], method, 100, given).sampler
        assert sampler.step_size == 0.5


def test_epochs_are_as_long_as_the_data():
    group = Group("mlp", "adam", "adapted", (0.0,), (0,), 40)
    program = GroupProgram(group, SOME)
    steps = program.epochs.end(40) * program.keep_every
    assert steps == math.ceil(40 * 320 / 128 / program.keep_every) * program.keep_every
    ends = [program.epochs.end(epoch) for epoch in range(41)]
    assert program.epochs.longest(40) == max(np.diff(ends)) == 2
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
    with pytest.raises(ValueError, match=r"method must be one of .*\(sgnht\?\)"):
        groups(methods=["sgnth"])
    (wrong,) = asked("sghmc", noises=[0.0], settings={"inertia": (10.0,)})
    with pytest.raises(ValueError, match="a setting of sghmc must be one of learning_rate"):
        GroupProgram(wrong, SOME)
    (wrong,) = asked("adam", noises=[0.0], settings={"keep_every": (1, 2)})
    with pytest.raises(ValueError, match=r"same for all chains of a program; got \[1, 2\]"):
        GroupProgram(wrong, SOME)


def test_the_command_runs_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("tacthmc.paper.table1.subcommands.images", lambda *asked: SOME)
    words = ["--task", "mlp", "--method", "adam", "--noise", "0", "0.3", "--seeds", "0", "1"]
    words += ["--epochs", "4", "--out", tmp_path]
    first = call(*words, "--minutes", 0)
    assert first.exit_code == 0, first.output
    assert "the same command goes on" in first.output
    again = call(*words)
    assert again.exit_code == 0, again.output
    assert "the same command goes on" not in again.output
    found = reproduce.read_records(tmp_path)
    assert [(r["noise"], r["seed"]) for r in found] == [(0.0, 0), (0.0, 1), (0.3, 0), (0.3, 1)]
    assert "--noise 0 0.3 --method adam" in found[0]["command"]
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
