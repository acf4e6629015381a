"""A record without its first draws, for a run whose warm-up is decided at its end."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from tacthmc.run._interval import Kept
from tacthmc.run._keep import Keep
from tacthmc.run._record import Record

WARM_UP_PART = 10
"""The warm-up is one part in so many of the steps that a run made."""


def without_warm_up(record: Record, keep: Keep, steps: int) -> tuple[Record, Keep]:
    """The record of a run of so many steps without its warm-up, and the warm-up in ``keep``."""
    after = steps // WARM_UP_PART
    assert keep.every is not None
    rows = after // keep.every
    return Trimmed(record, rows) if rows else record, replace(keep, after=after)


class Trimmed(Record):
    """A record of which each chain loses the draws of its first ``rows`` rows."""

    def __init__(self, whole: Record, rows: int):
        """Leave the draws out; nothing is copied."""
        self._whole = whole
        self._trace = _TrimmedTrace(whole.trace, rows)
        self._first = np.asarray(whole.trace["keep"][:, :rows].sum(axis=1), int)

    @property
    def first(self) -> int | None:
        """How many draws every chain loses, or None if chains differ."""
        return int(self._first[0]) if np.all(self._first == self._first[0]) else None

    @property
    def counts(self) -> np.ndarray:
        return self._whole.counts - self._first

    @property
    def trace(self) -> Mapping[str, np.ndarray]:
        return self._trace

    def kept(self, chain: int, begin: int, end: int) -> Kept:
        first = int(self._first[chain])
        return self._whole.kept(chain, first + begin, first + end)

    def leaf(self, number: int, chain: int, rows: slice) -> np.ndarray:
        first = int(self._first[chain])
        return self._whole.leaf(
            number, chain, slice(first + rows.start, first + rows.stop, rows.step)
        )

    def stat(self, name: str, chain: int) -> np.ndarray:
        return self._whole.stat(name, chain)[self._first[chain] :]

    def scalar(self, leaf: int, index: tuple[int, ...], chain: int, end: int) -> np.ndarray:
        first = int(self._first[chain])
        return self._whole.scalar(leaf, index, chain, first + end)[first:]

    @property
    def stat_names(self) -> list[str]:
        return self._whole.stat_names


class _TrimmedTrace(Mapping[str, np.ndarray]):
    """A trace whose first rows keep no draw."""

    def __init__(self, whole: Mapping[str, np.ndarray], rows: int):
        self._whole, self._rows = whole, rows

    def __getitem__(self, name: str) -> np.ndarray:
        column = self._whole[name]
        if name != "keep":
            return column
        return column & (np.arange(column.shape[1]) >= self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)
