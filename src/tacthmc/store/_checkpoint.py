"""Checkpoints of the state of a run, by Orbax: atomic, asynchronous, and checked when read."""

import contextlib
import logging
from pathlib import Path
from typing import Any

from jaxtyping import Array

from tacthmc.store._errors import StoreError, needs, writing

MAX_CHECKPOINTS = 3


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
        self._folder = folder
        with writing(folder, "opening the checkpoints"):
            self._manager = self._ocp.CheckpointManager(
                (folder / "checkpoints").absolute(),
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
        items = {"state": args.StandardSave({"words": words}), "notes": args.JsonSave(notes)}
        if memory:
            items["memory"] = args.StandardSave(memory)
        with writing(self._folder, f"writing the checkpoint at step {step}"):
            self._manager.save(step, args=args.Composite(**items), force=True)

    def wait(self) -> None:
        """Wait until the last checkpoint is on disk."""
        with writing(self._folder, "writing a checkpoint"):
            self._manager.wait_until_finished()
            self._manager.check_for_errors()

    def steps(self) -> list[int]:
        """The steps with a checkpoint, newest first."""
        return sorted(self._manager.all_steps(read=True), reverse=True)

    def restore(self, step: int, like: Any) -> tuple[Array, dict[str, Any]]:
        """The words and notes of a step; ``like`` has the shape and sharding of the words."""
        args = self._ocp.args
        try:
            found = self._manager.restore(
                step,
                args=args.Composite(
                    state=args.StandardRestore({"words": like}), notes=args.JsonRestore()
                ),
            )
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            raise StoreError(
                f"the checkpoint at step {step} cannot be read: {type(error).__name__}: {reason}"
            ) from error
        return found["state"]["words"], found["notes"]

    def memory(self, step: int) -> dict[str, Any]:
        """The arrays of observers at a step."""
        args = self._ocp.args
        try:
            found = self._manager.restore(step, args=args.Composite(memory=args.StandardRestore()))
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
