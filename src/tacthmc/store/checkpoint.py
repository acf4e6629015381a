"""Checkpoints of a run's state, by Orbax: atomic, asynchronous, checked when read."""

import contextlib
import logging
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc.store.errors import StoreError, needs, writing

KEPT = 3


def _orbax() -> Any:
    try:
        import orbax.checkpoint as module
    except ImportError as error:
        raise needs("Orbax") from error
    # Orbax tells of each save; a run tells of what matters by itself.
    logging.getLogger("absl").setLevel(logging.ERROR)
    return module


@jax.jit
def _fingerprint(leaves: list[Array]) -> Array:
    """A sum over all bits, each word weighted by its place: a flipped bit always shows."""
    total = jnp.zeros((), jnp.uint32)
    for number, leaf in enumerate(leaves):
        if leaf.dtype == bool:
            words = leaf.astype(jnp.uint32)
        else:
            width = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}
            words = jax.lax.bitcast_convert_type(leaf, width[leaf.dtype.itemsize])
        words = words.ravel().astype(jnp.uint32)
        # Odd weights have inverses modulo 2³², so no single change is lost.
        places = 2 * jnp.arange(words.size, dtype=jnp.uint32) + jnp.uint32(2 * number + 1)
        total = total * jnp.uint32(31) + jnp.sum(words * places, dtype=jnp.uint32)
    return total


def _flat(tree: Any) -> dict[str, Any]:
    """The leaves that have anything in them, by number."""
    leaves = jax.tree.leaves(tree)
    return {f"{i:04d}": leaf for i, leaf in enumerate(leaves) if leaf.size}


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path):
        """Those in ``folder/checkpoints``."""
        self._ocp = _orbax()
        self._folder = folder
        with writing(folder, "opening the checkpoints"):
            self._manager = self._ocp.CheckpointManager(
                (folder / "checkpoints").absolute(),
                options=self._ocp.CheckpointManagerOptions(
                    max_to_keep=KEPT, enable_async_checkpointing=True
                ),
            )

    def save(self, step: int, state: Any, notes: dict[str, Any]) -> None:
        """Begin to write a state; the last one's writing is waited for."""
        leaves = _flat(state)
        notes = {**notes, "fingerprint": int(_fingerprint(list(leaves.values())))}
        args = self._ocp.args
        self.wait()
        if step in self._manager.all_steps():
            return
        with writing(self._folder, f"writing the checkpoint at step {step}"):
            self._manager.save(
                step,
                args=args.Composite(state=args.StandardSave(leaves), notes=args.JsonSave(notes)),
                force=True,
            )

    def wait(self) -> None:
        """Wait until what was begun is on disk."""
        with writing(self._folder, "writing a checkpoint"):
            self._manager.wait_until_finished()
            self._manager.check_for_errors()

    def steps(self) -> list[int]:
        """The steps that have one, newest first."""
        return sorted(self._manager.all_steps(read=True), reverse=True)

    def restore(self, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
        """A state and its notes; raises where anything in it is damaged."""
        wanted = _flat(like)
        args = self._ocp.args
        try:
            found = self._manager.restore(
                step,
                args=args.Composite(state=args.StandardRestore(wanted), notes=args.JsonRestore()),
            )
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            raise StoreError(
                f"the checkpoint at step {step} cannot be read: {type(error).__name__}: {reason}"
            ) from error
        notes = found["notes"]
        if int(_fingerprint([found["state"][k] for k in wanted])) != notes["fingerprint"]:
            raise StoreError(f"the checkpoint at step {step} is damaged: its checksum differs")
        leaves, structure = jax.tree.flatten(like)
        whole = [
            found["state"].get(f"{i:04d}", jnp.zeros(leaf.shape, leaf.dtype))
            if leaf.size
            else jnp.zeros(leaf.shape, leaf.dtype)
            for i, leaf in enumerate(leaves)
        ]
        return jax.tree.unflatten(structure, whole), notes

    def close(self) -> None:
        """Finish what was begun and let go."""
        with contextlib.suppress(StoreError):
            self.wait()
        self._manager.close()
