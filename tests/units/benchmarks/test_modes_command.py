"""The command that compares samplers on targets with modes: settings, records, pages."""

import json
from argparse import Namespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import __main__ as runner
from benchmarks.modes import command, judge
from benchmarks.modes.judge import Sample, judged
from benchmarks.modes.rivals import OURS, RIVALS
from benchmarks.modes.rivals.rival import Rival, log_density, runs_always
from benchmarks.modes.score import MILLION, score
from benchmarks.modes.targets import planar, target
from benchmarks.pages import modes_tables

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture
def contest(monkeypatch, tmp_path):
    """Two contestants whose errors are known, and the calls of them."""
    calls = []

    def run(of, setting, budget, seeds):
        calls.append((setting, tuple(seeds)))
        centers, samples = np.asarray(planar.circle().means), []
        for rng in map(np.random.default_rng, seeds):
            which = rng.choice(8, setting, p=of.truth.mean)
            samples.append(Sample([centers[which] + 0.3 * rng.normal(size=(setting, 2))], budget))
        return samples

    grid = {f"{count} draws": count for count in (50, 100, 200, 400)}
    fake = {
        OURS: Rival("ours", "…", {"": 200}, run, runs_always),
        "other": Rival("other", "…", grid, run, runs_always),
        "absent": Rival("absent", "…", {"": 0}, run, lambda *_: "not here"),
    }
    monkeypatch.setattr(command, "RIVALS", fake)
    monkeypatch.setattr(runner.tacthmc, "configure_cpu", lambda: None)
    out = tmp_path / "modes.json"
    return (
        ["modes", "--out", str(out), "--only", "ring", "--repeats", "8", "--budget", "1e5"],
        out,
        calls,
    )


def test_the_best_settings_get_all_seeds_and_a_second_call_resumes(contest, capsys):
    words, out, calls = contest
    assert runner.main(words) == 0
    assert calls[:2] == [(200, (0, 1, 2, 3)), (200, (4, 5, 6, 7))]
    scouted = [count for count, seeds in calls[2:] if seeds[0] == 0]
    assert scouted == [50, 100, 200, 400]
    assert len(calls) == 2 + 4 + command.FINALISTS
    file = json.loads(out.read_text())
    assert len(file["rows"]) == len(calls) + 1
    assert {"command", "date", "versions", "grids"} <= set(file["runs"][0])
    ours, other, absent = file["scores"]
    assert ours["repeats"] == 8
    assert ours["counts"]
    assert 0.3 < ours["effective"] / (200 * MILLION / 1e5) < 3
    assert other["setting"] in ("200 draws", "400 draws")
    assert other["tried"] == 4
    assert absent["skipped"] == "not here"
    assert "does not count" not in capsys.readouterr().out
    before = len(calls)
    assert runner.main(words) == 0
    assert len(calls) == before
    assert runner.main([*words, "--rivals", OURS, "--first-seed", "8"]) == 0
    assert calls[before:] == [(200, (8, 9, 10, 11)), (200, (12, 13, 14, 15))]
    assert json.loads(out.read_text())["scores"][0]["repeats"] == 16


def test_a_contestant_that_breaks_leaves_the_others_alone(contest, monkeypatch, capsys):
    words, out, _ = contest

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setitem(command.RIVALS, OURS, command.RIVALS[OURS]._replace(run=broken))
    assert runner.main(words) == 1
    assert "not measured: tact on ring: ZeroDivisionError" in capsys.readouterr().err
    ours, other, _ = json.loads(out.read_text())["scores"]
    assert "effective" not in ours
    assert other["effective"] > 0


def test_strange_names_are_refused(contest, capsys):
    words, _, calls = contest
    assert runner.main([*words, "--rivals", "magic"]) == 1
    assert "--rivals takes" in capsys.readouterr().err
    assert not calls


def test_pages_show_losses_and_live_without_a_record(contest, tmp_path, monkeypatch):
    words, out, _ = contest
    monkeypatch.setattr(modes_tables, "RECORDS", tmp_path / "none")
    for make in modes_tables.TABLES.values():
        assert make().markdown()
    assert modes_tables.against_the_best().rows == (("not measured yet",),)
    runner.main(words)
    monkeypatch.setattr(modes_tables, "RECORDS", tmp_path)
    monkeypatch.setattr(modes_tables, "RIVALS", command.RIVALS)
    monkeypatch.setattr(modes_tables, "WITH_EVIDENCE", ("other",))
    monkeypatch.setattr(modes_tables, "read", lambda name: json.loads(out.read_text()))
    (row,) = modes_tables.against_the_best().rows
    assert row[0].startswith("ring: ")
    assert row[3].startswith("other, ")
    assert float(row[5].split()[0]) < 2
    assert modes_tables.everybody().rows[0][0] == "ring"
    assert modes_tables.everybody().rows[0][3] == "–"
    assert modes_tables.honesty().rows[0][1] == "100,000"
    assert modes_tables.evidence().rows == ()


def test_marks_say_why_a_setting_does_not_count():
    fine = {"failed": 0.0, "is_hot": False, "crosses": True, "temperature": 1.0}
    assert modes_tables.mark(fine) == ""
    assert modes_tables.mark(fine | {"is_hot": True, "temperature": 2.04}) == "T = 2"
    assert modes_tables.mark(fine | {"crosses": False}) == "never crosses"
    assert modes_tables.mark(fine | {"failed": 1.0}) == "fails"


BRIEF = {
    OURS: "ring",
    "smc": "ring",
    "parallel-tempering": "ring",
    "nuts": "coin-flip",
    "nested": "coin-flip",
    "replicas": "ring",
    "restarts": "wells",
    "sgnht": "wells",
    "sghmc": "wells",
    "posteriors": "wells",
}
"""A target for each contestant that it can do something about in a moment."""


def test_grids_have_settings_enough():
    assert set(BRIEF) == set(RIVALS)
    assert all(len(rival.settings) >= 8 for name, rival in RIVALS.items() if name != OURS)


@pytest.mark.slow
@pytest.mark.parametrize("name", BRIEF)
def test_a_contestant_runs_briefly(name):
    rival, on, budget = RIVALS[name], target(BRIEF[name]), 40_000.0
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        tried = [s for s in rival.settings if not rival.why_not(on, rival.settings[s], budget)]
        if name == "posteriors" and not tried:
            pytest.skip("posteriors is not installed")
        setting = rival.settings[tried[min(3, len(tried) - 1)]]
        samples = rival.run(on, setting, budget, [0, 1])
        rows = [judged(on, sample) for sample in samples]
    assert len(rows) == 2
    for row in rows:
        assert not row.get("failed"), row["note"]
        assert 0.3 * budget < row["gradients"] < 3 * budget
        assert row["temperature"] == pytest.approx(1, abs=0.6)
        assert np.all(np.isfinite(row["estimate"]))
    assert rows[0]["estimate"] != rows[1]["estimate"]
    found = score(on.truth, rows)
    assert found.effective > 0
    # Somebody who knows nothing would say that all modes have the same share.
    assert np.isfinite(found.error)


def test_a_density_in_one_piece_is_that_of_the_potential():
    one = target("mixture-2-500")
    x = jnp.array([-0.8, 1.2])
    assert float(log_density(one)(x)) == pytest.approx(-float(one.potential.energy(x)), rel=1e-5)
    exact = target("ring")
    assert float(log_density(exact)(x)) == pytest.approx(-float(exact.potential.energy(x)))


def test_options_have_defaults():
    args = runner.parsed("modes", command, [])
    assert isinstance(args, Namespace)
    assert (args.repeats, args.budget, args.first_seed) == (16, 2e6, 0)
    assert judge.MANY_CHAINS > 16
