"""``python -m benchmarks speed``: which cases it runs, and what it leaves in its file."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from benchmarks import __main__ as runner
from benchmarks import record
from benchmarks.machine import Elsewhere, cpu_name
from benchmarks.speed import command, mixture, pictures
from benchmarks.speed.catalog import CASES
from benchmarks.speed.command import read_bench


@pytest.fixture(autouse=True)
def compiler_as_it_is(monkeypatch):
    """The tests set the compiler and the devices themselves."""
    monkeypatch.setattr(runner.tacthmc, "configure_cpu", lambda: None)
    monkeypatch.setattr(command, "_cores_as_devices", lambda: None)


def counted(case):
    """A case that measures nothing, and counts how often it did."""
    calls = []

    def measure(config, say):
        calls.append(config)
        say("measuring")
        return {"value": len(calls)}

    return replace(case, measure=measure, tables=lambda numbers: []), calls


@pytest.fixture
def two(monkeypatch):
    made = {name: counted(CASES[name]) for name in ("mixture", "growth")}
    monkeypatch.setattr(command, "CASES", {name: case for name, (case, _) in made.items()})
    return {name: calls for name, (_, calls) in made.items()}


def run(out, *only, repeats=None, seed=0):
    console = Console(record=True, width=100, file=io.StringIO())
    words = ["--quick", "--out", str(out), "--seed", str(seed)]
    words += ["--repeats", str(repeats)] * (repeats is not None) + ["--only", *only] * bool(only)
    command.measured(runner.parsed("speed", command, words), console)
    return console.export_text()


def test_only_leaves_the_other_cases_as_they_were(two, tmp_path):
    out = tmp_path / "deep" / "bench.json"
    text = run(out)
    assert "measuring" in text
    assert "bench.json" in text
    before = read_bench(out)
    assert list(before["cases"]) == ["mixture", "growth"]
    run(out, "growth", repeats=7, seed=5)
    after = read_bench(out)
    assert after["cases"]["mixture"] == before["cases"]["mixture"]
    assert after["cases"]["growth"]["value"] == 2
    assert two["growth"][-1].repeats == 7
    assert two["growth"][-1].seed == 5
    expected = "--quick --out bench.json --seed 5 --repeats 7 --only growth"
    assert after["command"] == f"python -m benchmarks speed {expected}"
    assert len(two["mixture"]) == 1
    assert not list(out.parent.glob("*.part"))


def test_all_that_is_needed_to_measure_again_is_written(two, tmp_path):
    found = read_bench_of(tmp_path, "mixture")
    for part in (found, found["cases"]["mixture"]):
        assert {"command", "date", "seed", "versions", "machine"} <= set(part)
        assert {"python", "jax", "jaxlib", "numpy", "blackjax", "torch", "posteriors"} <= set(
            part["versions"]
        )
        assert {"cpu", "cores", "threads"} <= set(part["machine"])
    assert found["cases"]["mixture"]["config"]["repeats"] == mixture.QUICK.repeats


def read_bench_of(folder, *only):
    run(folder / "bench.json", *only)
    return read_bench(folder / "bench.json")


def test_a_case_that_is_interrupted_takes_no_other_with_it(two, tmp_path, monkeypatch):
    def interrupted(config, say):
        raise KeyboardInterrupt

    monkeypatch.setitem(command.CASES, "growth", replace(CASES["growth"], measure=interrupted))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "bench.json")
    assert list(read_bench(tmp_path / "bench.json")["cases"]) == ["mixture"]


def test_a_case_that_fails_is_recorded_and_the_others_go_on(two, tmp_path, monkeypatch):
    def broken(config, say):
        raise RuntimeError("no such thing")

    monkeypatch.setitem(command.CASES, "mixture", replace(CASES["mixture"], measure=broken))
    assert "no such thing" in run(tmp_path / "bench.json")
    cases = read_bench(tmp_path / "bench.json")["cases"]
    assert cases["mixture"]["failed"] == "RuntimeError: no such thing"
    assert cases["growth"]["value"] == 1


def test_a_busy_machine_is_told(two, tmp_path, monkeypatch):
    monkeypatch.setattr(Elsewhere, "cores", lambda self: 1.5)
    text = run(tmp_path / "bench.json", "growth")
    assert "other processes kept 1.5 of" in " ".join(text.split())
    case = read_bench(tmp_path / "bench.json")["cases"]["growth"]
    assert case["cores_busy_elsewhere"] == 1.5


def test_others_are_counted_from_the_system_s_table(tmp_path):
    table = tmp_path / "stat"
    assert Elsewhere(table).cores() is None
    table.write_text("cpu  0 0 0 100 0 0 0 0 0 0\n")
    counting = Elsewhere(table)
    table.write_text("cpu  900000 0 0 100 0 0 0 0 0 0\n")
    cores = counting.cores()
    assert cores is not None
    assert cores > 1


@pytest.mark.parametrize("text", ["[1, 2", "[1, 2]", '{"study": "fig1"}'])
def test_a_file_of_something_else_is_left_alone(two, tmp_path, text):
    out = tmp_path / "bench.json"
    out.write_text(text)
    with pytest.raises(ValueError, match="--out"):
        run(out)
    assert out.read_text() == text
    assert not two["mixture"]


def test_what_is_written_is_read_back(tmp_path):
    cases = {"cases": {"a": {"x": np.float32(0.5), "n": math.nan}}}
    path = record.write(tmp_path / "b.json", cases)
    assert read_bench(path) == {"cases": {"a": {"x": 0.5, "n": None}}}


def test_growth_becomes_three_pictures(tmp_path):
    points = [{"size": 1, "step_seconds": 1e-6}, {"size": 10, "step_seconds": 1e-5}]
    absent = {"size": 100, "failed": "MemoryError: too large"}
    part = {"points": [*points, absent], "slope": 1.0}
    parts = {"dimension": part, "chains": part, "kept": {**part, "slope": None}}
    results = {"cases": {"growth": parts}}
    paths = pictures.write_pictures(tmp_path / "img", results)
    assert [path.name for path in paths] == [
        "growth-dimension.png",
        "growth-chains.png",
        "growth-kept.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    with pytest.raises(ValueError, match="--only growth"):
        pictures.write_pictures(tmp_path, {"cases": {}})


def test_the_processor_is_named(tmp_path):
    table = tmp_path / "cpuinfo"
    table.write_text("processor\t: 0\nmodel name\t: A Fine Processor\n")
    assert cpu_name(table) == "A Fine Processor"
    assert cpu_name(tmp_path / "none")


def test_help_says_what_there_is(capsys):
    with pytest.raises(SystemExit, match="0"):
        runner.main(["speed", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for word in ("--out", "--only", "--quick", "--repeats", "--seed", "BlackJAX", *CASES):
        assert word in text
    assert "python -m benchmarks speed --quick" in text


def test_the_command_writes_where_it_is_told(two, tmp_path):
    out = tmp_path / "bench.json"
    assert runner.main(["speed", "--quick", "--only", "mixture", "--out", str(out)]) == 0
    assert list(read_bench(out)["cases"]) == ["mixture"]


def test_a_bad_file_is_told_in_one_line(two, tmp_path, capsys):
    out = tmp_path / "bench.json"
    out.write_text("{}")
    assert runner.main(["speed", "--out", str(out)]) == 1
    errors = capsys.readouterr().err
    assert "was not written by python -m benchmarks speed" in errors
    assert len(errors.splitlines()) == 1
