"""Named configurations: all choices that the paper leaves open or its authors' code makes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tacthmc import _checks as checks
from tacthmc.dynamics._bias import AdaptiveBiasingForce
from tacthmc.dynamics._langevin import Euler
from tacthmc.dynamics._relaxation import Relaxed
from tacthmc.dynamics._schedule import Sweep
from tacthmc.dynamics._shaped_coupling import ShapedCoupling
from tacthmc.dynamics._thermostat import ScalarThermostat, TensorThermostat
from tacthmc.paper.table1.paper import EPOCHS
from tacthmc.paper.tasks.table import Task

BASELINES = (
    "The paper tunes its baselines and does not say to what. Here SGHMC and SGNHT have TACT-HMC's"
    " η_θ, c_θ (and γ_θ) and K, Adam and momentum SGD the rate of the authors' code, 1e-3 (momentum"
    " 0.9), unless settings say otherwise."
)

OPTIMISERS = ("adam", "momentum_sgd")
"""Judged by their last iterate, as in the paper; all others by the average over draws."""


@dataclass(frozen=True)
class Config:
    """What one word on the command line stands for."""

    about: str
    variant: Literal["algorithm1", "splitting", "authors"]
    """Of TACT-HMC, see :func:`tacthmc.samplers.tact_from_tuple`."""
    euler: bool
    """Whether SGHMC and SGNHT take Algorithm 1's steps instead of the splitting's."""
    relative_inertia: float | None = None
    """Γ of all thermostats, in steps; None for the 7-tuple's γ."""
    per_tensor: bool = False
    """Whether SGNHT has a thermostat for each tensor."""
    label_kind: Literal["permutation", "random per batch"] = "permutation"
    pixels: Literal["plain", "train", "authors"] = "plain"
    """0 to 1 as they are, or normalized as in :func:`tacthmc.paper.data.normalized`."""
    epochs: int = EPOCHS
    tact_epochs: int = EPOCHS
    burn_in: float = 0.3
    """The share of epochs whose draws do not count."""
    earned: bool = False
    """Whether TACT-HMC tempers the likelihood alone, and its ξ is led: held for the burn-in, then
    swept on an even slope of λ; else all is the variant's."""


CONFIGS: dict[str, Config] = {
    "paper": Config(
        "the paper's 7-tuples (per datum), Algorithm 1 to the letter: Euler, γ = 1, the bias"
        " averaged with the global 1/k, momenta redrawn every K steps on the plateau",
        variant="algorithm1",
        euler=True,
    ),
    "splitting": Config(
        "the paper's 7-tuples (per datum) with this library's integrator and bias, γ = 1",
        variant="splitting",
        euler=False,
    ),
    "adapted": Config(
        "the paper's 7-tuples (per datum) with this library's integrator and bias, and thermostats"
        " whose inertia is relative, Γ = 100 steps: at η/N ~ 1e-8 one with γ = 1 hardly moves in a"
        " million steps",
        variant="splitting",
        euler=False,
        relative_inertia=100.0,
    ),
    "authors": Config(
        "the choices of the authors' code: its coupling, metadynamics, η_ξ = η_θ/100, a"
        " thermostat per tensor, labels randomised per batch, pixels normalized as MNIST's,"
        " 2,000 epochs for TACT-HMC",
        variant="authors",
        euler=True,
        per_tensor=True,
        label_kind="random per batch",
        pixels="authors",
        tact_epochs=2 * EPOCHS,
    ),
    "tuned": Config(
        "this library's integrator and bias with thermostats of relative inertia, pixels normalized"
        " by the training images' mean and standard deviation; TACT-HMC tempers the likelihood, its"
        " ξ is held at 0 for the burn-in and swept from then on, λ falls evenly along it, and"
        " nothing is kept after a sweep until the energy has stopped falling",
        variant="splitting",
        euler=False,
        relative_inertia=100.0,
        pixels="train",
        earned=True,
    ),
}

HOTTEST, SWEEP_EPOCHS = 3.0, 20.0
"""Of TACT-HMC in the configuration "tuned", where settings do not say otherwise."""
SHORTEST_WINDOW, SHORTEST_SWEEP = 16, 64
"""Steps. A test for relaxation compares half epochs; those of a few images are too short for it."""


def sampler_settings(
    config: Config,
    task: Task,
    method: str,
    num_data: int,
    given: Mapping[str, float],
    held: int = 0,
) -> dict[str, Any]:
    """What :func:`tacthmc.paper.tasks.task` is given beside the paper's numbers.

    ``given`` are settings of the sampler by name; of samplers ``learning_rate`` and
    ``xi_learning_rate`` are the step sizes per datum, η·N. ``inertia`` is the thermostat's Γ.
    In the configuration "tuned" ``hottest`` is the temperature at ξ's walls, ``sweep_epochs`` the
    length of a sweep, half of which is rest, and ``held`` the number of steps before the first.

    >>> from tacthmc.paper.tasks import TASKS
    >>> found = sampler_settings(CONFIGS["adapted"], TASKS["cnn"], "sgnht", 50_000, {"noise": 0.2})
    >>> found["thermostat"].inertia, found["noise"], found["keep_every"]
    (Inertia(gamma=None, steps=100.0), 0.2, 50)
    """
    given = dict(given)
    made: dict[str, Any] = {"keep_every": _keep_every(task, num_data)}
    inertia = given.pop("inertia", config.relative_inertia)
    if method in ("sghmc", "sgnht") and config.euler:
        made["integrator"] = Euler()
    if method == "sgnht" or (method == "tact" and inertia is not None):
        made["thermostat"] = _thermostat(config, float(task.seven[4]), inertia)
    if method == "tact" and config.relative_inertia is not None:
        made["xi_thermostat"] = ScalarThermostat(steps=config.relative_inertia)
    if method == "tact" and config.earned:
        epoch = num_data // task.batch_size
        period = round(given.pop("sweep_epochs", SWEEP_EPOCHS) * epoch)
        made |= {
            "coupling": ShapedCoupling([1.0, given.pop("hottest", HOTTEST)], [1.0, 1.0]),
            "bias": AdaptiveBiasingForce(),
            "sweep": Sweep(max(period, SHORTEST_SWEEP), start=held),
        }
        if epoch // 2 >= SHORTEST_WINDOW:
            made["relaxed"] = Relaxed(window=epoch // 2)
    return made | _in_full_data_units(method, num_data, given)


def _keep_every(task: Task, num_data: int) -> int:
    """K; less where an epoch of few images is shorter than that."""
    return max(1, min(int(task.seven[6]), num_data // task.batch_size))


def _thermostat(
    config: Config, gamma: float, inertia: float | None
) -> ScalarThermostat | TensorThermostat:
    if inertia is not None:
        return ScalarThermostat(steps=inertia)
    return TensorThermostat(gamma=gamma) if config.per_tensor else ScalarThermostat(gamma=gamma)


def _in_full_data_units(method: str, num_data: int, given: Mapping[str, float]) -> dict[str, Any]:
    made: dict[str, Any] = dict(given)
    for name in given:
        checks.non_negative(name, given[name])
    if "keep_every" in made:
        made["keep_every"] = int(made["keep_every"])
    if method not in OPTIMISERS:
        for rate, size in (("learning_rate", "step_size"), ("xi_learning_rate", "xi_step_size")):
            if rate in made:
                made[size] = made.pop(rate) / num_data
    return made
