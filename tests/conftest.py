"""Strictness that holds in every test, and the record that ``make test-slow`` leaves."""

import gc
import json
import os
import platform
from pathlib import Path

from tests.xla_flags import XLA_FLAGS

os.environ.setdefault("MPLBACKEND", "Agg")
# NumPy reads this when it is imported: in the workers of pytest-xdist, which begin after this line.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)

import jax
import pytest

import tacthmc
from tests.durations import Durations

# Programs of the tests are small loops.
tacthmc.configure_cpu()
# Tracing makes many objects that stay. The collector would look through them again and again.
gc.set_threshold(100_000, 20, 100)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_addoption(parser):
    parser.addoption("--record", help="write what the statistical checks measured to this file")
    parser.addoption("--durations-record", help="write the slowest tests to this file")


def pytest_configure(config):
    target = config.getoption("--durations-record")
    if target and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(target, "make durations"))


def pytest_collection_finish():
    """Spare the collector everything that was imported."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _forget():
    """Drop the compiled programs of a file: a process can map only a limited number of them."""
    yield
    jax.clear_caches()
    gc.collect()


@pytest.fixture(scope="module")
def quick_compilation():
    """Compile without the passes that make programs fast, for tests that run them briefly."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def record(request):
    """Keep a row of measurements with the test's report, which survives parallel workers."""

    def keep(**row):
        request.node.user_properties.append(("row", {"test": request.node.name, **row}))

    return keep


_rows, _outcomes = [], []


def pytest_runtest_logreport(report):
    if report.when == "call" or not report.passed:
        _outcomes.append(report.outcome)
    if report.when == "call":
        rows = [row for name, row in report.user_properties if name == "row"]
        _rows.extend({"outcome": report.outcome, **row} for row in rows)


def pytest_sessionfinish(session):
    target = session.config.getoption("--record")
    if not target or hasattr(session.config, "workerinput"):
        return
    import equinox
    import numpy

    head = {
        "command": "make test-slow",
        "python": platform.python_version(),
        "jax": jax.__version__,
        "equinox": equinox.__version__,
        "numpy": numpy.__version__,
        "device": f"{jax.devices()[0].platform}, {os.cpu_count()} cores",
        **{name: _outcomes.count(name) for name in ("passed", "failed", "skipped")},
    }
    rows = sorted(_rows, key=lambda row: row["test"])
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    text = json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n{lines}\n ]\n}}\n'
    Path(target).write_text(text)
