"""A group's cells as records: every number with everything that it depends on."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.dynamics import Sampler
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.data.validation import VALIDATION
from tacthmc.paper.figures.study import environment, rounded
from tacthmc.paper.table1.configs import OPTIMIZERS
from tacthmc.paper.table1.group import Group
from tacthmc.paper.table1.group_run import GroupRun
from tacthmc.paper.table1.paper import accuracy as paper_accuracy
from tacthmc.paper.table1.program import GroupProgram
from tacthmc.paper.tasks import TASKS
from tacthmc.paper.tasks.ready import DECAY
from tacthmc.predict import Prediction, per_draw, pooled
from tacthmc.run import Keep

Record = dict[str, Any]

SCORES = ("accuracy", "log_loss", "brier", "ece")


def records(done: GroupRun, data: ImageSet, command: str) -> list[Record]:
    """A record for each cell, finished or not; one for all chains that are averaged."""
    program = done.program
    last = _last_iterates(program, done) if _is_optimizer(program) else None
    common = _common(done, data, command)
    return [
        rounded(
            common
            | _cell(program, members[0], data.num_train)
            | _judgment(done, members, last)
            | _journey(done, members)
            | _curves(_points(done), members)
        )
        for members in program.group.members
    ]


def _judgment(done: GroupRun, members: list[int], last: list[Prediction] | None) -> Record:
    """The scores of some chains together; ``last`` has the last iterates, if these are judged."""
    labels = done.program.host_labels
    sound = [chain for chain in members if not done.evaluation.tally.diverged[chain]]
    found = [done.evaluation.averages.prediction(chain) for chain in sound]
    average = _together([one for one in found if one is not None])
    judged = average if last is None else _together([last[chain] for chain in sound])
    reliability = None if _is_searched(done) else _reliability(judged, labels)
    return _scored(judged, labels) | {
        "average": _scored(average, labels),
        "reliability": reliability,
    }


def _is_searched(done: GroupRun) -> bool:
    stage = done.program.group.stage
    return stage is not None and stage.name == "search"


def _points(done: GroupRun) -> list[dict[str, Any]]:
    """The points of the learning curves; the last is enough for chains of which there are many."""
    group, curve = done.program.group, done.evaluation.tally.curve
    are_many = _is_searched(done) or len(group.members) < len(group.cells)
    return curve[-1:] if are_many else curve


def _is_optimizer(program: GroupProgram) -> bool:
    return program.group.method in OPTIMIZERS


def _last_iterates(program: GroupProgram, done: GroupRun) -> list[Prediction]:
    found = per_draw(program.model.logits, done.run.state.position, program.images)
    probabilities, entropies = (np.asarray(x, float) for x in found)
    return [Prediction(p, h, 1.0) for p, h in zip(probabilities, entropies, strict=True)]


def _together(found: list[Prediction]) -> Prediction | None:
    """The prediction of all draws, if there is one."""
    return pooled(found) if found else None


def _common(done: GroupRun, data: ImageSet, command: str) -> Record:
    program, tally, group = done.program, done.evaluation.tally, done.program.group
    here = environment()
    device = here.pop("device")
    measured = done.run.seconds
    return {
        "table": group.table,
        **_staged(group, data),
        "group": group.name(data),
        "task": group.task,
        "data": data.name,
        "images": [len(data.train_labels), len(data.test_labels)],
        "method": group.method,
        "judged_by": "last iterate" if _is_optimizer(program) else "average over draws",
        "config": group.config,
        "config_is": group.configured.about,
        "compute": group.compute,
        "epochs": group.epochs,
        "epochs_done": tally.epoch,
        "finished": done.finished,
        "burn_in_epochs": group.burn_in,
        "steps": tally.intervals * program.keep_every,
        "chains_in_program": program.num_chains,
        # Seconds of the program with all its chains, over all slices.
        "wall_seconds": measured + done.compile_seconds,
        "compile_seconds": done.compile_seconds,
        "evaluation_share": tally.evaluation_seconds / measured if measured else None,
        "draw_every_epochs": group.draw_every,
        "versions": here,
        "device": device,
        "command": command,
    }


def settings_of(sampler: Sampler, keep: Keep) -> dict[str, float | int]:
    """A sampler's numbers by name, and when its draws are kept.

    >>> import tacthmc
    >>> found = settings_of(tacthmc.sgnht(1e-3, noise=0.2), Keep(every=50))
    >>> found["step_size"], found["keep_every"], found["thermostat.inertia.steps"]
    (0.001, 50, 400.0)
    """
    asked = {"keep_every": keep.every, "relaxation_window": keep.relaxation_window}
    found: dict[str, float | int] = {n: v for n, v in asked.items() if v is not None}
    leaves = jax.tree_util.tree_flatten_with_path(eqx.filter(sampler, lambda x: not callable(x)))[0]
    for path, leaf in leaves:
        if isinstance(leaf, (int, float, np.number, jax.Array)) and jnp.ndim(leaf) == 0:
            name: str = jax.tree_util.keystr(path).replace("[", ".").replace("]", "").strip(".")
            found[name] = float(leaf) if not isinstance(leaf, int) else leaf
    return found


def _staged(group: Group, data: ImageSet) -> Record:
    """The fields that only Table B's records have."""
    stage = group.stage
    if stage is None:
        return {}
    return {
        "stage": stage.name,
        "rung": stage.rung or None,
        "judged_on": f"{'validation' if VALIDATION in data.name else 'test'} images",
        "chains": stage.chains,
        "total_epochs": stage.chains * group.epochs,
        "held_epochs": stage.held if group.method == "tact" else None,
    }


def _cell(program: GroupProgram, chain: int, num_data: int) -> Record:
    group = program.group
    cell = group.cells[chain]
    chosen = TASKS[group.task]
    return {
        "noise": cell.noise,
        "seed": cell.seed,
        "paper_accuracy": paper_accuracy(group.task, group.method, cell.noise),
        "settings": settings_of(program.samplers[chain], program.keep)
        | {
            "seven": list(chosen.hyperparameters),
            "batch_size": chosen.batch_size,
            "num_data": num_data,
            "decay_per_datum": DECAY,
            "label_noise": group.configured.label_kind,
            "given": dict(cell.settings),
        },
    }


def _scored(prediction: Prediction | None, labels: np.ndarray) -> Record:
    if prediction is None or not np.all(np.isfinite(prediction.probabilities)):
        return dict.fromkeys(SCORES)
    return dict(zip(SCORES, prediction.scores(labels), strict=True))


def _journey(done: GroupRun, members: list[int]) -> Record:
    """How the chains fared; numbers of ξ are None for methods without one."""
    tally, averages = done.evaluation.tally, done.evaluation.averages
    xi = _xi_journey(done, members) if done.program.group.method == "tact" else _NO_XI
    draws = sum(float(averages.draws[chain]) for chain in members)
    kinetic = None if _is_optimizer(done.program) else _mean(done, tally.kinetic, members)
    diverged = [tally.diverged[chain] for chain in members if tally.diverged[chain]]
    first = min(diverged, default=0)
    said = note(first, xi["round_trips"], draws)
    if first and len(members) > 1:
        said += f" in {len(diverged)} of {len(members)} chains"
    return {
        "draws": draws,
        **xi,
        "kinetic_temperature": kinetic,
        "diverged_at_step": first or None,
        "note": said,
    }


_NO_XI: Record = {"plateau_share": None, "round_trips": None, "hottest": None}


def _xi_journey(done: GroupRun, members: list[int]) -> Record:
    tally = done.evaluation.tally
    return {
        "plateau_share": _mean(done, tally.plateau, members),
        "round_trips": sum(tally.round_trips[chain] for chain in members),
        "hottest": max(tally.hottest[chain] for chain in members),
    }


def _mean(done: GroupRun, sums: list[float], members: list[int]) -> float:
    """The mean over intervals and chains, from sums over intervals."""
    return float(np.mean([sums[c] for c in members])) / max(done.evaluation.tally.intervals, 1)


def note(diverged: int, round_trips: int | None, draws: float) -> str:
    """What a reader has to know beside the number.

    >>> note(0, 0, 5.0), note(0, 3, 5.0), note(0, 0, 0.0), note(120, None, 5.0)
    ('no round trip: SGNHT', '', 'no draw at unit temperature', 'diverged at step 120')
    """
    if diverged:
        return f"diverged at step {diverged}"
    if not draws:
        return "no draw at unit temperature"
    return "no round trip: SGNHT" if round_trips == 0 else ""


def _curves(points: list[dict[str, Any]], members: list[int]) -> Record:
    """The learning curve of a chain, or the curves of several."""
    found = [_curve(points, chain) for chain in members]
    return {"curve": found[0]} if len(found) == 1 else {"curves": found}


def _curve(points: list[dict[str, Any]], chain: int) -> Record:
    names = ("accuracy", "log_loss", "draw_accuracy", "draw_log_loss")
    columns = {name: [point[name][chain] for point in points] for name in names}
    return {"epoch": [point["epoch"] for point in points], **columns}


def _reliability(prediction: Prediction | None, labels: np.ndarray) -> Record | None:
    if prediction is None or not np.all(np.isfinite(prediction.probabilities)):
        return None
    found = prediction.reliability(labels)
    names = ("edges", "confidence", "accuracy", "share")
    return {name: getattr(found, name) for name in names}
