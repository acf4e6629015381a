"""Mending the statistics of a run: what other arrays imply is computed again, the rest is blank.

Each statistic of a draw is also in the trace, at the row of the draw, and the other way round. The
steps, the numbers of draws, and whether a chain is finite follow from the settings and the
failures. What cannot be computed again becomes NaN, and for counts zero.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tacthmc.store._arrays import ArraySpec
from tacthmc.store._checkpoint import newest_notes
from tacthmc.store._damage import Box, Extent, damaged_boxes, index_of
from tacthmc.store._errors import DamageWarning, StoreError
from tacthmc.store._folder import Folder

ESSENTIAL = ("sample_stats/full_energy", "sample_stats/tempered_energy")
"""Statistics that belong to the draws, because their weights need them."""
FIRST = ("trace/keep", "sample_stats/step")
"""Statistics that others are computed from."""


def is_statistic(spec: ArraySpec) -> bool:
    """Whether a run can do without an array."""
    if spec.group in ("trace", "timing", "bias"):
        return True
    if spec.group == "sample_stats":
        return spec.path not in ESSENTIAL
    return spec.path in ("posterior/draw", "posterior/chain")


class Mended(NamedTuple):
    """A damaged chunk of a statistic, and what stands there from now on."""

    path: str
    box: Box
    value: np.ndarray
    lost: int
    """How many values could not be computed again."""

    def __str__(self) -> str:
        """A sentence."""
        said = f"{self.path}: {self.box} were damaged"
        if not self.lost:
            return f"{said}: computed again"
        what = "zero" if self.value.dtype.kind in "iub" else "NaN"
        return f"{said}: {self.lost:,} values are lost and stand as {what}"


def mended(
    folder: Folder, damage: Mapping[str, Sequence[Box]], status: dict[str, Any]
) -> Iterator[Mended]:
    """The damaged chunks of statistics with their values, as far as other arrays imply them.

    ``status`` says how far the arrays are written. Raises a StoreError if nothing is known of a
    statistic that a run cannot do without.
    """
    known = _Known(folder, Extent.of(status), status.get("failures", []))
    for path in sorted(damage, key=lambda path: path not in FIRST):
        for box in damage[path]:
            yield Mended(path, box, *known.again(folder.specs[path], box))


def put(folder: Folder, chunk: Mended) -> None:
    """Write a mended chunk in a folder that is open for writing; the damaged one is moved away."""
    name = f"{folder.root.name}/{chunk.box.file(chunk.path)}"
    # Otherwise the rest of it would be read when a part is written.
    if (folder.path / name).exists():
        folder.move_aside(name)
    folder.array(chunk.path)[index_of(chunk.box)] = chunk.value


def mend_the_end(folder: Folder, status: dict[str, Any], all_of: tuple[str, ...] = ()) -> None:
    """Mend statistics whose last rows are damaged, because a resumed run writes after them.

    Statistics of the groups ``all_of`` are looked at as a whole. What was done is told in a
    DamageWarning.
    """
    # A resumed run writes after its checkpoint, and readers see what is published.
    ends = [Extent.of(each) for each in (status, newest_notes(folder.path) or status)]
    paths = [p for p, spec in folder.specs.items() if is_statistic(spec) and spec.grows]
    looked_at = [
        path
        for path in paths
        if folder.specs[path].group in all_of
        or any(_ends_badly(folder, path, extent) for extent in ends)
    ]
    damage = {path: damaged_boxes(folder, path, ends[0]) for path in looked_at}
    for chunk in mended(folder, damage, status):
        put(folder, chunk)
        warnings.warn(f"{folder.path}: {chunk}", DamageWarning, stacklevel=2)


def _ends_badly(folder: Folder, path: str, extent: Extent) -> bool:
    spec = folder.specs[path]
    groups = [[c] for c in range(spec.num_chains)] if spec.num_chains else [[]]
    for chains in groups:
        length = extent.length(spec, range(chains[0], chains[0] + 1) if chains else range(0))
        try:
            if length:
                folder.read(path, (*chains, length - 1))
        except StoreError:
            return True
    return False


class _Known:
    """What the arrays of a run imply about each other."""

    def __init__(self, folder: Folder, extent: Extent, failures: list[dict[str, Any]]):
        self._folder, self._extent = folder, extent
        self._failed = {failure["chain"]: failure["step"] for failure in failures}
        self._every = folder.config["keep"]["every"]

    def again(self, spec: ArraySpec, box: Box) -> tuple[np.ndarray, int]:
        """The values of a box, and how many of them are unknown."""
        if not spec.num_chains:
            if spec.name == "draw":
                return np.asarray(box.rows), 0
            return self._blank(spec, len(box.rows)), len(box.rows)
        found = [self._of_chain(spec, chain, box.rows) for chain in box.chains]
        return np.stack([value for value, _ in found]), sum(lost for _, lost in found)

    def _of_chain(self, spec: ArraySpec, chain: int, rows: range) -> tuple[np.ndarray, int]:
        """The values of one chain; ``rows`` are draws for a statistic of draws."""
        if spec.group == "sample_stats":
            return self._of_draws(spec, chain, rows)
        steps = self._every * (np.asarray(rows) + 1)
        if spec.name == "step":
            return steps.astype(spec.dtype), 0
        if spec.name == "finite":
            return steps < self._failed.get(chain, np.inf), 0
        if spec.name == "keep":
            return self._keeps(chain, steps), 0
        value, known = self._blank(spec, len(rows)), np.zeros(len(rows), bool)
        beside = f"sample_stats/{spec.name}"
        if beside in self._folder.specs:
            try:
                at = self._draw_steps(chain)
                values = self._read(beside, chain, self._extent.counts[chain])
                inside = np.isin(at, steps)
                places = np.searchsorted(steps, at[inside])
                value[places], known[places] = values[inside], True
            except StoreError:
                pass
        return value, int((~known).sum())

    def _of_draws(self, spec: ArraySpec, chain: int, draws: range) -> tuple[np.ndarray, int]:
        count = min(draws.stop, self._extent.counts[chain])
        value = self._blank(spec, len(draws))
        if count <= draws.start:
            return value, 0
        try:
            kept = np.flatnonzero(self._read("trace/keep", chain, self._extent.rows))
            whole = self._read(f"trace/{spec.name}", chain, self._extent.rows)[kept]
        except (StoreError, KeyError):
            if spec.name == "step":
                raise
            return value, count - draws.start
        value[: count - draws.start] = whole[draws.start : count]
        return value, 0

    def _keeps(self, chain: int, steps: np.ndarray) -> np.ndarray:
        if self._folder.config["keep"]["forget"]:
            return np.zeros(len(steps), bool)
        return np.isin(steps, self._draw_steps(chain))

    def _draw_steps(self, chain: int) -> np.ndarray:
        return self._read("sample_stats/step", chain, self._extent.counts[chain])

    def _read(self, path: str, chain: int, end: int) -> np.ndarray:
        return self._folder.read(path, np.s_[chain, :end])

    def _blank(self, spec: ArraySpec, length: int) -> np.ndarray:
        dtype = np.dtype(spec.dtype)
        return np.full(length, 0 if dtype.kind in "iub" else np.nan, dtype)
