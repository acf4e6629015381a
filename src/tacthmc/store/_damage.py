"""Where the arrays of a run are damaged: the chunks that are missing or fail their checksum."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tacthmc.store._arrays import ArraySpec
from tacthmc.store._checksums import ChecksumError
from tacthmc.store._errors import StoreError
from tacthmc.store._folder import Folder


class Box(NamedTuple):
    """The part of an array in one chunk: a range of chains, and a range of rows or draws."""

    chains: range
    rows: range
    chunk: tuple[int, ...]
    """The place of the chunk in the grid of chunks."""

    def file(self, path: str) -> str:
        """The file of the chunk in the store."""
        return "/".join([path, "c", *map(str, self.chunk)])

    def __str__(self) -> str:
        """The range in words."""
        rows = f"rows {self.rows.start} to {self.rows.stop - 1}"
        if not self.chains:
            return rows
        return f"{rows} of chains {self.chains.start} to {self.chains.stop - 1}"


class Extent(NamedTuple):
    """How far the arrays of a run are written."""

    counts: list[int]
    """Draws per chain."""
    rows: int
    """Rows of the trace."""
    commits: int

    @classmethod
    def of(cls, status: dict[str, Any]) -> "Extent":
        """That of a status or of the notes of a checkpoint."""
        return cls(list(status["counts"]), status["rows"], status["commits"])

    def length(self, spec: ArraySpec, chains: range) -> int:
        """The number of rows that some of these chains have."""
        if spec.grows == "draw":
            counts = [self.counts[chain] for chain in chains]
            return max(counts, default=0) if spec.num_chains else min(self.counts)
        return self.rows if spec.grows == "row" else self.commits


def boxes(spec: ArraySpec, extent: Extent) -> Iterator[Box]:
    """The chunks of an array that grows, as far as it is written."""
    shape = spec.metadata(0)["chunk_grid"]["configuration"]["chunk_shape"]
    lead, step = (shape[0], shape[1]) if spec.num_chains else (0, shape[0])
    rest = (0,) * len(spec.tail)
    for first in range(0, spec.num_chains or 1, lead or 1):
        chains = range(first, min(first + lead, spec.num_chains))
        for place, begin in enumerate(range(0, extent.length(spec, chains), step)):
            rows = range(begin, min(begin + step, extent.length(spec, chains)))
            number = (first // lead, place) if lead else (place,)
            yield Box(chains, rows, (*number, *rest))


def index_of(box: Box) -> Any:
    """The index of a box in its array."""
    rows = slice(box.rows.start, box.rows.stop)
    return (slice(box.chains.start, box.chains.stop), rows) if box.chains else rows


def damaged_boxes(folder: Folder, path: str, extent: Extent) -> list[Box]:
    """The damaged chunks of an array that grows."""
    return [box for box in boxes(folder.specs[path], extent) if not is_sound(folder, path, box)]


def is_sound(folder: Folder, path: str, box: Box) -> bool:
    """Whether a chunk can be read."""
    try:
        folder.read(path, index_of(box))
    except StoreError:
        return False
    return True


def is_whole(folder: Folder, path: str) -> bool:
    """Whether an array that does not grow can be read."""
    try:
        folder.read(path, ...)
    except StoreError:
        return False
    return True


def check_chunks(folder: Folder, groups: Sequence[str]) -> None:
    """Raise a StoreError if metadata are damaged, or files of these groups are missing.

    Zarr takes missing files for blank values, without a word.
    """
    advice = f"`tacthmc repair {folder.path}` saves the rest"
    try:
        status = folder.published()
    except ChecksumError as error:
        raise StoreError(f"{error}: {advice}") from error
    if not any(status.get("counts", [])):
        return
    extent = Extent.of(status)
    for path, spec in folder.specs.items():
        for box in boxes(spec, extent) if spec.grows and spec.group in groups else ():
            if not (folder.root / box.file(path)).exists():
                raise StoreError(f"{folder.root / box.file(path)} is missing: {advice}")
