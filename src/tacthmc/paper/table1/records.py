"""A group's cells as records: every number with all that it depends on."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.dynamics._langevin import Langevin
from tacthmc.dynamics._sampler import Sampler
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.data.validation import VALIDATION
from tacthmc.paper.figures.study import environment, rounded
from tacthmc.paper.table1.averages import predicted
from tacthmc.paper.table1.configs import OPTIMISERS
from tacthmc.paper.table1.group import Group
from tacthmc.paper.table1.paper import accuracy as paper_accuracy
from tacthmc.paper.table1.program import Program
from tacthmc.paper.table1.running import Running
from tacthmc.paper.tasks import TASKS
from tacthmc.paper.tasks.task import DECAY
from tacthmc.predict._prediction import Prediction, pooled

Record = dict[str, Any]

SCORES = ("accuracy", "log_loss", "brier", "ece")


def records(running: Running, data: ImageSet, command: str) -> list[Record]:
    """One for each cell, finished or not; one for all chains whose predictions are averaged."""
    program, tally = running.program, running.tally
    labels = program.host_labels
    last = _last_iterates(program, running.chains) if _is_optimizer(program) else []
    common = _common(running, data, command)
    # Of hundreds of searched chains, and of several that are judged together, the end is enough.
    stage = program.group.stage
    searched = stage is not None and stage.name == "search"
    short = searched or len(program.group.members) < len(program.group.cells)
    points = tally.curve[-1:] if short else tally.curve
    found = []
    for members in program.group.members:
        sound = [chain for chain in members if not tally.diverged[chain]]
        averages = [running.averages.prediction(chain) for chain in sound]
        average = _together([one for one in averages if one is not None])
        judged = _together([last[c] for c in sound]) if _is_optimizer(program) else average
        found.append(
            rounded(
                common
                | _cell(program, members[0], data.num_train)
                | _scored(judged, labels)
                | {"average": _scored(average, labels)}
                | _journey(running, members)
                | _curves(points, members)
                | {"reliability": None if searched else _reliability(judged, labels)}
            )
        )
    return found


def _is_optimizer(program: Program) -> bool:
    return program.group.method in OPTIMISERS


def _last_iterates(program: Program, chains: Any) -> list[Prediction]:
    found = predicted(program.model.logits, chains.state.position, program.images)
    probabilities, entropies = (np.asarray(x, float) for x in found)
    return [Prediction(p, h, 1.0) for p, h in zip(probabilities, entropies, strict=True)]


def _together(found: list[Prediction]) -> Prediction | None:
    """Of all draws that there are."""
    return pooled(found) if found else None


def _common(running: Running, data: ImageSet, command: str) -> Record:
    program, tally, group = running.program, running.tally, running.program.group
    here = environment()
    device = here.pop("device")
    measured = tally.sampling_seconds + tally.evaluation_seconds
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
        "finished": running.finished,
        "burn_in_epochs": group.burn_in,
        "steps": tally.intervals * program.keep_every,
        "chains_in_program": program.chains,
        # Of the program with all its chains, over all slices.
        "wall_seconds": measured + tally.compile_seconds,
        "compile_seconds": tally.compile_seconds,
        "evaluation_share": tally.evaluation_seconds / measured if measured else None,
        "draw_every_epochs": group.draw_every,
        "versions": here,
        "device": device,
        "command": command,
    }


def settings_of(sampler: Sampler) -> dict[str, float | int]:
    """A sampler's numbers by name.

    >>> import tacthmc
    >>> found = settings_of(tacthmc.sgnht(1e-3, noise=0.2))
    >>> found["step_size"], found["keep_every"], found["thermostat.inertia.steps"]
    (0.001, 50, 100.0)
    """
    found: dict[str, float | int] = {"keep_every": sampler.keep_every}
    leaves = jax.tree_util.tree_flatten_with_path(eqx.filter(sampler, lambda x: not callable(x)))[0]
    for path, leaf in leaves:
        if isinstance(leaf, (int, float, np.number, jax.Array)) and jnp.ndim(leaf) == 0:
            name: str = jax.tree_util.keystr(path).replace("[", ".").replace("]", "").strip(".")
            found[name] = float(leaf) if not isinstance(leaf, int) else leaf
    # Without tempering the numbers of ξ are there, and do nothing.
    still = isinstance(sampler, Langevin) and sampler.coupling is None
    idle = ("xi_", "keep_within") if still else ()
    return {name: value for name, value in found.items() if not name.startswith(idle or ("?",))}


def _staged(group: Group, data: ImageSet) -> Record:
    """What Table B's records have beside the others'."""
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


def _cell(program: Program, chain: int, num_data: int) -> Record:
    group = program.group
    cell = group.cells[chain]
    chosen = TASKS[group.task]
    return {
        "noise": cell.noise,
        "seed": cell.seed,
        "paper_accuracy": paper_accuracy(group.task, group.method, cell.noise),
        "settings": settings_of(program.samplers[chain])
        | {
            "seven": list(chosen.seven),
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


def _journey(running: Running, members: list[int]) -> Record:
    """How chains fared; what is ξ's alone is None for those without one."""
    tally, intervals = running.tally, max(running.tally.intervals, 1)
    tempered = running.program.group.method == "tact"

    def mean(values: list[float]) -> float:
        return float(np.mean([values[chain] for chain in members])) / intervals

    draws = sum(float(running.averages.draws[chain]) for chain in members)
    trips = sum(tally.round_trips[chain] for chain in members) if tempered else None
    diverged = [tally.diverged[chain] for chain in members if tally.diverged[chain]]
    first = min(diverged, default=0)
    return {
        "draws": draws,
        "plateau_share": mean(tally.plateau) if tempered else None,
        "round_trips": trips,
        "hottest": max(tally.hottest[chain] for chain in members) if tempered else None,
        "kinetic_temperature": None if _is_optimizer(running.program) else mean(tally.kinetic),
        "diverged_at_step": first or None,
        "note": note(first, trips, draws)
        + (f" in {len(diverged)} of {len(members)} chains" if first and len(members) > 1 else ""),
    }


def note(diverged: int, round_trips: int | None, draws: float) -> str:
    """What has to stand beside the number.

    >>> note(0, 0, 5.0), note(0, 3, 5.0), note(0, 0, 0.0), note(120, None, 5.0)
    ('no round trip: SGNHT', '', 'no draw at unit temperature', 'diverged at step 120')
    """
    if diverged:
        return f"diverged at step {diverged}"
    if not draws:
        return "no draw at unit temperature"
    return "no round trip: SGNHT" if round_trips == 0 else ""


def _curves(points: list[dict[str, Any]], members: list[int]) -> Record:
    """The curve of a chain, or those of many."""
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
