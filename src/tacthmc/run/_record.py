"""The draws and trace of a run, in memory or on disk, with the same interface."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

import jax
import numpy as np
from jax.sharding import Mesh

from tacthmc.compiler._mesh import local_chains, local_rows, on_every_host
from tacthmc.run._interval import Kept, Row
from tacthmc.run._program import Chunk
from tacthmc.store._folder import Folder

STATISTICS = (
    "energy",
    "kinetic_temperature",
    "thermostat",
    "xi",
    "temperature",
    "lambda",
    "xi_kinetic_temperature",
    "xi_thermostat",
    "mode",
    "step",
)

BLOCK_DRAWS = 256
"""The number of draws that are read from disk at a time."""

ENERGIES = ("full_energy", "tempered_energy")
"""The energies of a draw that are kept if weights need them."""


def columns_of(rows: Row, count: int) -> dict[str, np.ndarray]:
    """The first ``count`` rows of a chunk as named columns, each (chain, row)."""
    columns = {n: np.asarray(v)[:, :count] for n, v in rows._asdict().items() if v is not None}
    if "temperature" in columns:
        columns["lambda"] = 1 / columns["temperature"]
    return {name: read_only(column) for name, column in columns.items()}


def to_host(
    chunk: Chunk, columns: dict[str, np.ndarray], mesh: Mesh | None, stored: bool
) -> list[Kept]:
    """The draws of a chunk on the host, chain by chain.

    With a store each process gets the draws of its own chains, without one it gets all.
    """
    counts = columns["keep"].sum(axis=1)
    if stored:
        kept, chains = local_rows(chunk.kept, mesh), local_chains(mesh, len(counts))
    else:
        kept = jax.tree.map(np.asarray, on_every_host(mesh, chunk.kept))
        chains = np.arange(len(counts))
    # Copies: a view would keep the whole chunk alive. Callbacks see them before they are stored.
    return [
        jax.tree.map(lambda x, p=place, c=chain: read_only(x[p, : counts[c]].copy()), kept)
        for place, chain in enumerate(chains)
    ]


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, which nobody can change any more.

    >>> read_only(np.zeros(2)).flags.writeable
    False
    """
    array.flags.writeable = False
    return array


class Record(ABC):
    """The draws and the trace of a run."""

    @property
    @abstractmethod
    def counts(self) -> np.ndarray:
        """The number of draws of each chain."""

    @property
    @abstractmethod
    def trace(self) -> Mapping[str, np.ndarray]:
        """Columns of statistics, each (chain, row)."""

    @abstractmethod
    def kept(self, chain: int, begin: int, end: int) -> Kept:
        """The draws of a chain from ``begin`` to ``end``, each leaf with a leading draw axis."""

    @abstractmethod
    def leaf(self, number: int, chain: int, rows: slice) -> np.ndarray:
        """Some draws of one leaf of the position; ``rows`` has a begin, an end and a step."""

    @abstractmethod
    def stat(self, name: str, chain: int) -> np.ndarray:
        """A statistic of all draws of a chain."""

    @abstractmethod
    def scalar(self, leaf: int, index: tuple[int, ...], chain: int, end: int) -> np.ndarray:
        """One scalar of the position in the first ``end`` draws of a chain."""

    @property
    @abstractmethod
    def stat_names(self) -> list[str]:
        """The names of the statistics."""


class MemoryRecord(Record):
    """A run kept in memory, chunk by chunk."""

    def __init__(self, num_chains: int):
        """Begin with an empty record."""
        self._pieces: list[list[Kept]] = [[] for _ in range(num_chains)]
        self._columns: list[dict[str, np.ndarray]] = []
        self._trace: dict[str, np.ndarray] = {}
        self._counts = np.zeros(num_chains, int)

    def append(self, columns: dict[str, np.ndarray], kept: list[Kept]) -> None:
        """Add a chunk."""
        for pieces, piece in zip(self._pieces, kept, strict=True):
            pieces.append(piece)
        self._columns.append(columns)
        self._counts = self._counts + columns["keep"].sum(axis=1)

    @property
    def counts(self) -> np.ndarray:
        return self._counts

    @property
    def trace(self) -> Mapping[str, np.ndarray]:
        if self._columns:
            parts = [*([self._trace] if self._trace else []), *self._columns]
            self._trace = {n: np.concatenate([p[n] for p in parts], axis=1) for n in parts[0]}
            self._columns = []
        return self._trace

    def _whole(self, chain: int) -> Kept:
        pieces = self._pieces[chain]
        if len(pieces) > 1:
            pieces[:] = [jax.tree.map(lambda *p: np.concatenate(p), *pieces)]
        return pieces[0]

    def kept(self, chain: int, begin: int, end: int) -> Kept:
        return jax.tree.map(lambda x: x[begin:end], self._whole(chain))

    def leaf(self, number: int, chain: int, rows: slice) -> np.ndarray:
        return jax.tree.leaves(self._whole(chain).position)[number][rows]

    def stat(self, name: str, chain: int) -> np.ndarray:
        if name in ENERGIES:
            return np.asarray(getattr(self._whole(chain), name))
        return self.trace[name][chain][self.trace["keep"][chain]]

    def scalar(self, leaf: int, index: tuple[int, ...], chain: int, end: int) -> np.ndarray:
        return jax.tree.leaves(self._whole(chain).position)[leaf][:end][(slice(None), *index)]

    @property
    def stat_names(self) -> list[str]:
        names = [n for n in STATISTICS if n in self.trace]
        return [*names, *self._whole(0).energies]


class _Columns(Mapping[str, np.ndarray]):
    """The trace of a stored run, whose columns are read when they are needed."""

    def __init__(self, folder: Folder, rows: int):
        self._folder, self._rows = folder, rows
        self._names = [s.name for s in folder.specs.values() if s.group == "trace"]

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        return self._folder.read(f"trace/{name}", np.s_[:, : self._rows])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class StoredRecord(Record):
    """A run on disk, read when it is needed."""

    def __init__(self, folder: Folder, like: Kept):
        """Read from ``folder``; ``like`` has the structure of one draw."""
        self._folder = folder
        status = folder.status
        self._counts = np.array(status.get("counts", [0] * folder.config["num_chains"]), int)
        self._trace = _Columns(folder, status.get("rows", 0))
        self._structure = jax.tree.structure((like.position, like.model))
        self._paths = [
            path
            for group in ("posterior", "model_state")
            for path, spec in folder.specs.items()
            if spec.group == group and spec.name not in ("chain", "draw")
        ]
        self._energies = [n for n in ENERGIES if f"sample_stats/{n}" in folder.specs]

    @property
    def counts(self) -> np.ndarray:
        return self._counts

    @property
    def trace(self) -> Mapping[str, np.ndarray]:
        return self._trace

    def kept(self, chain: int, begin: int, end: int) -> Kept:
        end = max(begin, min(end, int(self._counts[chain])))
        where = np.s_[chain, begin:end]
        leaves = [self._folder.read(path, where) for path in self._paths]
        position, model = jax.tree.unflatten(self._structure, leaves)
        found = {n: self._folder.read(f"sample_stats/{n}", where) for n in self._energies}
        return Kept(position, model, found.get("full_energy"), found.get("tempered_energy"))

    def leaf(self, number: int, chain: int, rows: slice) -> np.ndarray:
        return self._folder.read(self._paths[number], (chain, rows))

    def stat(self, name: str, chain: int) -> np.ndarray:
        return self._folder.read(f"sample_stats/{name}", np.s_[chain, : int(self._counts[chain])])

    def scalar(self, leaf: int, index: tuple[int, ...], chain: int, end: int) -> np.ndarray:
        """One scalar of the position, read in blocks so that a whole leaf is never in memory."""
        path = self._paths[leaf]
        step = BLOCK_DRAWS
        parts = [
            self._folder.read(path, (chain, slice(b, min(b + step, end)), *index))
            for b in range(0, end, step)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    @property
    def stat_names(self) -> list[str]:
        names = [s.name for s in self._folder.specs.values() if s.group == "sample_stats"]
        return [n for n in (*STATISTICS, *ENERGIES) if n in names]
