"""A group begun, resumed, read, or begun with some of a former group's chains."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import jax

from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.table1.evaluation import Evaluation
from tacthmc.paper.table1.group import Group
from tacthmc.paper.table1.program import GroupProgram
from tacthmc.run import DivergedWarning, Run, drive, load, resume
from tacthmc.store import Store, StoreError

STATE = "state"
"""The folder of the groups' runs, beside the results. It can be deleted once all is finished."""


@dataclass(frozen=True)
class GroupRun:
    """A group's chains as far as they have come, and what was learned of them."""

    program: GroupProgram
    evaluation: Evaluation
    run: Run

    @property
    def finished(self) -> bool:
        """Whether all epochs are made, or no chain is left."""
        return self.evaluation.finished

    @property
    def was_interrupted(self) -> bool:
        """Whether somebody stopped it, by Ctrl-C, before its slice was over."""
        return self.run.interrupted and not self.evaluation.has_stopped

    @property
    def compile_seconds(self) -> float:
        """Seconds that compilation took, in all slices together."""
        return self.run.compile_seconds + self.evaluation.tally.compile_seconds


def state_folder(out: Path, group: Group, images: ImageSet) -> Path:
    """Where a group's run is kept."""
    return out / STATE / group.name(images)


def advance(group: Group, images: ImageSet, out: Path, deadline: float | None) -> GroupRun:
    """Run a group until it is finished, or until the epoch in which the deadline comes.

    The run is stored in ``out``, and goes on from there if it is there already. A chain that
    diverges does not stop the others: its record says so.

    Args:
        group: the group.
        images: the images of its task.
        out: the folder of results.
        deadline: a time of ``time.monotonic()``; at least one epoch is made.
    """
    path, program = state_folder(out, group, images), GroupProgram(group, images)
    _refuse_old_layout(path)
    # The program is a function of the group: the command that made it makes it again.
    store = Store(path, with_program=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)
        if store.holds_run:
            evaluation = Evaluation(program, group.identity(images), path, deadline)
            evaluation.compile()
            parts = {"sampler": program.sampler, "potential": program.potential}
            run = resume(store, callbacks=[evaluation], **parts)
            return GroupRun(program, evaluation, run)
        return _begun(program, images, out, store, deadline)


def _begun(
    program: GroupProgram, images: ImageSet, out: Path, store: Store, deadline: float | None
) -> GroupRun:
    group = program.group
    former = None if group.stage is None else group.stage.former
    if former is None:
        chains, tally = program.start(), None
    else:
        before = read(former, images, out)
        numbers = [former.cells.index(cell) for cell in group.cells]
        stored = before.program.compiled.pick(before.run.chains, numbers)
        # A reader of a folder has stand-ins for the states of optimizers, which are not ours.
        chains = jax.tree.unflatten(jax.tree.structure(program.start()), jax.tree.leaves(stored))
        tally = before.evaluation.tally.pick(numbers)
    evaluation = Evaluation(program, group.identity(images), Path(store.path), deadline, tally)
    evaluation.compile()
    run = drive(
        program.compiled,
        chains,
        evaluation.intervals_left * program.keep_every,
        # Every chain has a key of its own already.
        key=jax.random.key(0),
        store=store,
        callbacks=[evaluation],
        keep_going=True,
    )
    return GroupRun(program, evaluation, run)


def read(group: Group, images: ImageSet, out: Path) -> GroupRun:
    """A group's run as its last checkpoint has it."""
    path, program = state_folder(out, group, images), GroupProgram(group, images)
    _refuse_old_layout(path)
    if not Store(path).holds_run:
        raise StoreError(f"{path}, from which chains were to go on, is gone")
    evaluation = Evaluation(program, group.identity(images), path)
    run = load(path, sampler=program.sampler, potential=program.potential, callbacks=[evaluation])
    return GroupRun(program, evaluation, run)


def _refuse_old_layout(path: Path) -> None:
    """Refuse a checkpoint that was one file, which nothing reads any more."""
    old = path.with_name(f"{path.name}.npz")
    if old.exists() and not path.exists():
        raise StoreError(
            f"{old} was written by an earlier version of tacthmc, whose checkpoints this one does"
            " not read: delete it to begin this group again"
        )
