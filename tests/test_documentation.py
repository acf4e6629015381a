"""Every example in docstrings, README and docs runs; every public part has one."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import jax
import jaxtyping
import pytest

import tacthmc

ROOT = Path(__file__).parent.parent
MODULES = ["tacthmc"] + [info.name for info in pkgutil.walk_packages(tacthmc.__path__, "tacthmc.")]
ROOMS = [
    *(tacthmc.compiler, tacthmc.potentials, tacthmc.targets, tacthmc.dynamics, tacthmc.samplers),
    *(tacthmc.store, tacthmc.diagnostics, tacthmc.run, tacthmc.tuning, tacthmc.predict),
    *(tacthmc.calibration, tacthmc.report),
]
PARTS = (tacthmc, tacthmc.dynamics, tacthmc.samplers)
"""Where users find the classes that they put together."""
RECORDS = (tacthmc.dynamics.State, tacthmc.dynamics.TemperingState)
"""Classes that only the library makes."""


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
]
WITH_CODE = [page for page in PAGES if blocks_of(page)]
LONG_LOOPS = {"docs/tempering-in-high-dimension.md"}
"""Pages whose examples run longer than they compile."""


pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Examples run with JAX's ordinary promotion and without the tests' check of all types."""
    jaxtyping.config.update("jaxtyping_disable", True)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def well_compiled():
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


@pytest.mark.parametrize("page", WITH_CODE)
def test_code_in_pages(page, request, capsys, tmp_path, monkeypatch):
    if page in LONG_LOOPS:
        request.getfixturevalue("well_compiled")
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in blocks_of(page):
        exec(block, scope)
    if page == "README.md":
        assert scope["run"].draws.shape[0] == 4
        assert "changes of mode per chain" in capsys.readouterr().out


def test_pages_with_code_are_found():
    assert {"README.md", "docs/quickstart.md", "docs/runs.md"} <= set(WITH_CODE)


def public(room, kind):
    """The public names of this kind that have no example."""
    return [
        f"{room.__name__}.{name}"
        for name, value in vars(room).items()
        if kind(value) and ">>>" not in (value.__doc__ or "")
    ]


def made_by_users(value):
    return (
        inspect.isclass(value)
        and not inspect.isabstract(value)
        and not issubclass(value, (Warning, tuple, *RECORDS))
    )


def test_every_public_function_has_an_example():
    missing = [name for room in (tacthmc, *ROOMS) for name in public(room, inspect.isfunction)]
    assert not missing


def test_every_part_has_an_example():
    missing = [name for room in PARTS for name in public(room, made_by_users)]
    assert not missing
