"""The shapes of chains and draws, and the sampler of a run, as JSON in its folder."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from tacthmc.store._arrays import replace_json
from tacthmc.store._describe import Restored, describe, restored
from tacthmc.store._errors import StoreError

SHAPES = "shapes.json"
SAMPLER = "sampler.json"


class Structure(NamedTuple):
    """The trees of a run, with shapes as leaves."""

    chains: Any
    """All chains, in the containers of their states."""
    kept: Any
    """One draw of one chain."""
    axes: Any
    """Which parts of the chains have an axis of chains: 0, or None, as a prefix."""
    chain_containers: list[str]
    """The user's classes in the chains, which came back as stand-ins."""
    kept_containers: list[str]
    """The user's classes in a draw."""

    def kept_like(self, like: Any) -> Any:
        """A draw in the containers of ``like``, an example of a position."""
        leaves, theirs = jax.tree.leaves(self.kept.position), jax.tree.leaves(like)
        shapes, given = ([np.shape(x) for x in one] for one in (leaves, theirs))
        if given != shapes and [shape[1:] for shape in given] != shapes:
            raise ValueError(
                f"like must be a position of the run, with leaves of shapes {shapes}, or one of all"
                f" chains; got {given}"
            )
        position = jax.tree.unflatten(jax.tree.structure(like), leaves)
        return self.kept._replace(position=position)


def write_structure(folder: Path, chains: Any, kept: Any, axes: Any) -> None:
    """Write the trees of a run."""
    described = {"chains": describe(chains), "kept": describe(kept), "axes": describe(axes)}
    replace_json(folder / SHAPES, described)


def read_structure(file: Path) -> Structure:
    """Read the trees of a run."""
    chains, kept, axes = (_of(file, name) for name in ("chains", "kept", "axes"))
    return Structure(chains.value, kept.value, axes.value, chains.containers, kept.containers)


def write_sampler(folder: Path, sampler: Any) -> None:
    """Write the sampler, with the names of what is not from this library."""
    replace_json(folder / SAMPLER, {"sampler": describe(sampler)})


def read_sampler(file: Path) -> Restored:
    """Read the sampler."""
    return _of(file, "sampler")


def _of(path: Path, name: str) -> Restored:
    try:
        return restored(json.loads(path.read_text())[name])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, StoreError) as error:
        raise StoreError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
