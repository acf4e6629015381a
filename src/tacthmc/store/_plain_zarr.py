"""A check before other readers open a store: Zarr metadata may name codecs that run code.

The library's own reading takes nothing from ``zarr.json``. Zarr and xarray take all of it, and can
decode objects by unpickling them. So its content must be what the library writes.
"""

import json
from pathlib import Path
from typing import Any

from tacthmc.store._arrays import ArraySpec
from tacthmc.store._errors import StoreError

METADATA = "zarr.json"
GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}


def check_plain(root: Path, specs: dict[str, ArraySpec]) -> None:
    """Require that the metadata of a store are those of its arrays, and that it has no others."""
    groups = {spec.group for spec in specs.values()}
    top = _content(root / METADATA)
    nodes = top.get("consolidated_metadata", {}).get("metadata", {})
    expected = {"zarr_format", "node_type", "attributes", "consolidated_metadata"}
    _require(set(top) == expected and set(nodes) == groups | set(specs), root / METADATA)
    _require_entries(root, groups)
    for group in groups:
        _require_entries(
            root / group, {spec.name for spec in specs.values() if spec.group == group}
        )
    for path, node in nodes.items():
        for one, file in ((node, root / METADATA), (_content(root / path / METADATA), None)):
            _require(_is_of(specs.get(path), one), file or root / path / METADATA)
    for path in specs:
        _require_entries(root / path, {"c"})


def _is_of(spec: ArraySpec | None, node: Any) -> bool:
    """Whether metadata are those of an array at some length, or of a group."""
    if spec is None or not isinstance(node, dict):
        return node == GROUP
    shape = node.get("shape")
    axis = 1 if spec.num_chains else 0
    length = shape[axis] if spec.grows and isinstance(shape, list) and len(shape) > axis else 0
    return type(length) is int and node == spec.metadata(length)


def _content(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error


def _require_entries(folder: Path, names: set[str]) -> None:
    for entry in folder.iterdir():
        _require(entry.name in names or entry.name.startswith(METADATA), entry)


def _require(holds: bool, path: Path) -> None:
    if not holds:
        raise StoreError(
            f"{path} is not what this library writes, and other readers could run code from it:"
            " read the draws with run.draws"
        )
