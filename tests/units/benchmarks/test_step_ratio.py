"""Steps of two checkouts against each other: turns, resumption, the ratio and its interval."""

import io
import json
import sys

import numpy as np
import pytest

from benchmarks import __main__ as runner
from benchmarks.speed import step_ratio, step_worker
from benchmarks.speed.step_ratio import CASES, ratio, summary, told


def row(old, new, **more):
    times, sums = {"old": old, "new": new}, {"old": 5.0, "new": 5.0}
    kinds = {"microseconds": times, "cpu_microseconds": times}
    return kinds | {"checksum": sums, "cores_busy_elsewhere": 0.0} | more


def test_the_ratio_is_of_medians_over_all_launches():
    found = ratio([row([4.0, 4.4, 9.0], [2.0, 2.2, 2.1]), row([4.0, 4.0, 4.0], [2.0, 1.9, 2.0])])
    assert found["ratio"] == 2.0
    assert found["by_launch"] == [4.4 / 2.1, 2.0]
    assert (found["launches"], found["laps"]) == (2, 3)
    low, high = found["interval"]
    assert low <= 2.0 <= high


def test_the_interval_covers_the_true_ratio():
    """Launches differ by 3%, laps by 1%: the interval has to know of both."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(100):
        rows = []
        for _ in range(8):
            base = {which: np.exp(0.03 * rng.normal()) for which in ("old", "new")}
            base["old"] *= 1.1
            laps = {k: list(v * np.exp(0.01 * rng.normal(size=6))) for k, v in base.items()}
            rows.append(row(**laps))
        low, high = ratio(rows, resamples=400)["interval"]
        assert 0.005 < high - low < 0.15
        inside += low <= 1.1 <= high
    # 95% for many launches; a bootstrap of eight is somewhat too short.
    assert 80 <= inside <= 100


def test_other_positions_and_a_busy_machine_are_told():
    found = ratio([row([4.0], [2.0], checksum={"old": 1.0, "new": 1.1}, cores_busy_elsewhere=1.5)])
    text = told(found)
    assert "old/new 2.000 (2.000 to 2.000)" in text
    assert "not the same positions" in text
    assert "1.5 cores busy elsewhere" in text
    rounded = ratio([row([4.0], [2.0], checksum={"old": 1.0, "new": 1.0 + 1e-7})])
    assert rounded["same_positions"]
    assert "," not in told(rounded).split("µs")[1]


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Checkouts of which the new one takes 1 µs a step and the old one 2, and their calls."""
    calls = []

    class Fake:
        def __init__(self, checkout, name, chains):
            self.old = checkout == old.resolve()
            calls.append(("start", name, chains, self.old))

        def ready(self):
            return {"compile_seconds": 1.0, "checksum": 3.0}

        def lap(self, steps):
            calls.append(("lap", self.old))
            seconds = steps * (2e-6 if self.old else 1e-6)
            return {"seconds": seconds, "cpu_seconds": 1.5 * seconds if self.old else seconds}

        def end(self):
            calls.append(("end", self.old))

    old = tmp_path / "old"
    (old / "src" / "tacthmc").mkdir(parents=True)
    monkeypatch.setattr(step_ratio, "Worker", Fake)
    monkeypatch.setattr(runner.tacthmc, "configure_cpu", lambda: None)
    return old, calls


def test_checkouts_take_turns_and_what_was_measured_is_kept(fake, tmp_path, capsys):
    old, calls = fake
    out = tmp_path / "ratio.json"
    words = ["step_ratio", "--old", str(old), "--out", str(out), "--seconds", "0.001"]
    words += ["--laps", "4", "--launches", "2"]
    assert runner.main([*words, "--only", "mlp"]) == 0
    file = json.loads(out.read_text())
    assert set(file["ratios"]) == {"mlp × 1", "mlp × 4"}
    assert file["ratios"]["mlp × 1"]["ratio"] == pytest.approx(2.0)
    assert file["ratios"]["mlp × 1"]["cpu_ratio"] == pytest.approx(3.0)
    assert len(file["rows"]) == 4
    assert {"machine", "versions", "commits", "command"} <= set(file["runs"][0])
    assert file["runs"][0]["commits"]["old"] == "unknown"
    assert str(tmp_path) not in out.read_text()
    laps = [call[1] for call in calls[: calls.index(("end", True))] if call[0] == "lap"]
    # The last laps are those that count: each round begins with the other one.
    assert laps[-8:] == [False, True, True, False, False, True, True, False]
    assert calls.count(("end", True)) == calls.count(("end", False)) == 4
    begun = len(calls)
    assert runner.main([*words, "--only", "mlp"]) == 0
    assert len(calls) == begun
    assert runner.main(words) == 0
    assert len(json.loads(out.read_text())["rows"]) == 2 * len(CASES)
    assert "mixture × 4: old/new 2.000" in capsys.readouterr().out


def test_what_is_no_checkout_is_refused(fake, tmp_path, capsys):
    assert runner.main(["step_ratio", "--old", str(tmp_path), "--out", str(tmp_path / "r")]) == 1
    assert "--old must be the root of a checkout" in capsys.readouterr().err


def test_another_commit_has_ratios_of_its_own():
    of_case = {"name": "mlp", "chains": 1}
    rows = [row([4.0], [2.0]) | of_case | {"old": commit} for commit in ("a", "b")]
    assert summary(rows, "a")["mlp × 1"]["launches"] == 1
    assert summary(rows, "c") == {}


def test_a_worker_times_what_it_is_asked(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["step_worker.py", "mixture", "2"])
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"steps": 100}\n{"steps": 50}\n'))
    monkeypatch.setattr(step_worker.tacthmc, "configure_cpu", lambda: None)
    step_worker.main()
    first, *laps = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["compile_seconds"] > 0
    assert np.isfinite(first["checksum"])
    assert len(laps) == 2
    assert all(lap["seconds"] > 0 and lap["cpu_seconds"] > 0 for lap in laps)


def test_a_worker_that_ends_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", "false")
    worker = step_ratio.Worker(tmp_path, "mixture", 1)
    with pytest.raises(step_ratio.RecordError, match="status 1"):
        worker.ready()
    worker.end()
