"""A few numbers of each draw, held while a run goes on, for a condition that looks at them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from tacthmc.compiler._hosts import all_gather
from tacthmc.run._monitor import Snapshot
from tacthmc.run._record import ENERGIES, Record

Scalars = list[tuple[int, tuple[int, ...], str]]
"""Scalars of the position: the number of the leaf, the index in it, and a name."""

STATISTICS = ("step", "energy", "mode", "lambda", *ENERGIES)
"""The statistics that are held beside the scalars, as far as the run has them."""


class Table(NamedTuple):
    """The held draws after warm-up, as a rectangle."""

    scalars: Float[np.ndarray, "chains draws k"]
    stats: dict[str, Float[np.ndarray, "chains draws"]]

    @property
    def num_draws(self) -> int:
        """Draws per chain."""
        return self.scalars.shape[1]

    def thinned(self, stride: int) -> "Table":
        """Every ``stride``-th draw."""
        stats = {name: values[:, ::stride] for name, values in self.stats.items()}
        return Table(self.scalars[:, ::stride], stats)


class HeldDraws:
    """The draws of all chains by a few scalars and statistics.

    If there are more than ``most`` draws in a chain, only every second one is held, then every
    fourth, and so on. Which ones depends on their number alone, not on when they came.
    """

    def __init__(self, scalars: Scalars, num_chains: int, most: int):
        """Hold nothing yet."""
        self._scalars, self._num_chains, self._most = scalars, num_chains, most
        self._counts = np.zeros(num_chains, int)
        self._stride = 1
        self._names: list[str] = []
        self._pieces: dict[int, list[np.ndarray]] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Add the draws of a chunk, of the chains that this process has."""
        rows = snapshot.rows
        names = [name for name in STATISTICS if name in rows]
        for chain, kept in snapshot.draws.items():
            leaves = jax.tree.leaves(kept.position)
            columns = [leaves[leaf][(slice(None), *index)] for leaf, index, _ in self._scalars]
            stats = {name: rows[name][chain][rows["keep"][chain]] for name in names}
            self._append(chain, columns, stats | kept.energies)
        self._count(rows["keep"].sum(axis=1))

    def read(self, record: Record, counts: np.ndarray, chains: Iterable[int]) -> None:
        """Add the first ``counts`` draws of a stored run, of some chains."""
        names = [name for name in STATISTICS if name in record.stat_names]
        for chain in chains:
            end = int(counts[chain])
            columns = [record.scalar(leaf, i, chain, end) for leaf, i, _ in self._scalars]
            stats = {name: record.stat(name, chain)[:end] for name in names}
            self._append(chain, columns, stats)
        self._count(counts)

    def _append(self, chain: int, columns: list[np.ndarray], stats: dict[str, Any]) -> None:
        self._names = list(stats)
        new = np.stack([np.asarray(x, float) for x in (*columns, *stats.values())], axis=1)
        # From the first of these draws whose number is a multiple of the stride.
        first = -int(self._counts[chain]) % self._stride
        self._pieces.setdefault(chain, []).append(new[first :: self._stride])

    def _count(self, added: np.ndarray) -> None:
        """Count draws of all chains, and double the stride until no chain holds too many."""
        self._counts = self._counts + added
        while -(-int(self._counts.max()) // self._stride) > self._most:
            self._stride *= 2
            self._pieces = {chain: [self._whole(chain)[::2]] for chain in self._pieces}

    def _whole(self, chain: int) -> np.ndarray:
        pieces = self._pieces[chain]
        if len(pieces) > 1:
            pieces[:] = [np.concatenate(pieces)]
        return pieces[0]

    def table(self, after: int) -> Table:
        """The draws after step ``after``: the first n of each chain, n as in the shortest."""
        held = {}
        for chain in self._pieces:
            whole, count = self._whole(chain), len(self._scalars)
            held[chain] = whole[whole[:, count + self._names.index("step")] > after]
        common = min((len(rows) for rows in held.values()), default=0)
        rows = _of_all_chains(held, common, self._num_chains)
        count = len(self._scalars)
        stats = {name: rows[:, :, count + i] for i, name in enumerate(self._names)}
        return Table(rows[:, :, :count], stats)


def _of_all_chains(held: dict[int, np.ndarray], common: int, num_chains: int) -> np.ndarray:
    """The first ``common`` rows of every chain, gathered from all processes."""
    if jax.process_count() == 1:
        return np.stack([held[chain][:common] for chain in range(num_chains)])
    common = int(all_gather(common).min())
    width = next(iter(held.values())).shape[1]
    dtype = jax.dtypes.canonicalize_dtype(float)
    mine = np.zeros((num_chains, common, width), dtype)
    here = np.zeros(num_chains, bool)
    for chain, rows in held.items():
        mine[chain], here[chain] = rows[:common], True
    rows, theirs = all_gather(mine), all_gather(here)
    # A chain that several processes have is the same in all of them.
    return rows[np.argmax(theirs, axis=0), np.arange(num_chains)].astype(float)
