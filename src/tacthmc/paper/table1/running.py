"""A group from epoch to epoch: sampled, evaluated, saved, and gone on with."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.paper.table1 import checkpoint
from tacthmc.paper.table1.averages import Averages, added, last_kept, predicted, quick_scores
from tacthmc.paper.table1.program import Program
from tacthmc.paper.table1.tally import Tally, numbers
from tacthmc.store._errors import StoreError

SAVE_SECONDS = 120.0
"""No more than about this is ever computed again."""

CURVE_POINTS = 50
"""About so many points has a learning curve."""

Say = Callable[[str], None]


class Running:
    """A program's chains, what they predict, and what is noted of them."""

    def __init__(
        self,
        program: Program,
        path: Path,
        identity: dict[str, Any],
        former: "Running | None" = None,
    ):
        """Go on from the checkpoint at ``path``, or begin; with chains of ``former``'s if given."""
        self.program, self._path, self._identity = program, path, identity
        self._curve_every = max(1, program.group.epochs // CURVE_POINTS)
        if path.exists():
            self._restore()
        else:
            images, classes = len(program.labels), program.model.classes
            self.averages = Averages.none(program.chains, images, classes)
            if former is None:
                self.chains, self.tally = program.start(), Tally.none(program.chains)
            else:
                theirs = former.program.group.cells
                numbers = [theirs.index(cell) for cell in program.group.cells]
                self.chains = former.program.some(former.chains, numbers)
                self.tally = former.tally.some(numbers)

    @property
    def finished(self) -> bool:
        """Whether all epochs are made, or no chain is left."""
        return self.tally.epoch >= self.program.group.epochs or self.tally.all_diverged

    def advance(self, deadline: float | None, say: Say) -> None:
        """Run to the end, or until ``time.monotonic()`` is past the deadline; all is saved."""
        if self.finished:
            if not self._path.exists():
                self.save()
            return
        self._compile()
        saved = told = time.monotonic()
        while not self.finished:
            self._epoch()
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                break
            if now - saved >= SAVE_SECONDS:
                self.save()
                saved = time.monotonic()
            if now - told >= 60:
                told = now
                say(f"epoch {self.tally.epoch} of {self.program.group.epochs}")
        self.save()

    def save(self) -> None:
        """One file with everything."""
        arrays = {f"averages_{k}": np.asarray(v) for k, v in self.averages._asdict().items()}
        notes = {"identity": self._identity, "tally": self.tally.to_json()}
        checkpoint.save(self._path, self.program.packed(self.chains) | arrays, notes)

    def _restore(self) -> None:
        arrays, notes = checkpoint.read(self._path)
        if notes["identity"] != self._identity:
            raise StoreError(f"{self._path} belongs to {notes['identity']}, not {self._identity}")
        self.chains = self.program.unpacked(arrays)
        self.averages = Averages(
            *(jnp.asarray(arrays[f"averages_{name}"]) for name in Averages._fields)
        )
        self.tally = Tally.from_json(notes["tally"])

    def _compile(self) -> None:
        """By running no interval and judging the start, so that clocks show what repeats."""
        begun = time.monotonic()
        _, filled = self.program.run(self.chains, 0)
        self._judged(self.averages, *last_kept(filled.kept.position, filled.rows.keep))
        self.tally.compile_seconds += time.monotonic() - begun

    def _epoch(self) -> None:
        program, tally = self.program, self.tally
        begun = time.monotonic()
        intervals = program.intervals(tally.epoch)
        self.chains, filled = program.run(self.chains, intervals)
        tally.take_in(filled, intervals)
        tally.epoch += 1
        sampled = time.monotonic()
        tally.sampling_seconds += sampled - begun
        counts, shown = self._counts(tally.epoch), self._is_shown(tally.epoch)
        if counts or shown:
            draws, there = last_kept(filled.kept.position, filled.rows.keep)
            self._evaluate(draws, there, counts, shown)
            tally.evaluation_seconds += time.monotonic() - sampled

    def _counts(self, epoch: int) -> bool:
        group = self.program.group
        # Counted from the end, so that the last epoch always has its say.
        return epoch > group.burn_in and (group.epochs - epoch) % group.draw_every == 0

    def _is_shown(self, epoch: int) -> bool:
        return epoch % self._curve_every == 0 or epoch == self.program.group.epochs

    def _evaluate(self, draws: Any, there: Any, counts: bool, shown: bool) -> None:
        program = self.program
        probabilities, entropies = predicted(program.model.logits, draws, program.images)
        if counts:
            self.averages = added(self.averages, probabilities, entropies, there)
        if shown:
            one = quick_scores(probabilities, there.astype(probabilities.dtype), program.labels)
            mean = quick_scores(self.averages.probabilities, self.averages.draws, program.labels)
            point: dict[str, Any] = {"epoch": self.tally.epoch}
            for name, (accuracy, loss) in (("", mean), ("draw_", one)):
                point[f"{name}accuracy"] = numbers(accuracy)
                point[f"{name}log_loss"] = numbers(loss)
            self.tally.curve.append(point)
        jax.block_until_ready(self.averages)

    def _judged(self, averages: Averages, draws: Any, there: Any) -> None:
        """All that is computed of an epoch's draws, thrown away."""
        program = self.program
        probabilities, entropies = predicted(program.model.logits, draws, program.images)
        counts = there.astype(probabilities.dtype)
        found = added(averages, probabilities, entropies, there)
        scores = quick_scores(probabilities, counts, program.labels)
        jax.block_until_ready((found, scores))
