"""Table B on a few made images: the search, what it chooses, final runs, tables and merging."""

import dataclasses
import json
from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.paper.data import validation_split
from tacthmc.paper.table1 import group_run, merge, reproduce, search_space
from tacthmc.paper.table1.cell_sampler import cell_sampler
from tacthmc.paper.table1.configs import CONFIGS
from tacthmc.paper.table1.group import Cell, Group, Stage, groups
from tacthmc.paper.table1.images import images
from tacthmc.paper.table1.program import cell_keys
from tacthmc.paper.table1.protocol import SEARCH_SEED, Protocol
from tacthmc.paper.table1.search import best, finals, first_cells, rung
from tacthmc.paper.table1.summary import entries
from tacthmc.paper.table1.table_b import reproduce_b
from tacthmc.paper.table1.tables import markdown
from tacthmc.paper.table1.tables_b import write_table_b
from tacthmc.paper.tasks import METHODS, TASKS
from tacthmc.potentials import label_noise
from tacthmc.predict import per_draw
from tacthmc.samplers import momentum_sgd
from tests.fresh_process import fresh_process
from tests.units.paper.made_images import SOME, call, records_of

pytestmark = pytest.mark.usefixtures("quick_compilation")

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
# TACT-HMC's chains go on from one another in a faster test.
RUN = ["adam", pytest.param("tact", marks=pytest.mark.slow)]


def of(task, validation):
    assert task == "mlp"
    return HELD_OUT if validation else FINAL


def run_b(folder, method, **options):
    given = {"protocol": QUICK, "command": "a test"} | options
    return reproduce_b(of, folder, tasks=["mlp"], methods=[method], **given)


@pytest.fixture(scope="module", params=RUN)
def method(request):
    return request.param


@pytest.fixture(scope="module")
def whole(method, tmp_path_factory):
    """A method in one go."""
    folder = tmp_path_factory.mktemp("whole")
    assert run_b(folder, method)
    return folder


def some_of(folder, **wanted):
    found = reproduce.read_records(folder)
    return [r for r in found if all(r[name] == value for name, value in wanted.items())]


def test_slices_make_the_same_numbers_as_one_go(whole, method, tmp_path):
    # A slice of no time makes one epoch: 2 of the search, 4 of one chain, 2 of two.
    slices = [run_b(tmp_path, method, minutes=0) for _ in range(8)]
    assert slices == [False] * 7 + [True]
    assert json.dumps(records_of(tmp_path)) == json.dumps(records_of(whole))


@pytest.mark.parametrize("noise", QUICK.noises)
def test_a_rung_keeps_the_best_at_each_noise_level(whole, noise):
    first, second = (some_of(whole, noise=noise, stage="search", rung=n) for n in (1, 2))
    assert (len(first), len(second)) == (4, 2)
    assert {r["judged_on"] for r in first + second} == {"validation images"}
    assert {r["data"] for r in first + second} == {"some-validation"}
    order = sorted(first, key=lambda r: r["log_loss"])
    went_on = [r["settings"]["given"] for r in second]
    assert all(r["settings"]["given"] in went_on for r in order[:2])
    chosen = min(second, key=lambda r: r["log_loss"])["settings"]["given"]
    final = some_of(whole, noise=noise, stage="final")
    assert all(r["settings"]["given"] == chosen for r in final)
    assert Counter(r["chains"] for r in final) == {1: 2, 2: 2}


def test_chains_of_a_tempered_method_go_on_from_a_rung(tmp_path):
    def cells(count):
        return tuple(first_cells("tact", QUICK)[:count])

    def group(cells, epochs, **stage):
        stage = Stage("search", cells, burn_in=1, held=1, **stage)
        return Group("mlp", "tact", "tuned", QUICK.noises, (SEARCH_SEED,), epochs, stage=stage)

    first = group(cells(4), 1)
    # The other way round: as many chains, so that one compiled program serves all.
    second = group(cells(4)[::-1], 4, rung=2, former=first)
    out, straight = tmp_path / "rungs", tmp_path / "straight"
    assert group_run.advance(first, HELD_OUT, out, None).finished
    slices = [group_run.advance(second, HELD_OUT, out, 0.0) for _ in range(3)]
    assert [one.finished for one in slices] == [False, False, True]
    never_stopped = group_run.advance(group(cells(4)[::-1], 4), HELD_OUT, straight, None)
    one, other = (done.evaluation for done in (slices[-1], never_stopped))
    assert dataclasses.replace(one.tally, evaluation_seconds=0.0, compile_seconds=0.0) == (
        dataclasses.replace(other.tally, evaluation_seconds=0.0, compile_seconds=0.0)
    )
    assert np.array_equal(one.averages.probabilities, other.averages.probabilities)
    assert np.array_equal(one.averages.draws, other.averages.draws)
    assert len(set(one.tally.curve[-1]["draw_log_loss"])) == 4


def test_a_setting_that_does_nothing_is_not_chosen(tmp_path, monkeypatch):
    ranges = (search_space.Range("learning_rate", 1e-12, 1e2),)
    monkeypatch.setitem(search_space.SPACE, "adam", ranges)
    assert run_b(tmp_path, "adam")
    tried = sorted(r["settings"]["given"]["learning_rate"] for r in some_of(tmp_path, rung=1))
    chosen = {r["settings"]["given"]["learning_rate"] for r in some_of(tmp_path, stage="final")}
    assert tried[::2] == [5.62e-11, 1.78e-07, 0.000562, 1.78]
    assert chosen == {0.000562}


def test_a_cell_that_diverges_takes_no_other_with_it(tmp_path):
    # The program of the search's second rung.
    rates = {"learning_rate": (1e-3, 1e30)}
    wild = groups(tasks=["mlp"], methods=["adam"], noises=[0.0, 0.3], epochs=4, settings=rates,
                  config="tuned")  # fmt: skip
    assert reproduce.reproduce(wild, lambda task: FINAL, tmp_path)
    for noise in (0.0, 0.3):
        tame, gone = some_of(tmp_path, noise=noise)
        assert tame["diverged_at_step"] is None
        assert tame["accuracy"] is not None
        assert tame["settings"]["given"] == {"learning_rate": 1e-3}
        assert gone["finished"]
        assert gone["diverged_at_step"] > 0
        assert gone["accuracy"] is None
        assert gone["average"]["accuracy"] is None
        assert "diverged at step" in gone["note"]
        assert "diverged in 1 of 1" in markdown(entries([tame, gone]))


def test_a_group_whose_chains_all_diverged_is_over(tmp_path):
    rates = {"learning_rate": (1e30, 2e30)}
    wild = groups(tasks=["mlp"], methods=["adam"], noises=[0.0, 0.3], epochs=4, settings=rates,
                  config="tuned")  # fmt: skip
    assert reproduce.reproduce(wild, lambda task: FINAL, tmp_path)
    found = reproduce.read_records(tmp_path)
    assert {(r["finished"], r["epochs_done"], r["accuracy"]) for r in found} == {(True, 1, None)}
    # What would go on from its chains is over before it begins.
    (group,) = wild
    cells = tuple(group.cells)
    stage = Stage("search", cells, burn_in=1, held=1, rung=2, former=group)
    after = dataclasses.replace(group, epochs=8, stage=stage)
    done = group_run.advance(after, FINAL, tmp_path, None)
    tally = done.evaluation.tally
    assert done.finished
    assert not done.was_interrupted
    assert (tally.epoch, tally.intervals * done.program.keep_every) == (1, found[0]["steps"])
    assert tally.diverged == [r["diverged_at_step"] for r in found]


def test_what_has_no_score_comes_last():
    def record(loss, rate):
        settings = {"given": {"learning_rate": rate}}
        return {"noise": 0.0, "log_loss": loss, "settings": settings}

    found = best([record(None, 1.0), record(2.0, 2.0), record(1.0, 3.0)], 2)
    assert [dict(cell.settings)["learning_rate"] for cell in found] == [3.0, 2.0]


def test_every_method_gets_the_same():
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


def test_several_chains_share_the_epochs_of_one(whole):
    steps = {(r["chains"], r["epochs"], r["steps"]) for r in some_of(whole, stage="final")}
    # 288 images in batches of 128, in whole intervals of two steps.
    assert steps == {(1, 4, 10), (2, 2, 6)}


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


def test_who_goes_on_is_as_if_never_stopped(whole, method, tmp_path):
    went_on = some_of(whole, stage="search", rung=2)
    cells = best(went_on, 2)
    stage = Stage("search", tuple(cells), burn_in=1, held=QUICK.held)
    group = Group("mlp", method, "tuned", QUICK.noises, (SEARCH_SEED,), 2, stage=stage)
    done = group_run.advance(group, HELD_OUT, tmp_path, None)
    for chain, cell in enumerate(cells):
        (same,) = (
            r
            for r in went_on
            if r["noise"] == cell.noise and r["settings"]["given"] == dict(cell.settings)
        )
        last = done.evaluation.tally.curve[-1]["draw_log_loss"][chain]
        assert last == pytest.approx(same["curve"]["draw_log_loss"][-1], rel=1e-4)
        assert same["draws"] == 1
        assert same["steps"] == done.evaluation.tally.intervals * done.program.keep_every


def test_records_say_all_that_a_table_needs(whole, method):
    found = reproduce.read_records(whole)
    # At 2 noise levels 4 + 2 of the search; 2 seeds with one chain and with two.
    assert len(found) == 2 * (6 + 4)
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
    alone = some_of(whole, stage="final", chains=1)
    assert {r["held_epochs"] for r in alone} == ({1} if method == "tact" else {None})
    assert {r["note"] for r in alone if r["round_trips"] == 0} <= {"no round trip: SGNHT"}


def test_several_chains_predict_by_their_average(whole, method):
    chosen = {
        r["noise"]: tuple(sorted(r["settings"]["given"].items()))
        for r in some_of(whole, stage="final")
    }
    _, group = finals("mlp", method, QUICK, chosen)
    done = group_run.read(group, FINAL, whole)
    sums, draws = done.evaluation.averages.probabilities, np.asarray(done.evaluation.averages.draws)
    if method == "adam":
        positions = done.run.state.position
        sums = per_draw(done.program.model.logits, positions, done.program.images)[0]
        draws = np.ones(8)
    sums = np.asarray(sums, float)
    for record in some_of(whole, stage="final", chains=2):
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


def test_folders_of_several_processes_join(whole, tmp_path):
    one, other, both = (tmp_path / name for name in ("one", "other", "both"))
    everything = reproduce.read_records(whole)
    search, final = (some_of(whole, stage=stage) for stage in ("search", "final"))
    reproduce.write_records(one, search)
    behind = [{**r, "finished": False, "epochs_done": 0} for r in search]
    reproduce.write_records(other, [*final, *behind])
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


def test_the_command_takes_table_b(tmp_path, monkeypatch):
    asked = []

    def found(name, folder, quick, validation):
        asked.append(validation)
        return HELD_OUT

    monkeypatch.setattr("tacthmc.paper.table1.subcommands.images", found)
    words = ["--table", "B", "--quick", "--task", "mlp", "--method", "adam", "--out", tmp_path]
    result = call(*words)
    assert result.exit_code == 0, result.output
    assert "| 2 × 2 | 20% | Adam | 2 |" in result.output
    # A look never sees a test image.
    assert all(asked)
    assert {r["judged_on"] for r in reproduce.read_records(tmp_path)} == {"validation images"}
    # The search is the protocol's.
    (first,) = {r["group"] for r in some_of(tmp_path, stage="search", rung=1)}
    cells = first_cells("adam", QUICK)
    assert first == rung("mlp", "adam", QUICK, 1, cells, None).name(HELD_OUT)
    refused = call(*words, "--config", "paper")
    assert refused.exit_code == 1
    assert "protocol fixes what --config would change" in refused.output


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
    given = {"sweep_epochs": 10.0, "hottest": 2.0, "learning_rate": 5e-3, "noise": 0.05}
    sampler, keep = cell_sampler(CONFIGS["tuned"], TASKS["cnn"], "tact", 6400, given, held=700)
    xi = sampler.tempering
    assert (xi.period, xi.start, keep.relaxation_window) == (1000, 700, 50)
    assert (sampler.step_size, sampler.injected) == (5e-3 / 6400, 0.05)
    places = [float(xi.at(step)[0]) for step in (699, 1100, 1450)]
    heat = [float(xi.coupling.temperature(jnp.asarray(place))) for place in places]
    np.testing.assert_allclose(heat, [1.0, 1.0, 2.0], rtol=1e-5)


def test_momenta_are_chains_of_one_program():
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    pair = [momentum_sgd(0.01, momentum) for momentum in (0.5, 0.9)]
    keep = tacthmc.Keep(every=20, after=0)
    run = tacthmc.sample(jax.random.key(0), pair, target, jnp.ones(2), 20, keep=keep)
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
    split = tacthmc.temper_likelihood(label_noise(clean, [0.0, 1.0])).for_chain(1)
    theta = jnp.arange(6.0)
    batch = eqx.filter_jit(split.batch)(jax.random.key(0), theta)
    energy = split.estimate(theta, batch)
    likelihood = -float(jnp.sum(jax.nn.log_softmax(theta)[batch[1]]))
    assert float(energy.tempered) == pytest.approx(likelihood, rel=1e-5)
    assert float(energy.fixed) == 55.0


def test_the_api_needs_no_typer():
    fresh_process(
        "import sys; sys.modules['typer'] = None\n"
        "from tacthmc.paper.table1 import merge, subcommands, table_b\n"
        "from tacthmc.paper.table1.reproduce import reproduce\n"
    )


def test_quick_images_are_held_out_before_they_are_few(monkeypatch):
    monkeypatch.setattr("tacthmc.paper.table1.images.load", lambda *_, **__: SOME)
    found = images("mlp", None, True, True)
    assert found.name == "some-validation, 288 + 32 images"
