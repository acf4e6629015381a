"""Names and links in folders: nothing in a folder leads a reader or writer outside of it.

The names of arrays come from the user's parameters when a folder is written, and from a file that
anyone may have written when it is read.
"""

import os
import re
import stat
import zlib
from pathlib import Path

from tacthmc.store._errors import StoreError

GROUPS = ("posterior", "model_state", "sample_stats", "trace", "bias", "timing", "observed_data")
"""The groups of arrays in a store."""
MAX_NAME_BYTES = 200
"""The longest name of an array that every file system takes."""
RESERVED = ("zarr.json", "zarr.json.part", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
"""Names that files of the store have beside arrays."""


def safe_name(name: str) -> str:
    """A name for the folder of an array: itself, or with what file systems do not take replaced.

    >>> safe_name("layer.weight"), safe_name("zarr.json"), safe_name(".."), safe_name("a/b")
    ('layer.weight', 'zarr.json_', '.._', 'a_b')
    """
    name = re.sub(r"[\x00-\x1f\x7f/\\]", "_", name.encode("utf-8", "replace").decode())
    if not name.strip(".") or name in RESERVED or name.startswith("__"):
        name = f"{name}_" if not name.startswith("__") else f"_.{name}"
    if len(name.encode()) > MAX_NAME_BYTES:
        short = name.encode()[: MAX_NAME_BYTES - 9].decode(errors="ignore")
        name = f"{short}-{zlib.crc32(name.encode()):08x}"
    return name


def unused_name(name: str, taken: set[str]) -> str:
    """A safe name that no other array of the group has; it is then ``taken``."""
    found = safe_name(name)
    while found in taken:
        found += "_"
    taken.add(found)
    return found


def check_array_path(group: str, name: str) -> None:
    """Require a name that stays inside the store."""
    if group not in GROUPS or name != safe_name(name):
        raise StoreError(f"the folder names an array {f'{group}/{name}'!r}, which no run has")


def check_inside(path: Path) -> None:
    """Require that all entries of a folder are files and folders: a link may lead outside."""
    for place, folders, files in os.walk(path):
        for name in (*folders, *files):
            entry = Path(place) / name
            try:
                mode = entry.lstat().st_mode
            except FileNotFoundError:
                # The run goes on, and has just replaced a file.
                continue
            if stat.S_ISLNK(mode):
                raise StoreError(
                    f"{entry} is a link, and could lead outside the folder of the run: put what it"
                    " points to in its place"
                )
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise StoreError(f"{entry} is neither a file nor a folder: remove it")
