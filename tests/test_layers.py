"""The rooms of the library stand in an order, and imports go down it."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "tacthmc"

ORDER = [
    *("_typing", "_checks", "_positions", "_notebook", "compiler", "potentials"),
    *("targets", "dynamics", "samplers", "store", "diagnostics", "run", "tuning", "calibration"),
    *("predict", "report", "_sample", "paper", "cli"),
]
"""From the ground up. A room may import those before it; functions' imports count as well."""


def imported(path):
    """The rooms that a module imports, and the names it takes from them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split("."), node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield [*node.module.split("."), alias.name], node.lineno


@pytest.mark.parametrize("room", ORDER)
def test_imports_go_down(room):
    place = PACKAGE / room
    paths = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    assert paths
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} imports {'.'.join(name)}"
        for path in paths
        for name, line in imported(path)
        if name[0] == "tacthmc" and not _below(name, room)
    ]
    assert not wrong


def _below(name, room):
    # The paper and the command line are users like others: they may take the whole.
    if len(name) < 2 or name[1] not in ORDER:
        return room in ("paper", "cli")
    return name[1] == room or ORDER.index(name[1]) < ORDER.index(room)


def test_every_room_has_its_place():
    # A folder without code is what another version of the library left behind.
    rooms = {path.name for path in PACKAGE.iterdir() if any(path.glob("*.py"))}
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    assert (rooms | modules) - {"__init__"} == set(ORDER)
