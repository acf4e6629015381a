"""Every example in docstrings, README and docs runs; every public name has one."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import jax
import pytest

import tacthmc

ROOT = Path(__file__).parent.parent
MODULES = ["tacthmc"] + [info.name for info in pkgutil.walk_packages(tacthmc.__path__, "tacthmc.")]


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Examples run with JAX's ordinary promotion, not with the tests' strict one."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


@pytest.mark.parametrize(
    "page",
    ["README.md", "docs/scaling.md", "docs/runs.md", "docs/command-line.md", "docs/learning.md"],
)
def test_pages(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks
    scope = {}
    for block in blocks:
        exec(block, scope)
    if page == "README.md":
        assert scope["run"].draws.shape[0] == 4
        assert "round trips" in capsys.readouterr().out


def test_every_public_name_has_an_example():
    missing = [
        name
        for name, value in vars(tacthmc).items()
        if (inspect.isfunction(value) or inspect.isclass(value))
        and not (inspect.isclass(value) and issubclass(value, Warning))
        and ">>>" not in (value.__doc__ or "")
    ]
    assert not missing
