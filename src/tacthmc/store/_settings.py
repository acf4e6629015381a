"""The files beside the arrays of a run: ``config.json``, and files that are written once.

Each is checked when it is read. Small ones have a copy in ``copies``, from which a damaged one is
replaced.
"""

import json
import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tacthmc.store._arrays import replace_json
from tacthmc.store._checksums import CHECKSUM, ChecksumError, FileSum, sealed, unsealed
from tacthmc.store._errors import DamageWarning, StoreError
from tacthmc.store._lock import LOCK
from tacthmc.store._store import CONFIG

FORMAT = 4
COPIES = "copies"
"""The folder of copies, inside the folder of a run."""
MAX_COPY_BYTES = 1 << 24
"""The largest file that has a copy."""
MARKER = "beginning"
"""A file that exists from the creation of a folder until its config is written."""
REACHED = "reached"
DAMAGED = "damaged"
_NOT_ONCE = (CONFIG, MARKER, REACHED)
"""Files at the top of a folder that are not written once, and so are not in the list of files."""


def write_config(
    folder: Path, config: dict[str, Any], rewritten: Iterable[str] = ()
) -> dict[str, Any]:
    """Write the config with the checksums of all files that are written once, and their copies.

    The first time these are all files at the top of the folder. Later they are not looked at again,
    because they may be damaged by then, except those that were ``rewritten``.
    """
    (folder / COPIES).mkdir(exist_ok=True)
    known, names = dict(config.get("files", {})), list(rewritten)
    if "files" not in config:
        names += sorted(path.name for path in folder.iterdir() if _is_written_once(path))
    for name in names:
        known[name] = FileSum.of(folder / name)._asdict()
        if known[name]["size"] <= MAX_COPY_BYTES:
            _copy(folder / name, folder / COPIES / name)
    config = sealed({**config, "files": known})
    # The copy first, because the config says that the folder holds a run.
    replace_json(folder / COPIES / CONFIG, config)
    replace_json(folder / CONFIG, config)
    return config


def _is_written_once(path: Path) -> bool:
    temporary = path.name.startswith(LOCK) or path.suffix == ".part"
    return path.is_file() and path.name not in _NOT_ONCE and not temporary


def _copy(path: Path, target: Path) -> None:
    part = target.with_name(target.name + ".part")
    # Created with its final mode, so that a private file is private at any time.
    part.unlink(missing_ok=True)
    part.touch(mode=path.stat().st_mode & 0o777)
    shutil.copyfile(path, part)
    part.replace(target)


def read_config(folder: Path) -> dict[str, Any]:
    """The config, or its copy with a warning; a StoreError if there is none or both are damaged."""
    file, copy = folder / CONFIG, folder / COPIES / CONFIG
    if not file.exists() and ((folder / MARKER).exists() or not copy.exists()):
        raise StoreError(f"{folder} holds no run (there is no {CONFIG} in it)")
    try:
        return _with_plain_names(_config(file))
    except ChecksumError as error:
        try:
            found = _with_plain_names(_config(copy))
        except ChecksumError:
            raise StoreError(f"{error}, and there is no sound copy") from error
        _tell(f"{error}: its copy {copy} is used")
        return found


def _with_plain_names(config: dict[str, Any]) -> dict[str, Any]:
    """The config, whose files must lie in the folder: it may be somebody else's."""
    for name in config.get("files", {}):
        if Path(name).name != name or name == "..":
            raise StoreError(f"the config names a file that is not in its folder: {name!r}")
    return config


def _config(file: Path) -> dict[str, Any]:
    try:
        if file.is_symlink():
            raise ChecksumError("it is a link")
        content = json.loads(file.read_text())
        old = isinstance(content, dict) and CHECKSUM not in content
        if old and content.get("format") in range(FORMAT):
            # A run from before there were checksums. Its format is refused later.
            return content
        return unsealed(content)
    except (OSError, ValueError, RecursionError) as error:
        raise ChecksumError(f"{file} is damaged: {error}") from error


def sound_file(folder: Path, config: dict[str, Any], name: str) -> Path:
    """A file that is written once, or its copy with a warning; a StoreError if both are damaged.

    A file that the run never had is returned as it is: missing.
    """
    path, known = folder / name, config.get("files", {}).get(name)
    if known is None:
        return path
    expected = FileSum(**known)
    try:
        expected.check(path)
    except ChecksumError as error:
        copy = folder / COPIES / name
        try:
            expected.check(copy)
        except ChecksumError:
            raise StoreError(f"{error}, and there is no sound copy") from error
        _tell(f"{error}: its copy {copy} is used")
        return copy
    return path


def damaged_files(folder: Path, config: dict[str, Any]) -> dict[str, Path | None]:
    """The damaged ones of config and files that are written once, each with its sound copy."""
    found: dict[str, Path | None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamageWarning)
        for name in (CONFIG, *config.get("files", {})):
            try:
                path = _sound_config(folder) if name == CONFIG else sound_file(folder, config, name)
            except StoreError:
                path = None
            if path != folder / name:
                found[name] = path
    return found


def damaged_copies(folder: Path, config: dict[str, Any]) -> list[str]:
    """The names of files whose copy is damaged or missing."""
    found = []
    try:
        same = _config(folder / COPIES / CONFIG) == _config(_sound_config(folder))
    except ChecksumError:
        same = False
    if not same:
        found.append(CONFIG)
    for name, known in config.get("files", {}).items():
        if known["size"] <= MAX_COPY_BYTES:
            try:
                FileSum(**known).check(folder / COPIES / name)
            except ChecksumError:
                found.append(name)
    return found


def _sound_config(folder: Path) -> Path:
    try:
        _config(folder / CONFIG)
    except ChecksumError:
        return folder / COPIES / CONFIG
    return folder / CONFIG


def _tell(message: str) -> None:
    warnings.warn(message, DamageWarning, stacklevel=2)
