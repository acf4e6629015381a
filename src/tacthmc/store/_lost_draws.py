"""Draws in damaged chunks: which they are, and a folder without them.

The draws after a gap move up. Rows of the trace stay, but those of lost draws no longer say that a
draw was kept.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacthmc.store._damage import Box
from tacthmc.store._folder import Folder
from tacthmc.store._mend import is_statistic

BLOCK_BYTES = 1 << 26
"""How much of an array is in memory while draws move up."""


def lost_draws(
    folder: Folder, damage: Mapping[str, Sequence[Box]], counts: Sequence[int]
) -> list[np.ndarray]:
    """The numbers of the draws of each chain that lie in a damaged chunk."""
    found = [np.zeros(count, bool) for count in counts]
    for path, boxes in damage.items():
        for box in boxes if not is_statistic(folder.specs[path]) else ():
            for chain in box.chains:
                found[chain][box.rows.start : box.rows.stop] = True
    return [np.flatnonzero(each) for each in found]


def without_lost(counts: Sequence[int], lost: Sequence[np.ndarray]) -> list[int]:
    """Numbers of draws without the lost ones among them."""
    return [n - int(np.searchsorted(gone, n)) for n, gone in zip(counts, lost, strict=True)]


def leave_out(
    source: Folder, target: Folder, lost: Sequence[np.ndarray], counts: Sequence[int]
) -> None:
    """Move the draws of ``target`` up, over those that are lost.

    Draws are read from ``source``, and statistics from ``target``, where they are mended.
    """
    _forget_rows(target, lost, counts)
    for path, spec in target.specs.items():
        if spec.grows != "draw" or not spec.num_chains:
            continue
        if is_statistic(spec):
            columns = [target.read(path, np.s_[c, :n]) for c, n in enumerate(counts)]
            target.clear(path)
            for chain, column in enumerate(columns):
                kept = np.delete(column, lost[chain])
                target.array(path)[chain, : len(kept)] = kept
        else:
            target.clear(path)
            for chain, count in enumerate(counts):
                _copy_sound(source, target, path, chain, np.delete(np.arange(count), lost[chain]))
    target.clear("posterior/draw")
    shortest = min(without_lost(counts, lost))
    target.array("posterior/draw")[:shortest] = np.arange(shortest)


def _forget_rows(folder: Folder, lost: Sequence[np.ndarray], counts: Sequence[int]) -> None:
    """Note in the trace that the rows of lost draws keep none."""
    every = folder.config["keep"]["every"]
    for chain, gone in enumerate(lost):
        if gone.size:
            steps = folder.read("sample_stats/step", np.s_[chain, : counts[chain]])[gone]
            for row in steps // every - 1:
                folder.array("trace/keep")[chain, int(row)] = False


def _copy_sound(source: Folder, target: Folder, path: str, chain: int, numbers: np.ndarray) -> None:
    """Copy the draws with these numbers, one run of neighbors after the other."""
    spec, begin = source.specs[path], 0
    most = max(1, BLOCK_BYTES // max(1, int(np.prod(spec.tail)) * np.dtype(spec.dtype).itemsize))
    for piece in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
        for part in np.split(piece, range(most, len(piece), most)):
            if part.size:
                where = np.s_[begin : begin + len(part)]
                value: Any = source.read(path, np.s_[chain, int(part[0]) : int(part[-1]) + 1])
                target.array(path)[chain, where] = value
                begin += len(part)
