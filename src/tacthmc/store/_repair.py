"""``repair``: a sound folder from a damaged one, with a list of what is lost."""

import contextlib
import json
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacthmc.store._arrays import ArraySpec
from tacthmc.store._checkpoint import (
    CHECKPOINTS,
    SUMS,
    check_sums,
    checkpoint_path,
    checkpoint_steps,
    read_notes,
    write_notes,
)
from tacthmc.store._checksums import ChecksumError
from tacthmc.store._damage import Extent, damaged_boxes, is_whole
from tacthmc.store._errors import DamageWarning, StoreError, writing
from tacthmc.store._folder import Folder, lengths_of
from tacthmc.store._lock import Lock
from tacthmc.store._lost_draws import leave_out, lost_draws, without_lost
from tacthmc.store._mend import is_statistic, mended, put
from tacthmc.store._pickles import FILE
from tacthmc.store._settings import COPIES, damaged_copies, damaged_files

METADATA = "zarr.json"


@dataclass(frozen=True)
class Damage:
    """What :func:`find_damage` found in a folder, or :func:`repair` did about it."""

    path: Path
    """The folder that was looked at, or the repaired one."""
    mended: tuple[str, ...] = ()
    """What follows from other files, in sentences: nothing is lost with it."""
    lost: tuple[str, ...] = ()
    """What does not."""

    @property
    def found(self) -> bool:
        """Whether anything is damaged."""
        return bool(self.mended or self.lost)

    def __str__(self) -> str:
        """The sentences, one per line."""
        if not self.found:
            return f"{self.path}: nothing is damaged"
        lines = [f"  not lost: {each}" for each in self.mended]
        return "\n".join([f"{self.path}:", *lines, *(f"  lost: {each}" for each in self.lost)])


def find_damage(path: str | Path) -> Damage:
    """Check every file of a stored run against its checksum. Nothing is changed.

    The run must not be going on, because its files change then.

    >>> import jax, jax.numpy as jnp, tacthmc, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 1_000,
    ...                      store=folder)
    >>> find_damage(folder).found
    False
    """
    with warnings.catch_warnings():
        # Everything is in the list.
        warnings.simplefilter("ignore", DamageWarning)
        folder = Folder.open(path)
        with _alone(folder.path):
            found = _Findings(folder)
        return Damage(folder.path, tuple(found.mended), tuple(found.lost))


def repair(path: str | Path, out: str | Path | None = None) -> Damage:
    """Save what is good of a damaged run into a new folder. The damaged folder stays as it is.

    - Files beside the arrays come from their copies, and the metadata of arrays from the settings.
    - Damaged checkpoints are left out. The repaired run goes on from the newest sound one.
    - Statistics are computed again from each other where that is possible. What is lost of them
      becomes NaN, or zero for counts.
    - Draws in a damaged part are left out, those before and after it are kept. Which draws are left
      out depends on the place of the damage and not on their values.

    Args:
        path: the folder of a run that is not going on.
        out: a new folder; by default that of the run with ``-repaired`` at the end of its name.

    >>> import jax, jax.numpy as jnp, pathlib, tacthmc, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "run")
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 1_000,
    ...                      store=folder)
    >>> energy = run.stats["energy"]
    >>> (folder / "draws.zarr" / "sample_stats" / "energy" / "c" / "0" / "0").unlink()
    >>> print(*repair(folder).mended)
    sample_stats/energy: rows 0 to 17 of chains 0 to 0 were damaged: computed again
    >>> bool((tacthmc.load(f"{folder}-repaired").stats["energy"] == energy).all())
    True
    """
    path = Path(path)
    out = path.with_name(f"{path.name}-repaired") if out is None else Path(out)
    if out.exists():
        raise StoreError(f"{out} exists already: name another folder for the repaired run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamageWarning)
        folder = Folder.open(path)
        with _alone(path), writing(out, "writing the repaired run"):
            found = _Findings(folder)
            if not found.mended and not found.lost:
                return Damage(folder.path)
            found.save(out)
    return Damage(out, tuple(found.mended), tuple(found.lost))


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock of a folder, if it can be written at all."""
    lock = None
    with contextlib.suppress(OSError):
        lock = Lock(path)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


class _Findings:
    """Everything that is damaged in a folder, and how it is saved."""

    def __init__(self, folder: Folder):
        self._folder = folder
        self.mended: list[str] = []
        self.lost: list[str] = []
        self._files = damaged_files(folder.path, folder.config)
        self._look_at_files()
        steps = checkpoint_steps(folder.path)
        self._steps = [step for step in steps if self._is_sound(step)]
        self._status = self._look_at_status()
        self._counts: list[int] = self._status["counts"]
        self._look_at_metadata()
        self._fixed = [path for path, spec in folder.specs.items() if self._is_lost(spec)]
        extent = Extent.of(self._status)
        growing = [path for path, spec in folder.specs.items() if spec.grows]
        self._boxes = {path: damaged_boxes(folder, path, extent) for path in growing}
        statistics = {p: b for p, b in self._boxes.items() if is_statistic(folder.specs[p])}
        self._chunks = list(mended(folder, statistics, self._status))
        self._draws = lost_draws(folder, self._boxes, self._counts)
        self._look_at_draws()

    def _look_at_files(self) -> None:
        for name, copy in self._files.items():
            if copy is None:
                self.lost.append(f"{name}: damaged, like its copy{_advice(name)}")
            else:
                self.mended.append(f"{name}: damaged, restored from its copy")
        self.mended += [
            f"{COPIES}/{name}: damaged, copied again"
            for name in damaged_copies(self._folder.path, self._folder.config)
            if name not in self._files
        ]

    def _is_sound(self, step: int) -> bool:
        """Whether a checkpoint is sound, as far as its files say."""
        checkpoint = checkpoint_path(self._folder.path, step)
        try:
            if not check_sums(checkpoint):
                self.mended.append(f"{CHECKPOINTS}/{step}/{SUMS}: damaged or missing, made again")
            read_notes(checkpoint)
        except ChecksumError as error:
            self.lost.append(f"{CHECKPOINTS}/{step}: {error}")
            return False
        return True

    def _look_at_status(self) -> dict[str, Any]:
        try:
            return self._folder.published()
        except ChecksumError as error:
            status = self._folder.status
            self.mended.append(f"{error}: taken from the checkpoint at step {status['steps']}")
            return status

    def _look_at_metadata(self) -> None:
        for path, node in self._folder.nodes(lengths_of(self._status)).items():
            file = self._folder.root / path / METADATA
            try:
                same = json.loads(file.read_text()) == node
            except (OSError, ValueError):
                same = False
            if not same:
                self.mended.append(f"{path}/{METADATA}: differs from the settings, written again")

    def _is_lost(self, spec: ArraySpec) -> bool:
        """Whether an array that does not grow is damaged."""
        if spec.grows or is_whole(self._folder, spec.path):
            return False
        if spec.path == "posterior/chain":
            self.mended.append(f"{spec.path}: damaged, computed again")
        elif spec.group == "bias":
            how = "written again when the run goes on" if self._steps else "it stands as NaN"
            (self.mended if self._steps else self.lost).append(f"{spec.path}: damaged, {how}")
        else:
            self.lost.append(f"{spec.path}: damaged{_advice(spec.path)}")
        return True

    def _look_at_draws(self) -> None:
        for chunk in self._chunks:
            (self.lost if chunk.lost else self.mended).append(str(chunk))
        for path, boxes in self._boxes.items():
            if not is_statistic(self._folder.specs[path]):
                self.lost += [f"{path}: {box} are damaged" for box in boxes]
        for chain, gone in enumerate(self._draws):
            if gone.size:
                left = self._counts[chain] - gone.size
                self.lost.append(f"chain {chain}: {gone.size:,} draws; {left:,} are left")
        if not self._steps:
            self.lost.append("every checkpoint: the draws can be read, but the run cannot go on")

    def save(self, out: Path) -> None:
        """Write the sound folder. Its config comes last, and makes it a run."""
        target = self._new_folder(out)
        self._copy_arrays(target)
        for chunk in self._chunks:
            put(target, chunk)
        if any(gone.size for gone in self._draws):
            leave_out(self._folder, target, self._draws, self._counts)
        counts = without_lost(self._counts, self._draws)
        status = {**self._status, "counts": counts}
        target.publish(lengths_of(status), status)
        for step in self._steps:
            self._copy_checkpoint(target, step)
        target.seal()

    def _new_folder(self, out: Path) -> Folder:
        """A folder with the files beside the arrays, without a config."""
        out.parent.mkdir(parents=True, exist_ok=True)
        # It may hold functions and data of the user, so it is private to begin with.
        out.mkdir(mode=0o700)
        config = {name: value for name, value in self._folder.config.items() if name != "files"}
        config["repaired"] = [*config.get("repaired", []), *self.lost]
        gone = [p for p in self._fixed if self._folder.specs[p].group == "observed_data"]
        config["arrays"] = [asdict(s) for p, s in self._folder.specs.items() if p not in gone]
        for name in self._folder.config["files"]:
            sound = self._files.get(name, self._folder.path / name)
            if sound is not None:
                shutil.copy2(sound, out / name)
        return Folder(out, config, None)

    def _copy_arrays(self, target: Folder) -> None:
        """Copy all chunks that are not damaged, and arrays that do not grow."""
        damaged = {box.file(path) for path, boxes in self._boxes.items() for box in boxes}
        for path in target.specs:
            for file in (self._folder.root / path / "c").rglob("*"):
                name = str(file.relative_to(self._folder.root))
                if (
                    file.is_file()
                    and not file.is_symlink()
                    and name not in damaged
                    and path not in self._fixed
                ):
                    (target.root / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, target.root / name)
            if path in self._fixed:
                target.write_whole(path, _blank(target.specs[path]))

    def _copy_checkpoint(self, target: Folder, step: int) -> None:
        """Copy a sound checkpoint. The draws that it counts are those that are left."""
        checkpoint = checkpoint_path(target.path, step)
        shutil.copytree(checkpoint_path(self._folder.path, step), checkpoint)
        notes = read_notes(checkpoint)
        write_notes(checkpoint, {**notes, "counts": without_lost(notes["counts"], self._draws)})


def _blank(spec: ArraySpec) -> np.ndarray:
    """What stands for an array that does not grow."""
    if spec.path == "posterior/chain":
        return np.arange(spec.tail[0])
    shape = (*([spec.num_chains] if spec.num_chains else []), *spec.tail)
    dtype = np.dtype(spec.dtype)
    return np.full(shape, 0 if dtype.kind in "iub" else np.nan, dtype)


def _advice(name: str) -> str:
    """What to do without a file or array that is lost."""
    if name.startswith("observed_data/"):
        return "; pass the potential= of the run to go on"
    if name == FILE:
        return "; pass the sampler= and potential= of the run to go on"
    return ""
