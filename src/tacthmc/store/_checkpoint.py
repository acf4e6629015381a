"""Checkpoints of the state of a run, by Orbax: atomic, asynchronous, and checked when read."""

import contextlib
import json
import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from tacthmc.store._arrays import replace_json
from tacthmc.store._checksums import ChecksumError, FileSum, crc32, sealed, unsealed
from tacthmc.store._errors import StoreError, needs, writing

MAX_CHECKPOINTS = 3
CHECKPOINTS = "checkpoints"
SUMS = "checksums.json"
"""The sizes and checksums of all files of a checkpoint, in its folder."""
NOTES = Path("notes", "metadata")
"""Where Orbax writes the notes of a checkpoint, as JSON."""
MEMORY = "memory_checksums"
"""The note with the checksum of each array of the observers."""
PRIVATE_NOTES = ("places", "probe", MEMORY)
"""Notes that are not part of the status for readers."""


def orbax() -> Any:
    """The module ``orbax.checkpoint``, imported when first needed."""
    try:
        import orbax.checkpoint as module
    except ImportError as error:
        raise needs("Orbax") from error
    # Orbax logs each save, and runs report what matters.
    logging.getLogger("absl").setLevel(logging.ERROR)
    return module


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, write: bool = True):
        """Open ``folder/checkpoints``; ``write`` also removes the remains of a killed run."""
        self._ocp = orbax()
        self._folder, self._begun = folder, None
        with writing(folder, "opening the checkpoints"):
            self._manager = self._ocp.CheckpointManager(
                (folder / CHECKPOINTS).absolute(),
                options=self._ocp.CheckpointManagerOptions(
                    max_to_keep=MAX_CHECKPOINTS,
                    enable_async_checkpointing=True,
                    cleanup_tmp_directories=write,
                    read_only=not write,
                ),
            )

    def save(
        self, step: int, words: Array, notes: dict[str, Any], memory: dict[str, Any] | None = None
    ) -> None:
        """Begin to write the words and notes of a state, after the previous one is written.

        ``memory`` has the arrays of observers by name.
        """
        args = self._ocp.args
        self.wait()
        if step in self._manager.all_steps():
            return
        memory = memory or {}
        notes = sealed({**notes, MEMORY: {name: _sum(value) for name, value in memory.items()}})
        items = {"state": args.StandardSave({"words": words}), "notes": args.JsonSave(notes)}
        if memory:
            items["memory"] = args.StandardSave(memory)
        with writing(self._folder, f"writing the checkpoint at step {step}"):
            self._manager.save(step, args=args.Composite(**items), force=True)
        self._begun = step

    def wait(self) -> None:
        """Wait until the last checkpoint is on disk."""
        with writing(self._folder, "writing a checkpoint"):
            self._manager.wait_until_finished()
            self._manager.check_for_errors()
            step, self._begun = self._begun, None
            if step is not None and jax.process_index() == 0:
                write_sums(checkpoint_path(self._folder, step))

    def steps(self) -> list[int]:
        """The steps with a checkpoint, newest first."""
        return checkpoint_steps(self._folder)

    def restore(self, step: int, like: Any) -> tuple[Array, dict[str, Any]]:
        """The words and notes of a step; ``like`` has the shape and sharding of the words."""
        args = self._ocp.args
        try:
            # Before Orbax looks at them: it trusts its own files.
            check_sums(checkpoint_path(self._folder, step))
            found = self._manager.restore(
                step,
                args=args.Composite(
                    state=args.StandardRestore({"words": like}), notes=args.JsonRestore()
                ),
            )
            notes = unsealed(found["notes"])
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            raise StoreError(
                f"the checkpoint at step {step} cannot be read: {type(error).__name__}: {reason}"
            ) from error
        return found["state"]["words"], notes

    def memory(self, step: int) -> dict[str, Any]:
        """The arrays of observers at a step."""
        args = self._ocp.args
        try:
            found = self._manager.restore(step, args=args.Composite(memory=args.StandardRestore()))
            expected = read_notes(checkpoint_path(self._folder, step))[MEMORY]
            if {name: _sum(value) for name, value in found["memory"].items()} != expected:
                raise ChecksumError("its checksum differs")
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            raise StoreError(
                f"the checkpoint at step {step} has no memory of observers: {type(error).__name__}:"
                f" {reason}"
            ) from error
        return dict(found["memory"])

    def close(self) -> None:
        """Wait for the last checkpoint, and close the manager."""
        with contextlib.suppress(StoreError):
            self.wait()
        self._manager.close()


def checkpoint_path(folder: Path, step: int) -> Path:
    """The folder of a checkpoint."""
    return folder / CHECKPOINTS / str(step)


def checkpoint_steps(folder: Path) -> list[int]:
    """The steps with a checkpoint, newest first, whether they are sound or not."""
    place = folder / CHECKPOINTS
    found = [path.name for path in place.iterdir()] if place.is_dir() else []
    return sorted((int(name) for name in found if name.isdigit()), reverse=True)


def write_sums(checkpoint: Path) -> None:
    """Write the checksums of all files of a checkpoint."""
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.name != SUMS)
    sums = {str(path.relative_to(checkpoint)): list(FileSum.of(path)) for path in files}
    replace_json(checkpoint / SUMS, sealed({"files": sums}))


def check_sums(checkpoint: Path) -> bool:
    """Raise a ChecksumError if a file of a checkpoint is damaged or missing.

    Returns whether there is a sound list of checksums. A process that is killed just after a
    checkpoint was written leaves it without this list. Words, notes and memory then still have
    checksums of their own.
    """
    try:
        sums = unsealed(json.loads((checkpoint / SUMS).read_text()))["files"]
    except (OSError, ValueError):
        return False
    for name, known in sums.items():
        FileSum(*known).check(checkpoint / name)
    return True


def read_notes(checkpoint: Path) -> dict[str, Any]:
    """The notes of a checkpoint; raises a ChecksumError if they are damaged."""
    try:
        return unsealed(json.loads((checkpoint / NOTES).read_text()))
    except (OSError, ValueError) as error:
        raise ChecksumError(f"{checkpoint / NOTES} is damaged: {error}") from error


def write_notes(checkpoint: Path, notes: dict[str, Any]) -> None:
    """Replace the notes of a checkpoint, and its checksums."""
    replace_json(checkpoint / NOTES, sealed(notes))
    write_sums(checkpoint)


def newest_notes(folder: Path) -> dict[str, Any] | None:
    """The notes of the newest checkpoint whose notes are sound, or None if there is none."""
    for step in checkpoint_steps(folder):
        with contextlib.suppress(ChecksumError):
            return read_notes(checkpoint_path(folder, step))
    return None


def _sum(value: Any) -> str:
    return crc32(np.asarray(value).tobytes())
