"""A group's cells as records: every number with all that it depends on."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.data.image_set import ImageSet
from tacthmc.family import Langevin
from tacthmc.predict.prediction import Prediction
from tacthmc.samplers.base import Sampler
from tacthmc.studies.study import environment, rounded
from tacthmc.table1.averages import predicted
from tacthmc.table1.configs import OPTIMISERS
from tacthmc.table1.group import Cell
from tacthmc.table1.paper import accuracy as paper_accuracy
from tacthmc.table1.program import Program
from tacthmc.table1.running import Running
from tacthmc.tasks import TASKS
from tacthmc.tasks.task import DECAY

Record = dict[str, Any]

SCORES = ("accuracy", "log_loss", "brier", "ece")


def records(running: Running, data: ImageSet, command: str) -> list[Record]:
    """One for each cell, finished or not."""
    program, tally = running.program, running.tally
    last = _last_iterates(program, running.chains) if _is_optimiser(program) else {}
    common = _common(running, data, command)
    found = []
    for chain, cell in enumerate(program.group.cells):
        average = running.averages.prediction(chain)
        judged = last.get(chain) if _is_optimiser(program) else average
        if tally.diverged[chain]:
            judged = average = None
        found.append(
            rounded(
                common
                | _cell(program, chain, cell, data.num_train)
                | _scored(judged, program.host_labels)
                | {"average": _scored(average, program.host_labels)}
                | _journey(running, chain)
                | {
                    "curve": _curve(tally.curve, chain),
                    "reliability": _reliability(judged, program.host_labels),
                }
            )
        )
    return found


def _is_optimiser(program: Program) -> bool:
    return program.group.method in OPTIMISERS


def _last_iterates(program: Program, chains: Any) -> dict[int, Prediction]:
    found = predicted(program.model.logits, chains.state.position, program.images)
    probabilities, entropies = (np.asarray(x, float) for x in found)
    each = enumerate(zip(probabilities, entropies, strict=True))
    return {chain: Prediction(p, h, 1.0) for chain, (p, h) in each}


def _common(running: Running, data: ImageSet, command: str) -> Record:
    program, tally, group = running.program, running.tally, running.program.group
    here = environment()
    device = here.pop("device")
    measured = tally.sampling_seconds + tally.evaluation_seconds
    return {
        "table": "table1",
        "group": group.name(data),
        "task": group.task,
        "data": data.name,
        "images": [len(data.train_labels), len(data.test_labels)],
        "method": group.method,
        "judged_by": "last iterate" if _is_optimiser(program) else "average over draws",
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


def _cell(program: Program, chain: int, cell: Cell, num_data: int) -> Record:
    group = program.group
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


def _journey(running: Running, chain: int) -> Record:
    """How a chain fared; what is ξ's alone is None for those without one."""
    tally, intervals = running.tally, max(running.tally.intervals, 1)
    tempered = running.program.group.method == "tact"
    return {
        "draws": float(running.averages.draws[chain]),
        "plateau_share": tally.plateau[chain] / intervals if tempered else None,
        "round_trips": tally.round_trips[chain] if tempered else None,
        "hottest": tally.hottest[chain] if tempered else None,
        "kinetic_temperature": None
        if _is_optimiser(running.program)
        else tally.kinetic[chain] / intervals,
        "diverged_at_step": tally.diverged[chain] or None,
        "note": note(
            tally.diverged[chain],
            tally.round_trips[chain] if tempered else None,
            float(running.averages.draws[chain]),
        ),
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
