"""Writing a run to its folder: rows, then the status for readers, then a checkpoint."""

from typing import Any

import jax
import numpy as np

from tacthmc._positions import leaf_names
from tacthmc.compiler._hosts import raise_together
from tacthmc.compiler._mesh import local_chains, on_every_host
from tacthmc.run._interval import Kept
from tacthmc.run._plan import Plan
from tacthmc.run._program import Chains, Chunk
from tacthmc.run._record import STATISTICS
from tacthmc.store._arrays import ArraySpec, tensorstore
from tacthmc.store._checkpoint import PRIVATE_NOTES, Checkpoints
from tacthmc.store._errors import writing
from tacthmc.store._folder import Folder, lengths_of
from tacthmc.store._safe import unused_name

MAX_BUFFER_BYTES = 1 << 26
"""The size of the draws in memory from which they are written at once."""


def bias_leaves(chains: Chains) -> dict[str, Any]:
    """The tables of the bias by name, each (chain, …)."""
    tempering = getattr(chains.each.state, "tempering", None)
    if tempering is None:
        return {}
    bias = tempering.bias
    return dict(zip(leaf_names(bias), jax.tree.leaves(bias), strict=True))


def array_specs(chunk: Chunk, chains: Chains, num_chains: int, shards: int) -> list[ArraySpec]:
    """All arrays of a store, from the shapes of a chunk and of the chains."""
    per_shard = num_chains // shards
    specs = [
        ArraySpec("posterior", "chain", (num_chains,), "int64"),
        ArraySpec("posterior", "draw", (), "int64", grows="draw"),
    ]

    def add(group: str, tree: Any) -> None:
        taken = {"chain", "draw"}
        for name, leaf in zip(leaf_names(tree), jax.tree.leaves(tree), strict=True):
            name = unused_name(name, taken)
            specs.append(
                ArraySpec(
                    group,
                    name,
                    tuple(leaf.shape[2:]),
                    str(leaf.dtype),
                    num_chains,
                    per_shard,
                    "draw",
                )
            )

    add("posterior", chunk.kept.position)
    add("model_state", chunk.kept.model)
    rows = {n: v for n, v in chunk.rows._asdict().items() if v is not None}
    if "temperature" in rows:
        rows["lambda"] = rows["temperature"]
    stats = {n: rows[n] for n in STATISTICS if n in rows}
    specs += [
        ArraySpec("sample_stats", name, (), str(energy.dtype), num_chains, per_shard, "draw")
        for name, energy in chunk.kept.energies.items()
    ]
    for group, columns, grows in (("sample_stats", stats, "draw"), ("trace", rows, "row")):
        specs += [
            ArraySpec(group, name, (), str(value.dtype), num_chains, num_chains, grows)
            for name, value in columns.items()
        ]
    specs += [
        ArraySpec("bias", name, tuple(leaf.shape[1:]), str(leaf.dtype), num_chains, num_chains)
        for name, leaf in bias_leaves(chains).items()
    ]
    specs += [
        ArraySpec("timing", "steps", (), "int64", grows="commit"),
        ArraySpec("timing", "seconds", (), "float64", grows="commit"),
    ]
    return specs


class StoreWriter:
    """Buffers chunks, and commits: writes all rows so far, then a checkpoint that matches them."""

    def __init__(self, folder: Folder, plan: Plan, notes: dict[str, Any] | None, same: bool = True):
        """Write to ``folder``, after the checkpoint with these ``notes`` if the run is resumed.

        ``same`` says whether steps that are repeated will give the same numbers, bit for bit.
        """
        notes = notes or {}
        self.folder, self.checkpoints = folder, Checkpoints(folder.path)
        self._plan, self._mesh = plan, plan.program.mesh
        self._num_steps = plan.intervals * plan.every
        self._num_chains = folder.config["num_chains"]
        self._mine = local_chains(self._mesh, self._num_chains)
        self.counts = np.array(notes.get("counts", [0] * self._num_chains), int)
        self.rows = int(notes.get("rows", 0))
        self._written, self._rows_written = self.counts.copy(), self.rows
        self._commits = int(notes.get("commits", 0))
        # Published rows stay visible while the same rows are computed again.
        before = folder.status if same else {}
        nothing = [0] * self._num_chains
        self._published = {"counts": before.get("counts", nothing), "rows": before.get("rows", 0)}
        self._published["steps"] = before.get("steps", 0)
        self._chunks: list[tuple[dict[str, np.ndarray], list[Kept]]] = []
        self.buffered = 0

    def append(self, columns: dict[str, np.ndarray], kept: list[Kept]) -> None:
        """Buffer a chunk: columns of all chains, and draws of those that this process writes."""
        self._chunks.append((columns, kept))
        self.counts = self.counts + columns["keep"].sum(axis=1)
        self.rows += columns["keep"].shape[1]
        self.buffered += sum(x.nbytes for x in jax.tree.leaves((columns, kept)))

    def commit(
        self,
        steps: int,
        chains: Chains,
        notes: dict[str, Any],
        finished: bool,
        memory: dict[str, Any] | None = None,
    ) -> None:
        """Write all rows, publish them, and begin a checkpoint."""
        bias = on_every_host(self._mesh, bias_leaves(chains))

        def write() -> None:
            with writing(self.folder.path, f"writing draws (up to step {steps})"):
                self._flush(bias, steps, notes["seconds"])

        raise_together(write)
        self._commits += 1
        raise_together(lambda: self._publish(steps, notes, finished))
        words = self._plan.program.pack(chains)
        notes = {
            **notes,
            "counts": self.counts.tolist(),
            "rows": self.rows,
            "commits": self._commits,
            "steps": steps,
            "num_steps": self._num_steps,
            "finished": finished,
        }
        self.checkpoints.save(steps, words, notes, memory)

    def _publish(self, steps: int, notes: dict[str, Any], finished: bool) -> None:
        if jax.process_index() != 0:
            return
        counts, rows = self.counts, self.rows
        if not finished:
            before = self._published
            counts = np.maximum(counts, before["counts"])
            rows, steps = max(rows, before["rows"]), max(steps, before["steps"])
        status = {
            "steps": steps,
            "num_steps": self._num_steps,
            "finished": finished,
            "counts": counts.tolist(),
            "rows": rows,
            "commits": self._commits,
            **{k: v for k, v in notes.items() if k not in PRIVATE_NOTES},
        }
        self.folder.publish(lengths_of(status), status)

    def _flush(self, bias: dict[str, Any], steps: int, seconds: float) -> None:
        chunks, self._chunks, self.buffered = self._chunks, [], 0
        transaction = tensorstore().Transaction()

        def write(path: str, index: Any, value: Any) -> None:
            value = np.asarray(value)
            if value.size:
                self.folder.array(path).with_transaction(transaction)[index] = value

        columns: dict[str, np.ndarray] = {}
        if chunks:
            columns = {n: np.concatenate([c[n] for c, _ in chunks], axis=1) for n in chunks[0][0]}
        if jax.process_index() == 0:
            for name, column in columns.items():
                write(f"trace/{name}", np.s_[:, self._rows_written : self.rows], column)
            self._write_stats(write, columns)
            begin, end = int(self._written.min()), int(self.counts.min())
            write("posterior/draw", np.s_[begin:end], np.arange(begin, end))
            for name, leaf in bias.items():
                write(f"bias/{name}", ..., leaf)
            write("timing/steps", self._commits, steps)
            write("timing/seconds", self._commits, seconds)
        for place, chain in enumerate(self._mine):
            pieces = [kept[place] for _, kept in chunks]
            if pieces:
                where = np.s_[chain, self._written[chain] : self.counts[chain]]
                self._write_draws(write, where, pieces)
        transaction.commit_async().result()
        self._written, self._rows_written = self.counts.copy(), self.rows

    def _write_stats(self, write: Any, columns: dict[str, np.ndarray]) -> None:
        for path, spec in self.folder.specs.items():
            if spec.group != "sample_stats" or spec.name not in columns:
                continue
            for chain in range(self._num_chains):
                where = np.s_[chain, self._written[chain] : self.counts[chain]]
                write(path, where, columns[spec.name][chain][columns["keep"][chain]])

    def _write_draws(self, write: Any, where: Any, pieces: list[Kept]) -> None:
        whole: Kept = jax.tree.map(lambda *p: np.concatenate(p), *pieces)
        paths = {
            group: [p for p, s in self.folder.specs.items() if s.group == group and s.num_chains]
            for group in ("posterior", "model_state")
        }
        for group, tree in (("posterior", whole.position), ("model_state", whole.model)):
            for path, leaf in zip(paths[group], jax.tree.leaves(tree), strict=True):
                write(path, where, leaf)
        for name, energy in whole.energies.items():
            write(f"sample_stats/{name}", where, energy)

    def close(self) -> None:
        """Wait for the last checkpoint and release the folder."""
        self.checkpoints.close()
        self.folder.close()


def check_end(folder: Folder, counts: list[int], rows: int) -> None:
    """Check that the last rows can be read, because a resumed run writes after them."""
    for path, spec in folder.specs.items():
        if spec.grows == "row" and rows:
            folder.read(path, np.s_[:, rows - 1])
        elif spec.grows == "draw" and spec.num_chains:
            for chain, count in enumerate(counts):
                if count:
                    folder.read(path, np.s_[chain, count - 1])
