"""The folder of a run: ``draws.zarr``, ``checkpoints``, JSON files and ``program.pkl``."""

import json
import os
import platform
import shutil
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tacthmc.store._arrays import MAX_LENGTH, ArraySpec, opened, replace_json, tensorstore
from tacthmc.store._checkpoint import PRIVATE_NOTES, newest_notes, orbax
from tacthmc.store._checksums import CHECKSUM, ChecksumError, crc32, digest
from tacthmc.store._errors import DamageWarning, StoreError, writing
from tacthmc.store._lock import LOCK, Lock
from tacthmc.store._pickles import pickler
from tacthmc.store._safe import check_array_path, check_inside
from tacthmc.store._settings import (
    COPIES,
    DAMAGED,
    FORMAT,
    MARKER,
    REACHED,
    damaged_files,
    read_config,
    sound_file,
    write_config,
)
from tacthmc.store._store import CONFIG

UNFINISHED = (
    *("draws.zarr", "checkpoints", "program.pkl", "shapes.json", "sampler.json", "posterior.json"),
    *(COPIES, "config.json.part"),
)
RECTANGLES = ("posterior", "sample_stats", "model_state")


def versions() -> dict[str, str]:
    """The versions of Python and of all packages that affect the numbers of a run.

    >>> sorted(versions())[:3]
    ['equinox', 'jax', 'jaxlib']
    """
    found = {"python": platform.python_version()}
    for name in ("tacthmc", "jax", "jaxlib", "equinox", "optax", "numpy", "orbax-checkpoint"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def now() -> str:
    """The current time in ISO format."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Folder:
    """The folder of a run, open for reading, or for writing while its lock is held."""

    def __init__(self, path: Path, config: dict[str, Any], lock: Lock | None):
        """Join the parts; use :meth:`create` or :meth:`open`."""
        self.path, self.config, self.lock = path, config, lock
        self.root = path / "draws.zarr"
        self.specs = {spec.path: spec for spec in map(_spec, config["arrays"])}
        self._handles: dict[str, Any] = {}
        self._published: dict[str, Any] = {}

    @classmethod
    def create(
        cls, path: str | Path, config: dict[str, Any], specs: list[ArraySpec], process: int = 0
    ) -> "Folder":
        """Create the folder of a new run; raises a StoreError if it already holds a run."""
        path = Path(path)
        # Missing packages are reported before anything is created.
        for package in (tensorstore, orbax, pickler):
            package()
        with writing(path, "making the run's folder"):
            if (path / CONFIG).exists() and process == 0:
                raise StoreError(
                    f"{path} already holds a run: continue with tacthmc.resume({str(path)!r}), read"
                    f" it with tacthmc.load({str(path)!r}), or choose another folder"
                )
            if path.exists() and not path.is_dir():
                raise StoreError(f"{path} is a file; store must name a folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            # It may hold functions and data of the user, so it is private to begin with.
            path.mkdir(mode=0o700, exist_ok=True)
            check_inside(path)
            if process == 0:
                _check_empty(path)
            lock = Lock(path, process)
            try:
                config = {
                    "format": FORMAT,
                    "versions": versions(),
                    "created": now(),
                    **config,
                    "arrays": [asdict(spec) for spec in specs],
                }
                folder = cls(path, config, lock)
                if process == 0:
                    _clear_unfinished(path)
                    (path / MARKER).touch()
                    folder.publish({}, {"steps": 0, "finished": False})
            except BaseException:
                lock.release()
                raise
        return folder

    def seal(self, rewritten: Iterable[str] = ()) -> None:
        """Write the config. From then on the folder holds a run.

        ``rewritten`` names files at the top of the folder that have changed since the last time.
        """
        if jax.process_index() == 0:
            with writing(self.path, "writing config.json"):
                self.config = write_config(self.path, self.config, rewritten)
                (self.path / MARKER).unlink(missing_ok=True)

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False, process: int = 0) -> "Folder":
        """Open the folder of a run."""
        path = Path(path)
        check_inside(path)
        config = read_config(path)
        form = config["format"]
        if form != FORMAT:
            raise StoreError(
                f"{path} has format {form}, this version of tacthmc reads format {FORMAT}: use the"
                f" tacthmc that wrote it ({config.get('versions', {}).get('tacthmc', 'unknown')})"
            )
        folder = cls(path, config, None)
        if write:
            with writing(path, "opening the run's folder for writing"):
                folder.lock = Lock(path, process)
                if process == 0:
                    folder._restore_files()
        return folder

    def _restore_files(self) -> None:
        """Replace damaged files at the top of the folder by their copies."""
        for name, copy in damaged_files(self.path, self.config).items():
            if copy is not None:
                if os.path.lexists(self.path / name):
                    self.move_aside(name)
                shutil.copy2(copy, self.path / name)

    def file(self, name: str) -> Path:
        """A file that was written once, after its checksum; its copy if it is damaged."""
        return sound_file(self.path, self.config, name)

    def close(self) -> None:
        """Release the lock."""
        if self.lock is not None:
            self.lock.release()

    @property
    def status(self) -> dict[str, Any]:
        """The last published status: steps, draws per chain, rows, seconds, and if it finished.

        If it is damaged, it is that of the newest checkpoint, with a warning.
        """
        try:
            return self.published()
        except ChecksumError as error:
            found = newest_notes(self.path)
            if found is None:
                raise StoreError(f"{error}, and there is no sound checkpoint") from error
            warnings.warn(
                f"{error}: the run is read up to its checkpoint at step {found['steps']}",
                DamageWarning,
                stacklevel=3,
            )
            return {name: value for name, value in found.items() if name not in PRIVATE_NOTES}

    def published(self) -> dict[str, Any]:
        """The status in the metadata of the root; raises a ChecksumError if it is damaged."""
        file = self.root / "zarr.json"
        try:
            root = json.loads(file.read_text())
            status = dict(root["attributes"])
            if status.pop(CHECKSUM) != digest({**root, "attributes": status}):
                raise ChecksumError("its checksum differs")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ChecksumError(f"{file} is damaged: {error!r}") from error
        return status

    def array(self, path: str) -> Any:
        """An array of unlimited length, where data past the published length may be missing."""
        if path not in self._handles:
            spec = self.specs[path]
            self._handles[path] = opened(self.root, path, spec.metadata(MAX_LENGTH))
        return self._handles[path]

    def read(self, path: str, index: Any) -> np.ndarray:
        """A part of an array, or an error that names the damaged file."""
        try:
            return np.asarray(self.array(path)[index].read().result())
        except (ValueError, OSError) as error:
            raise StoreError(
                f"{self.root / path}: a part of the draws cannot be read, the rest can: {error}"
            ) from error

    def read_group(self, group: str) -> dict[str, np.ndarray]:
        """The arrays of a group that do not grow, by name."""
        specs = {path: spec for path, spec in self.specs.items() if spec.group == group}
        return {spec.name: self.read(path, ...) for path, spec in specs.items()}

    def write_whole(self, path: str, value: Any) -> None:
        """Write an array that does not grow."""
        value = np.asarray(value)
        if value.size:
            self.array(path)[...] = value

    def nodes(self, lengths: dict[str, int]) -> dict[str, Any]:
        """The metadata of all groups and arrays with these lengths, by path."""
        groups = sorted({spec.group for spec in self.specs.values()})
        nodes: dict[str, Any] = {
            group: {"zarr_format": 3, "node_type": "group", "attributes": {}} for group in groups
        }
        for path, spec in self.specs.items():
            nodes[path] = spec.metadata(lengths.get(spec.group, 0))
        return nodes

    def clear(self, path: str) -> None:
        """Remove all values of an array."""
        shutil.rmtree(self.root / path / "c", ignore_errors=True)
        # TensorStore remembers chunks that it has read.
        self._handles.pop(path, None)

    def publish(self, lengths: dict[str, int], status: dict[str, Any]) -> None:
        """Publish arrays up to these lengths, by group, at once in the metadata of the root."""
        with writing(self.path, "writing the store's metadata"):
            nodes = self.nodes(lengths)
            # The metadata of the root are complete. These files are for readers that do not use it.
            for path, node in nodes.items():
                if self._published.get(path) != node:
                    replace_json(self.root / path / "zarr.json", node, durable=False)
            self._published = nodes
            root = {
                "zarr_format": 3,
                "node_type": "group",
                "attributes": status,
                "consolidated_metadata": {
                    "kind": "inline",
                    "must_understand": False,
                    "metadata": nodes,
                },
            }
            root["attributes"] = {**status, CHECKSUM: digest(root)}
            replace_json(self.root / "zarr.json", root)

    def move_aside(self, name: str) -> None:
        """Move a damaged file or folder to ``damaged``."""
        with writing(self.path, f"moving {name} aside"):
            target = self.path / DAMAGED / name
            while target.exists():
                target = target.with_name(target.name + "-again")
            target.parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).rename(target)

    def reached(self, step: int | None = None) -> int | None:
        """The last launched step: written if ``step`` is given, and read after a kill.

        It is None if the file is damaged or missing. Only a message depends on it.
        """
        file = self.path / REACHED
        if step is not None:
            with writing(self.path, "noting the progress"):
                part = file.with_name(f"{REACHED}.part")
                part.write_text(f"{step} {crc32(str(step).encode())}")
                part.replace(file)
            return step
        try:
            text, given = file.read_text().split(" ")
        except (OSError, ValueError):
            return None
        return int(text) if crc32(text.encode()) == given else None


def lengths_of(status: dict[str, Any]) -> dict[str, int]:
    """The lengths of the arrays of each group for this status."""
    draws = int(min(status["counts"]))
    rest = {"trace": int(status["rows"]), "timing": int(status["commits"])}
    return dict.fromkeys(RECTANGLES, draws) | rest


def _check_empty(path: Path) -> None:
    """Require an empty folder, or one with only the remains of an unfinished creation."""
    found = sorted(e.name for e in path.iterdir() if not e.name.startswith(LOCK))
    if found and MARKER not in found:
        raise StoreError(
            f"{path} is not empty (there is {found[0]!r} in it) and holds no run: store must name a"
            " new folder"
        )


def _clear_unfinished(path: Path) -> None:
    """Remove the remains of a run that was killed before its config was written."""
    if not (path / MARKER).exists():
        return
    for name in UNFINISHED:
        entry = path / name
        shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(True)


def _spec(fields: dict[str, Any]) -> ArraySpec:
    check_array_path(fields["group"], fields["name"])
    return ArraySpec(**{**fields, "tail": tuple(fields["tail"])})


def device_name() -> str:
    """The name of the device, for messages and records."""
    device = jax.devices()[0]
    return f"{device.platform}: {device.device_kind} × {jax.device_count()}"
