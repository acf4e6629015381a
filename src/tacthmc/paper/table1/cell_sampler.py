"""A cell's sampler, and which of its draws are kept."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx

from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    Euler,
    Sampler,
    ScalarThermostat,
    ScheduledTempering,
    ShapedCoupling,
    TensorThermostat,
)
from tacthmc.paper import checks
from tacthmc.paper.table1.configs import OPTIMIZERS, Config
from tacthmc.paper.tasks import METHODS
from tacthmc.paper.tasks.table import Task
from tacthmc.run import Keep
from tacthmc.samplers import tact_from_tuple

HOTTEST, SWEEP_EPOCHS = 3.0, 20.0
"""TACT-HMC's hottest temperature and length of a sweep in the configuration "tuned", where settings
do not say otherwise."""

MIN_WINDOW_STEPS, MIN_SWEEP_STEPS = 16, 64
"""A test for relaxation compares half epochs; those of a few images are too short for it."""

SETTINGS = {
    "adam": ("learning_rate",),
    "momentum_sgd": ("learning_rate", "momentum"),
    "sghmc": ("learning_rate", "friction"),
    "sgnht": ("learning_rate", "noise", "inertia"),
    "tact": ("learning_rate", "noise", "inertia"),
}
"""The settings that a method takes, beside ``keep_every``."""

XI_SETTINGS, SCHEDULE_SETTINGS = ("xi_learning_rate", "xi_noise"), ("hottest", "sweep_epochs")
"""TACT-HMC's settings of a ξ that moves by itself, and of one on a schedule."""


class CellSampler(NamedTuple):
    """A sampler, and what is kept of its chain."""

    sampler: Sampler
    keep: Keep


def cell_sampler(
    config: Config,
    task: Task,
    method: str,
    num_data: int,
    given: Mapping[str, float],
    held: int = 0,
) -> CellSampler:
    """The sampler of a configuration, with some of its numbers given.

    Args:
        config: the configuration.
        task: has the paper's 7-tuple and batch size.
        method: one of :data:`tacthmc.paper.tasks.METHODS`.
        num_data: N.
        given: settings by name. A sampler's ``learning_rate`` and ``xi_learning_rate`` are step
            sizes per datum, η·N; ``inertia`` is the thermostat's Γ. In the configuration "tuned"
            ``hottest`` is the temperature at ξ's walls and ``sweep_epochs`` the length of a sweep,
            half of which is rest.
        held: steps before the first sweep.

    >>> from tacthmc.paper.table1.configs import CONFIGS
    >>> from tacthmc.paper.tasks import TASKS
    >>> made = cell_sampler(CONFIGS["adapted"], TASKS["cnn"], "sgnht", 50_000, {"noise": 0.2})
    >>> made.sampler.thermostat.inertia.steps, made.sampler.injected, made.keep.every
    (100.0, 0.2, 50)
    """
    _check(config, method, given)
    numbers = dict(given)
    every = int(numbers.pop("keep_every", _default_every(task, num_data)))
    if method in OPTIMIZERS:
        arguments: dict[str, Any] = numbers
    else:
        arguments = _sampler_arguments(config, task, method, num_data, numbers)
    if method == "tact":
        arguments |= _tempering(config, task, num_data, numbers, every, held)
    sampler = METHODS[method](task, num_data, config.variant, arguments)
    window = _relaxation_window(task, num_data) if _is_scheduled(config, method) else None
    return CellSampler(sampler, Keep(every, after=0, relaxation_window=window, forget=True))


def _check(config: Config, method: str, given: Mapping[str, float]) -> None:
    known = [*SETTINGS[method], "keep_every"]
    if method == "tact":
        known += SCHEDULE_SETTINGS if config.scheduled else XI_SETTINGS
    for name, value in given.items():
        checks.one_of(f"a setting of {method}", name, known)
        checks.non_negative(name, value)


def _is_scheduled(config: Config, method: str) -> bool:
    return method == "tact" and config.scheduled


def _steps_per_epoch(task: Task, num_data: int) -> int:
    """Whole batches in an epoch."""
    return num_data // task.batch_size


def _default_every(task: Task, num_data: int) -> int:
    """K; less where an epoch of few images is shorter than that."""
    return max(1, min(int(task.hyperparameters[6]), _steps_per_epoch(task, num_data)))


def _relaxation_window(task: Task, num_data: int) -> int | None:
    """Half an epoch, if that is long enough to tell whether the energy still falls."""
    window = _steps_per_epoch(task, num_data) // 2
    return window if window >= MIN_WINDOW_STEPS else None


def _sampler_arguments(
    config: Config, task: Task, method: str, num_data: int, numbers: Mapping[str, float]
) -> dict[str, Any]:
    """θ's part of the arguments of ``sghmc``, ``sgnht`` or ``tact``."""
    made: dict[str, Any] = {n: numbers[n] for n in ("noise", "friction") if n in numbers}
    if "learning_rate" in numbers:
        made["step_size"] = numbers["learning_rate"] / num_data
    if method in ("sghmc", "sgnht") and config.euler:
        made["integrator"] = Euler()
    inertia = numbers.get("inertia", config.relative_inertia)
    if method == "sgnht" or (method == "tact" and inertia is not None):
        made["thermostat"] = _thermostat(config, float(task.hyperparameters[4]), inertia)
    return made


def _thermostat(
    config: Config, gamma: float, inertia: float | None
) -> ScalarThermostat | TensorThermostat:
    if inertia is not None:
        return ScalarThermostat(steps=inertia)
    return TensorThermostat(gamma=gamma) if config.per_tensor else ScalarThermostat(gamma=gamma)


def _tempering(
    config: Config,
    task: Task,
    num_data: int,
    numbers: Mapping[str, float],
    every: int,
    held: int,
) -> dict[str, Any]:
    """ξ's part of the arguments of ``tact``, and when momenta are redrawn."""
    paper = tact_from_tuple((*task.hyperparameters[:6], every), num_data, config.variant)
    if config.scheduled:
        sweep = numbers.get("sweep_epochs", SWEEP_EPOCHS) * _steps_per_epoch(task, num_data)
        schedule = ScheduledTempering(
            max(round(sweep), MIN_SWEEP_STEPS),
            start=held,
            coupling=ShapedCoupling([1.0, numbers.get("hottest", HOTTEST)], [1.0, 1.0]),
            bias=AdaptiveBiasingForce(),
        )
        return {"tempering": schedule, "refresh": paper.refresh}
    xi: Any = paper.tempering
    if config.relative_inertia is not None:
        own = ScalarThermostat(steps=config.relative_inertia)
        xi = eqx.tree_at(lambda t: t.thermostat, xi, own)
    if "xi_learning_rate" in numbers:
        xi = eqx.tree_at(lambda t: t.step_size, xi, numbers["xi_learning_rate"] / num_data)
    if "xi_noise" in numbers:
        xi = eqx.tree_at(lambda t: t.noise, xi, numbers["xi_noise"])
    return {"tempering": xi, "refresh": paper.refresh}
