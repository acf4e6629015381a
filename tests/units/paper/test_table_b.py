"""Table B on a few made images: the search, what it chooses, final runs, tables and merging."""

import dataclasses
import json
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.paper.data import validation_split
from tacthmc.paper.table1 import merge, reproduce, search_space
from tacthmc.paper.table1.averages import predicted
from tacthmc.paper.table1.configs import CONFIGS, sampler_settings
from tacthmc.paper.table1.group import Cell, Group, Stage
from tacthmc.paper.table1.images import images
from tacthmc.paper.table1.program import Program, cell_keys
from tacthmc.paper.table1.protocol import SEARCH_SEED, Protocol
from tacthmc.paper.table1.report import against, reached
from tacthmc.paper.table1.running import Running
from tacthmc.paper.table1.search import best, finals, first_cells, rung
from tacthmc.paper.table1.summary import entries
from tacthmc.paper.table1.table_b import command_b, reproduce_b
from tacthmc.paper.table1.tables import markdown
from tacthmc.paper.table1.tables_b import entries_b, latex_b, markdown_b, write_table_b
from tacthmc.paper.tasks import METHODS, TASKS
from tacthmc.potentials import label_noise
from tacthmc.samplers import momentum_sgd
from tests.fresh import fresh
from tests.units.paper.test_table1 import CLOCKS, SOME, call, records_of

# One worker: compiled programs are shared.
pytestmark = pytest.mark.xdist_group("test_table_b")

ROOT = Path(__file__).parents[3]
HELD_OUT = validation_split(SOME)
# Of the same size, so that one compiled program serves the search and the final runs.
FINAL = dataclasses.replace(
    SOME,
    train_images=SOME.train_images[:288],
    train_labels=SOME.train_labels[:288],
    test_images=SOME.test_images[:32],
    test_labels=SOME.test_labels[:32],
)
QUICK = Protocol.quick()
RUN = ("adam", "tact")


def of(task, validation):
    assert task == "mlp"
    return HELD_OUT if validation else FINAL


def run_b(folder, method, **options):
    given = {"protocol": QUICK, "command": "a test"} | options
    return reproduce_b(of, folder, tasks=["mlp"], methods=[method], **given)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two methods in one go."""
    folder = tmp_path_factory.mktemp("whole")
    for method in RUN:
        assert run_b(folder, method)
    return folder


def some_of(folder, **wanted):
    found = reproduce.read_records(folder)
    return [r for r in found if all(r[name] == value for name, value in wanted.items())]


def test_slices_make_the_same_numbers_as_one_go(whole, tmp_path):
    for method in RUN:
        # A slice of no time makes one epoch: 2 of the search, 4 of one chain, 2 of two.
        slices = [run_b(tmp_path, method, minutes=0) for _ in range(8)]
        assert slices == [False] * 7 + [True]
    found, expected = (
        [{k: v for k, v in record.items() if k not in CLOCKS} for record in records_of(folder)]
        for folder in (tmp_path, whole)
    )
    assert json.dumps(found) == json.dumps(expected)


def test_a_rung_keeps_the_best_at_each_noise_level(whole):
    for method in RUN:
        for noise in QUICK.noises:
            own = {"method": method, "noise": noise}
            first, second = (some_of(whole, **own, stage="search", rung=n) for n in (1, 2))
            assert (len(first), len(second)) == (4, 2)
            assert {r["judged_on"] for r in first + second} == {"validation images"}
            assert {r["data"] for r in first + second} == {"some-validation"}
            order = sorted(first, key=lambda r: r["log_loss"])
            went_on = [r["settings"]["given"] for r in second]
            assert all(r["settings"]["given"] in went_on for r in order[:2])
            chosen = min(second, key=lambda r: r["log_loss"])["settings"]["given"]
            final = some_of(whole, **own, stage="final")
            assert all(r["settings"]["given"] == chosen for r in final)
            assert Counter(r["chains"] for r in final) == {1: 2, 2: 2}


def test_a_setting_that_does_nothing_is_not_chosen(tmp_path, monkeypatch):
    ranges = (search_space.Range("learning_rate", 1e-12, 1e2),)
    monkeypatch.setitem(search_space.SPACE, "adam", ranges)
    assert run_b(tmp_path, "adam")
    tried = sorted(r["settings"]["given"]["learning_rate"] for r in some_of(tmp_path, rung=1))
    chosen = {r["settings"]["given"]["learning_rate"] for r in some_of(tmp_path, stage="final")}
    assert tried[::2] == [5.62e-11, 1.78e-07, 0.000562, 1.78]
    assert chosen == {0.000562}


def test_what_has_no_score_comes_last():
    def record(loss, rate):
        settings = {"given": {"learning_rate": rate}}
        return {"noise": 0.0, "log_loss": loss, "settings": settings}

    found = best([record(None, 1.0), record(2.0, 2.0), record(1.0, 3.0)], 2)
    assert [dict(cell.settings)["learning_rate"] for cell in found] == [3.0, 2.0]


def test_every_method_gets_the_same(whole):
    usual = Protocol.of()
    for method in METHODS:
        tried = search_space.settings(method, 12)
        assert len(set(tried)) == 12
        cells = first_cells(method, usual)
        assert len(cells) == 36
        group, total = None, 0
        for number, (count, end) in enumerate(usual.rungs, start=1):
            left = [c for c in cells if c.settings in tried[:count]]
            begun = 0 if group is None else group.epochs
            group = rung("cnn", method, usual, number, left, group)
            total += len(group.cells) * (end - begun)
            assert group.burn_in == (begun or 6)
            assert group.held == 90
        assert total == 3 * usual.search_epochs
        one, four = finals("cnn", method, usual, dict.fromkeys(usual.noises, tried[0]))
        assert (one.epochs, len(one.cells), one.burn_in, one.held) == (300, 9, 90, 90)
        assert (four.epochs, len(four.cells), four.burn_in, four.held) == (75, 36, 22, 22)
        assert not {c.seed for c in one.cells} & {SEARCH_SEED}
    costs = {
        method: sum(r["steps"] * r["chains"] for r in some_of(whole, method=method, stage="final"))
        for method in RUN
    }
    assert costs["adam"] == costs["tact"] > 0


def test_same_pairs_of_rate_and_noise():
    names = {"sghmc": "friction", "sgnht": "noise", "tact": "noise"}
    pairs = [
        [(dict(one)["learning_rate"], dict(one)[name]) for one in search_space.settings(m, 12)]
        for m, name in names.items()
    ]
    assert pairs[0] == pairs[1] == pairs[2]
    # Each number takes each place once.
    places = np.sort(search_space.shares(12, 4), axis=0)
    assert np.allclose(places, ((np.arange(12) + 0.5) / 12)[:, None])


@pytest.mark.parametrize("method", RUN)
def test_who_goes_on_is_as_if_never_stopped(whole, tmp_path, method):
    went_on = some_of(whole, method=method, stage="search", rung=2)
    cells = best(went_on, 2)
    stage = Stage("search", tuple(cells), burn_in=1, held=QUICK.held)
    group = Group("mlp", method, "tuned", QUICK.noises, (SEARCH_SEED,), 2, stage=stage)
    running = Running(Program(group, HELD_OUT), tmp_path / "x.npz", group.identity(HELD_OUT))
    running.advance(None, print)
    for chain, cell in enumerate(cells):
        (same,) = (
            r
            for r in went_on
            if r["noise"] == cell.noise and r["settings"]["given"] == dict(cell.settings)
        )
        last = running.tally.curve[-1]["draw_log_loss"][chain]
        assert last == pytest.approx(same["curve"]["draw_log_loss"][-1], rel=1e-4)
        assert same["draws"] == 1
        assert same["steps"] == running.tally.intervals * running.program.keep_every


def test_records_say_all_that_a_table_needs(whole):
    found = reproduce.read_records(whole)
    # At 2 noise levels 4 + 2 of the search; 2 seeds with one chain and with two.
    assert len(found) == 2 * 2 * (6 + 4)
    names = "table task data method noise seed epochs accuracy log_loss brier ece plateau_share"
    names += " round_trips wall_seconds config settings versions device command finished stage rung"
    names += " judged_on chains total_epochs held_epochs note diverged_at_step"
    for record in found:
        assert set(names.split()) <= set(record)
        assert record["table"] == "B"
        assert record["finished"]
        assert 0 <= record["accuracy"] <= 1
        assert (record["seed"] == SEARCH_SEED) == (record["stage"] == "search")
        assert (record["round_trips"] is None) == (record["method"] == "adam")
    for record in some_of(whole, stage="final"):
        assert record["total_epochs"] == 4
        assert record["judged_on"] == "test images"
        assert record["data"] == "some"
        assert record["reliability"] is not None
    # Hundreds of searched chains would fill the file with curves.
    for record in some_of(whole, stage="search"):
        assert len(record["curve"]["epoch"]) == 1
        assert record["reliability"] is None
    tact = some_of(whole, method="tact", stage="final", chains=1)
    assert {r["note"] for r in tact if not r["round_trips"]} <= {"no round trip: SGNHT"}
    assert {r["held_epochs"] for r in tact} == {1}


@pytest.mark.parametrize("method", RUN)
def test_several_chains_predict_by_their_average(whole, method):
    chosen = {
        r["noise"]: tuple(sorted(r["settings"]["given"].items()))
        for r in some_of(whole, method=method, stage="final")
    }
    _, group = finals("mlp", method, QUICK, chosen)
    path = whole / "state" / f"{group.name(FINAL)}.npz"
    assert path.exists()
    running = Running(Program(group, FINAL), path, group.identity(FINAL))
    sums, draws = running.averages.probabilities, np.asarray(running.averages.draws)
    if method == "adam":
        positions = running.chains.state.position
        sums = predicted(running.program.model.logits, positions, running.program.images)[0]
        draws = np.ones(8)
    sums = np.asarray(sums, float)
    for record in some_of(whole, method=method, stage="final", chains=2):
        own = [
            n
            for n, cell in enumerate(group.cells)
            if (cell.noise, cell.seed) == (record["noise"], record["seed"])
        ]
        assert len(own) == 2
        mean = sums[own].sum(axis=0) / draws[own].sum()
        right = mean[np.arange(len(mean)), FINAL.test_labels]
        assert record["log_loss"] == pytest.approx(-np.log(right).mean(), rel=1e-4)
        right = np.mean(mean.argmax(1) == FINAL.test_labels)
        assert record["accuracy"] == pytest.approx(right, rel=1e-4)
        # No chain is another's copy.
        assert len({tuple(one) for one in sums[own, 0].round(6)}) == 2


def test_chains_of_a_seed_have_keys_of_their_own():
    cells = [Cell(noise, seed, (), c) for noise in (0.0, 0.3) for seed in (0, 1) for c in range(4)]
    keys = [jax.random.key_data(k) for cell in cells for k in cell_keys(cell)]
    # First parameters are the same at both noise levels.
    assert len({tuple(np.asarray(k).tolist()) for k in keys}) == 16 + 8


def made(method, seed, accuracy, **other):
    record = {
        "table": "B", "stage": "final", "task": "cnn", "data": "cifar10", "method": method,
        "noise": 0.2, "chains": 1, "epochs": 300, "compute": "tf32", "config": "tuned",
        "seed": seed, "accuracy": accuracy, "log_loss": 1 - accuracy, "ece": 0.05,
        "round_trips": None, "settings": {"given": {"learning_rate": 0.001}}, "finished": True,
        "epochs_done": 300, "note": "", "diverged_at_step": None, "paper_accuracy": None,
        "command": "tacthmc reproduce table1 --table B", "group": method,
    }  # fmt: skip
    return record | other


def test_the_table_has_mean_and_deviation_over_seeds():
    trips = {"round_trips": 0, "note": "no round trip: SGNHT"}
    tact = [made("tact", s, x, **trips) for s, x in enumerate((0.70, 0.72, 0.74))]
    adam = [made("adam", s, x) for s, x in enumerate((0.60, 0.61, 0.62))]
    sgnht = [made("sgnht", s, x) for s, x in enumerate((0.69, 0.71, 0.73))]
    found = entries_b([*tact, *adam, *sgnht, {**tact[0], "finished": False, "accuracy": 0.1}])
    assert [entry.method for entry in found] == ["adam", "sgnht", "tact"]
    text = markdown_b(found)
    assert "| 1 × 300 | 20% | TACT-HMC | 3 | 72.00 ± 2.00 | 0.2800 ± 0.0200 |" in text
    assert "0, 0, 0 | learning_rate 0.001 | no round trip: SGNHT |" in text
    assert "tacthmc reproduce table1 --table B\n" in text
    assert "| 1 × 300 | 20% | – | no difference (SGNHT) | no difference (SGNHT) |" in text
    assert against(found[2], found[0], "accuracy") == "better"
    assert against(found[0], found[2], "log_loss") == "worse"
    (alone,) = entries_b([made("tact", 0, 0.7, paper_accuracy=0.7)])
    assert against(alone, found[0], "accuracy") == "ahead, one seed"
    assert against(alone, found[1], "log_loss") == "behind, one seed"
    assert reached(alone) == "70.00: reached"
    assert against(alone, alone, "ece") == "level, one seed"
    (rest,) = entries_b([made("tact", 0, 0.6, paper_accuracy=0.7, finished=False)])
    assert reached(rest) == "70.00: not reached so far"
    (other,) = entries_b([made("tact", 0, 0.8, paper_accuracy=0.7, task="mlp", data="emnist47")])
    assert reached(other) == "70.00 on other data"
    tex = latex_b(found)
    assert "72.00$\\,\\pm\\,$2.00 (no round trip: SGNHT) & 0.2800$\\,\\pm\\,$0.0200" in tex
    assert tex.count("\\begin{tabular}") == tex.count("\\end{tabular}") == 1


def test_folders_of_several_processes_join(whole, tmp_path):
    one, other, both = (tmp_path / name for name in ("one", "other", "both"))
    everything = reproduce.read_records(whole)
    reproduce.write_records(one, [r for r in everything if r["method"] == "adam"])
    behind = [{**r, "finished": False, "epochs_done": 0} for r in everything]
    tact = [r for r in everything if r["method"] == "tact"]
    reproduce.write_records(other, [*tact, *(r for r in behind if r["method"] == "adam")])
    paths = merge.merge([one, other], both)
    assert [p.name for p in paths] == ["results.json", "search.json", "table-b.md", "table-b.tex"]
    assert reproduce.read_records(both) == everything
    write_table_b(whole)
    assert (both / "table-b.md").read_text() == (whole / "table-b.md").read_text()
    result = call("--merge", one, other, "--out", tmp_path / "again")
    assert result.exit_code == 0, result.output
    assert reproduce.read_records(tmp_path / "again") == everything
    with pytest.raises(FileNotFoundError, match=r"has no results\.json"):
        merge.merge([tmp_path / "none"], both)


def test_results_are_whole_records_and_the_search_is_beside_them(whole, tmp_path):
    everything = reproduce.read_records(whole)
    finals = json.loads((whole / "results.json").read_text(encoding="utf-8"))
    assert finals == [r for r in everything if r["stage"] != "search"]
    text = (whole / "search.json").read_text(encoding="utf-8")
    searched = [r for r in everything if r["stage"] == "search"]
    groups = {r["group"] for r in searched}
    # What a group shares is written once: a line a record and two for each group.
    assert text.count('"versions":') == len(groups) < len(searched)
    assert len(text.splitlines()) == len(searched) + 2 * len(groups) + 2
    # Written anew they are the same files, and one list of whole records is read too.
    reproduce.write_records(tmp_path, everything)
    for name in ("results.json", "search.json"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()
    (tmp_path / "search.json").unlink()
    (tmp_path / "results.json").write_text(json.dumps(everything), encoding="utf-8")
    assert reproduce.read_records(tmp_path) == everything


def test_values_that_are_equal_and_not_the_same(tmp_path):
    some = [made("tact", 0, 0.7, draws=1), made("tact", 1, True, draws=1.0)]
    some = [r | {"stage": "search"} for r in some]
    reproduce.write_records(tmp_path, some)
    again = [json.dumps(r, sort_keys=True) for r in reproduce.read_records(tmp_path)]
    assert again == [json.dumps(r, sort_keys=True) for r in some]


@pytest.mark.parametrize("name", ["table1", "table-b"])
def test_published_results_are_small_and_make_the_published_tables(name):
    folder = ROOT / "results" / name
    for path in folder.glob("*.json"):
        assert path.stat().st_size < 2**20
    records = reproduce.read_records(folder)
    text = markdown(entries(records)) if name == "table1" else markdown_b(entries_b(records))
    assert (folder / f"{name}.md").read_text(encoding="utf-8") == text


def test_the_command_takes_table_b(whole, tmp_path, monkeypatch):
    asked = []

    def found(name, folder, quick, validation):
        asked.append(validation)
        return HELD_OUT

    monkeypatch.setattr("tacthmc.paper.table1.images.images", found)
    words = ["--table", "B", "--quick", "--task", "mlp", "--method", "adam", "--out", tmp_path]
    result = call(*words)
    assert result.exit_code == 0, result.output
    assert "| 2 × 2 | 20% | Adam | 2 |" in result.output
    # A look never sees a test image.
    assert all(asked)
    assert {r["judged_on"] for r in reproduce.read_records(tmp_path)} == {"validation images"}
    # The search is the one that was made before.
    names = {r["group"] for r in some_of(whole, method="adam", stage="search")}
    assert names == {r["group"] for r in some_of(tmp_path, stage="search")}
    refused = call(*words, "--config", "paper")
    assert refused.exit_code == 1
    assert "protocol fixes what --config would change" in refused.output


def test_the_command_in_the_records_says_what_is_unusual():
    protocol = Protocol.of(400, seeds=(0,), noises=(0.2,))
    assert command_b([], ["adam"], protocol).endswith(
        "--table B --method adam --noise 0.2 --seeds 0 --epochs 400 --compute float32"
    )


def test_what_cannot_be_asked_for(tmp_path):
    with pytest.raises(ValueError, match="multiple of 4"):
        Protocol.of(30)
    with pytest.raises(ValueError, match="must not have the search's"):
        Protocol.of(seeds=(0, SEARCH_SEED))
    with pytest.raises(ValueError, match="from many settings to few"):
        Protocol(((2, 1), (4, 2)), 4)
    with pytest.raises(ValueError, match=r"method must be one of .*\(sgnht\?\)"):
        reproduce_b(of, tmp_path, methods=["sgnth"])


def test_xi_is_held_and_then_swept():
    chosen = TASKS["cnn"]
    given = {"sweep_epochs": 10.0, "hottest": 2.0, "learning_rate": 5e-3, "noise": 0.05}
    made = sampler_settings(CONFIGS["tuned"], chosen, "tact", 6400, given, held=700)
    sampler = METHODS["tact"](chosen, 6400, CONFIGS["tuned"].variant, made)
    assert (sampler.sweep.period, sampler.sweep.start, sampler.relaxed.window) == (1000, 700, 50)
    assert (sampler.step_size, sampler.injected) == (5e-3 / 6400, 0.05)
    places = [float(sampler.sweep.at(step, sampler.coupling)[0]) for step in (699, 1100, 1450)]
    heat = [1 / float(sampler.coupling.value_and_slope(jnp.asarray(xi))[0]) for xi in places]
    np.testing.assert_allclose(heat, [1.0, 1.0, 2.0], rtol=1e-5)


def test_momenta_are_chains_of_one_program():
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    pair = [momentum_sgd(0.01, momentum, keep_every=20) for momentum in (0.5, 0.9)]
    run = tacthmc.sample(jax.random.key(0), pair, target, jnp.ones(2), 20)
    for draw, momentum in zip(run.draws[:, -1], (0.5, 0.9), strict=True):
        x, v = 1.0, 0.0
        for _ in range(20):
            v = x + momentum * v
            x -= 0.01 * v
        assert np.allclose(draw, x, rtol=1e-5)


def test_a_likelihood_with_wrong_labels_is_tempered():
    data = (jnp.zeros((6, 2)), jnp.arange(6))
    clean = tacthmc.posterior(
        lambda theta: -jnp.sum(theta**2),
        lambda theta, example: jax.nn.log_softmax(theta)[example[1]],
        data,
        6,
    )
    split = tacthmc.temper_likelihood(label_noise(clean, [0.0, 1.0])).of_chain(1)
    memory = split.init_data(jax.random.key(0))
    theta = jnp.arange(6.0)
    batch = split.fetch(split.select(memory, jax.random.key(1), theta)[1])
    prior, likelihood, _ = split.parts_with(theta, batch, None)
    assert float(prior) == 55.0
    assert float(likelihood) == pytest.approx(
        -float(jnp.sum(jax.nn.log_softmax(theta)[batch[1]])), rel=1e-5
    )


def test_the_api_needs_no_typer():
    fresh(
        "import sys; sys.modules['typer'] = None\n"
        "import tacthmc.paper.table1.merge, tacthmc.paper.table1.table_b, tacthmc.paper.table1.images\n"
        "from tacthmc.paper.table1.reproduce import reproduce\n"
    )


def test_quick_images_are_held_out_before_they_are_few(monkeypatch):
    monkeypatch.setattr("tacthmc.paper.table1.images.load", lambda *_, **__: SOME)
    found = images("mlp", None, True, True)
    assert found.name == "some-validation, 288 + 32 images"
