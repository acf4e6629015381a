"""The observer of a group's run: at each epoch's end it judges the chains' latest draws."""

import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.paper.table1.averages import Averages, LatestDraws, added, latest_draws, quick_scores
from tacthmc.paper.table1.program import GroupProgram, on_device
from tacthmc.paper.table1.tally import Tally, numbers
from tacthmc.predict import per_draw
from tacthmc.run import Observer, Snapshot
from tacthmc.store import StoreError

CURVE_POINTS = 50
"""About how many points a learning curve has."""


class Evaluation(Observer):
    """Averages of predictions, learning curves and the tally of a group's chains.

    All of it is stored with every checkpoint, so that a run that goes on ends with the numbers of
    one that was never interrupted.
    """

    # What it computes on the device is not to wait behind the next chunk, and a slice ends exactly
    # with the epoch that it is in.
    run_ahead = False

    def __init__(
        self,
        program: GroupProgram,
        identity: dict[str, Any],
        path: Path,
        deadline: float | None = None,
        tally: Tally | None = None,
    ):
        """Begin with no draws.

        Args:
            program: whose chains are judged.
            identity: everything that the numbers depend on; a checkpoint of anything else is
                refused.
            path: the run's folder, for that refusal.
            deadline: the time of ``time.monotonic()`` after which the run ends with its epoch.
            tally: what the chains have behind them, where they go on from another group's.
        """
        self._program, self._identity, self._path = program, identity, path
        self._deadline = deadline
        self.tally = Tally.none(program.num_chains) if tally is None else tally
        self._begun = self.tally.intervals
        none = Averages.none(program.num_chains, len(program.labels), program.model.classes)
        self.averages = on_device(none)
        self._latest = on_device(LatestDraws.none(program.positions))
        self._curve_every = max(1, program.group.epochs // CURVE_POINTS)
        self.has_stopped = False
        """Whether it has ended the run."""

    @property
    def finished(self) -> bool:
        """Whether all epochs are made, or no chain is left."""
        tally = self.tally
        gone = tally.all_diverged and self._is_between_epochs
        return tally.epoch >= self._program.group.epochs or gone

    @property
    def intervals_left(self) -> int:
        """Intervals that the chains have still to make."""
        left = self._program.epochs.end(self._program.group.epochs) - self.tally.intervals
        # Where K is longer than an epoch, the last epoch may have no interval of its own.
        return max(1, left)

    @property
    def _is_between_epochs(self) -> bool:
        return self.tally.intervals == self._program.epochs.end(self.tally.epoch)

    def next_stop(self, done: int) -> int:
        """The end of the epoch that begins, or goes on, after ``done`` intervals of this run."""
        epochs = self._program.epochs
        return epochs.end(epochs.ended(self._begun + done) + 1) - self._begun

    def __call__(self, snapshot: Snapshot) -> bool:
        """Take in a chunk; at an epoch's end judge it, and say whether to stop."""
        if self.finished:
            # All chains had diverged before the run began.
            self.has_stopped = True
            return True
        chunk = snapshot.chunk
        assert chunk is not None
        self.tally.take_in(snapshot.rows, np.asarray(chunk.health.step))
        if self._is_judged(self.tally.epoch + 1):
            self._latest = latest_draws(self._latest, chunk.kept.position, chunk.rows.keep)
        group, epochs = self._program.group, self._program.epochs
        ended = min(epochs.ended(self.tally.intervals), group.epochs)
        if ended == self.tally.epoch:
            return False
        for epoch in range(self.tally.epoch + 1, ended + 1):
            self._end(epoch)
        late = self._deadline is not None and time.monotonic() >= self._deadline
        self.has_stopped = late or self.finished
        return self.has_stopped

    def _end(self, epoch: int) -> None:
        """End an epoch, and begin the next one without a draw."""
        self.tally.epoch = epoch
        if self._is_judged(epoch):
            begun = time.perf_counter()
            self._judge(epoch)
            self.tally.evaluation_seconds += time.perf_counter() - begun
        self._latest = self._latest._replace(there=jnp.zeros_like(self._latest.there))

    def _is_judged(self, epoch: int) -> bool:
        return self._counts(epoch) or self._is_shown(epoch)

    def _counts(self, epoch: int) -> bool:
        group = self._program.group
        # Counted from the end, so that the last epoch always counts.
        return epoch > group.burn_in and (group.epochs - epoch) % group.draw_every == 0

    def _is_shown(self, epoch: int) -> bool:
        return epoch % self._curve_every == 0 or epoch == self._program.group.epochs

    def _judge(self, epoch: int) -> None:
        program, (draws, there) = self._program, self._latest
        probabilities, entropies = per_draw(program.model.logits, draws, program.images)
        if self._counts(epoch):
            self.averages = added(self.averages, probabilities, entropies, there)
        if self._is_shown(epoch):
            one = quick_scores(probabilities, there.astype(probabilities.dtype), program.labels)
            mean = quick_scores(self.averages.probabilities, self.averages.draws, program.labels)
            point: dict[str, Any] = {"epoch": epoch}
            for name, (accuracy, loss) in (("", mean), ("draw_", one)):
                point[f"{name}accuracy"] = numbers(accuracy)
                point[f"{name}log_loss"] = numbers(loss)
            self.tally.curve.append(point)
        jax.block_until_ready(self.averages)

    def compile(self) -> None:
        """Judge the start and forget it, so that clocks show what each epoch costs."""
        begun = time.perf_counter()
        program, (draws, there) = self._program, self._latest
        probabilities, entropies = per_draw(program.model.logits, draws, program.images)
        found = added(self.averages, probabilities, entropies, there)
        counts = there.astype(probabilities.dtype)
        jax.block_until_ready((found, quick_scores(probabilities, counts, program.labels)))
        self.tally.compile_seconds += time.perf_counter() - begun

    def memory(self) -> dict[str, np.ndarray]:
        """The averages, the tally, and the latest draws of an epoch that is not over."""
        notes = {"identity": self._identity, "begun": self._begun, "tally": self.tally.to_json()}
        found = {f"averages.{k}": np.asarray(v) for k, v in self.averages._asdict().items()}
        found["notes"] = np.frombuffer(json.dumps(notes).encode(), np.uint8)
        if not self._is_between_epochs and self._is_judged(self.tally.epoch + 1):
            for number, leaf in enumerate(jax.tree.leaves(self._latest)):
                found[f"latest.{number}"] = np.asarray(leaf)
        return found

    def remember(self, memory: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint's memory, if it is of the same group."""
        notes = json.loads(memory["notes"].tobytes())
        if notes["identity"] != self._identity:
            raise StoreError(
                f"{self._path} belongs to {notes['identity']}, not {self._identity}: delete it to"
                " begin again"
            )
        compiled = self.tally.compile_seconds
        self._begun, self.tally = notes["begun"], Tally.from_json(notes["tally"])
        self.tally.compile_seconds += compiled
        sums = [memory[f"averages.{name}"] for name in Averages._fields]
        self.averages = Averages(*on_device(sums))
        leaves, structure = jax.tree.flatten(self._latest)
        names = [f"latest.{number}" for number in range(len(leaves))]
        if names[0] in memory:
            found = [memory[name] for name in names]
            self._latest = on_device(jax.tree.unflatten(structure, found))
