"""The one runner: what it lists, refuses, parses and writes down."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys

import pytest

import benchmarks
from benchmarks import __main__ as runner
from benchmarks.catalog import BENCHMARKS, GROUPS, index, listing
from benchmarks.pages.fill import ROOT

MODULES = {
    name: importlib.import_module(f"benchmarks.{b.module}") for name, b in BENCHMARKS.items()
}
WORDS = {
    "step_ratio": ["--old", "elsewhere"],
    "gpu": ["steps"],
    "equivalence": ["folder"],
    "cifar_places": ["record.json"],
    "cifar_thermostats": ["tensor 0.005 0.16 0"],
}
"""What a benchmark cannot do without."""


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_options_and_a_main(name, capsys):
    module = MODULES[name]
    assert list(inspect.signature(module.main).parameters) == ["args"]
    args = runner.parsed(name, module, WORDS.get(name, []))
    assert args.command.startswith(f"python -m benchmarks {name}")
    with pytest.raises(SystemExit, match="0"):
        runner.parsed(name, module, ["--help"])
    # Its own text says how to run it.
    if GROUPS["Pages and pictures made from the records"].get(name) is None:
        assert f"python -m benchmarks {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", [n for n, m in MODULES.items() if hasattr(m, "QUICK")])
def test_quick_sizes_are_sizes_that_there_are(name):
    module = MODULES[name]
    plain = vars(runner.parsed(name, module, WORDS.get(name, [])))
    quick = vars(runner.parsed(name, module, [*WORDS.get(name, []), "--quick"]))
    assert set(module.QUICK) <= set(plain)
    assert quick["quick"]
    assert not plain["quick"]
    assert {key: quick[key] for key in module.QUICK} == module.QUICK


def test_sizes_that_are_given_count_more_than_quick_ones():
    words = ["--quick", "--chains", "7"]
    assert runner.parsed("mobility", MODULES["mobility"], words).chains == 7


def test_a_command_names_no_folder_of_this_machine():
    words = ["--data", "/somewhere/of/mine/images", "--out", "a/b.json", "--only", "T = 2"]
    assert runner.command("soak", words) == (
        "python -m benchmarks soak --data images --out b.json --only 'T = 2'"
    )


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_without_a_name_all_are_listed(words, capsys):
    assert runner.main(words) == 0
    text = capsys.readouterr().out
    assert listing() in text
    assert all(re.search(rf"^  {name} ", text, re.M) for name in BENCHMARKS)


def test_an_unknown_name_is_told_with_the_nearest(capsys):
    assert runner.main(["overhaed"]) == 2
    assert "did you mean overhead?" in capsys.readouterr().err


def test_an_error_that_is_expected_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(runner.tacthmc, "configure_cpu", lambda: None)
    assert runner.main(["network_warmup"]) == 1
    assert capsys.readouterr().err == (
        "benchmarks: --data must name the folder of the data sets, unless it is --quick\n"
    )


def test_the_index_has_every_benchmark_with_its_records():
    rows = [row for members in GROUPS.values() for row in index(members)[1]]
    assert len(rows) == len(BENCHMARKS)
    (row,) = [row for row in rows if "python -m benchmarks overhead" in row[0]]
    assert row[2] == "[overhead.json](records/overhead.json)"


def test_the_runner_is_a_process_of_its_own():
    command = [sys.executable, "-m", "benchmarks", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert "step_ratio" in done.stdout


NAMES = [info.name for info in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("__main__")])
def test_examples_in_docstrings_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_no_benchmark_reaches_into_the_library():
    """Private modules are behind the library's back, but for what is said here."""
    allowed = {"speed/bare.py", "maintained/overhead.py", "speed/step_worker.py"}
    found = {
        path.relative_to(ROOT / "benchmarks").as_posix()
        for path in (ROOT / "benchmarks").rglob("*.py")
        if re.search(r"tacthmc\.[\w.]*\b_[a-z]|tacthmc import _", path.read_text(encoding="utf-8"))
    }
    assert found <= allowed
