"""The paper's reproduction is a user like others: it takes the library's public names only."""

import ast
from pathlib import Path

import pytest

import tacthmc.paper

PACKAGE = Path(tacthmc.paper.__file__).parent


def private_imports(source):
    """The lines that import a private module or name of the library."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, *parts = name.split(".")
            if first == "tacthmc" and any(part.startswith("_") for part in parts):
                yield node.lineno, name


def test_the_paper_imports_public_names_only():
    found = {
        f"{path.relative_to(PACKAGE)}:{line}": name
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name in private_imports(path.read_text(encoding="utf-8"))
    }
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "from tacthmc import _checks as checks",
        "from tacthmc.run._driver import Driver",
        "import tacthmc.run._driver",
        "def f():\n    from tacthmc.store._errors import StoreError",
    ],
)
def test_a_private_import_is_seen(line):
    assert list(private_imports(line))
    assert not list(private_imports(line.replace("._", ".").replace(" _", " ")))
