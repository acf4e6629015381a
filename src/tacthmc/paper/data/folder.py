"""The places of data sets on this machine."""

import hashlib
import os
import sys
from pathlib import Path

from tacthmc.paper.data.catalog import Archive, Entry
from tacthmc.paper.data.errors import DataError

VARIABLE = "TACTHMC_DATA"


def data_folder(folder: str | Path | None = None) -> Path:
    """The given folder, that of ``TACTHMC_DATA``, or one in the user's cache.

    >>> data_folder("somewhere").name
    'somewhere'
    """
    if folder is not None:
        return Path(folder).expanduser()
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    if sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tacthmc" / "data"


def npz_path(name: str, folder: Path) -> Path:
    """The path of a data set as arrays."""
    return folder / f"{name}.npz"


def archive_path(name: str, archive: Archive, folder: Path) -> Path:
    """The path of an official file.

    Each data set has its own folder, because Fashion-MNIST has the file names of MNIST.
    """
    return folder / name / archive.file


def check_archive(path: Path, archive: Archive) -> None:
    """Raise an error for a file with a wrong checksum."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    if found != archive.md5:
        raise DataError(
            f"{path} has the checksum (MD5) {found}; expected {archive.md5}. It is damaged, or a"
            " different file. Remove it to download it again"
        )


def where_to_put(name: str, entry: Entry, folder: Path) -> str:
    """Advice for adding a data set without a network.

    >>> from tacthmc.paper.data.catalog import ENTRIES
    >>> print(where_to_put("emnist47", ENTRIES["emnist47"], Path("data")))
    put it into data/emnist47.npz (uint8 arrays x_train, y_train, x_test, y_test)
    """
    arrays = f"put it into {npz_path(name, folder)} (uint8 arrays x_train, y_train, x_test, y_test)"
    if not entry.archives:
        return arrays
    lines = [
        f"  {archive_path(name, archive, folder)}   from {archive.address}"
        for archive in entry.archives
    ]
    return "\n".join([f"{arrays}, or these files where they are named:", *lines])
