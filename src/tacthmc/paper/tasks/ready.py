"""A task of the paper as the arguments of :func:`tacthmc.sample`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from tacthmc.dynamics import Sampler, ScalarThermostat
from tacthmc.paper import checks
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.data.shape import shaped
from tacthmc.paper.networks import categorical, gaussian_prior
from tacthmc.paper.networks.model import Model
from tacthmc.paper.tasks.table import TASKS, Task
from tacthmc.potentials import Potential, label_noise, posterior
from tacthmc.run import Keep
from tacthmc.samplers import adam, momentum_sgd, sghmc, sgnht, tact, tact_from_tuple

DECAY = 1e-3
"""The authors' loss is the mean cross-entropy + 1e-3·Σθ², so the prior has precision 2e-3·N."""

RATE = 1e-3
"""The authors' learning rate of both optimizers on that loss."""

Variant: TypeAlias = Literal["algorithm1", "splitting", "authors"]


class TaskSetup(NamedTuple):
    """The arguments of :func:`tacthmc.sample` for a task, and its network."""

    potential: Potential
    init: Callable[[Any], Any]
    """``init(key)`` gives parameters."""
    sampler: Sampler
    keep: Keep
    model: Model


def _tact(task: Task, num_data: int, variant: Variant, settings: Mapping[str, Any]) -> Sampler:
    paper = tact_from_tuple(task.hyperparameters, num_data, variant)
    given = {
        "noise": paper.injected,
        "tempering": paper.tempering,
        "thermostat": paper.thermostat,
        "integrator": paper.integrator,
        "refresh": paper.refresh,
        **settings,
    }
    return tact(given.pop("step_size", paper.step_size), **given)


def _sghmc(task: Task, num_data: int, variant: Variant, settings: Mapping[str, Any]) -> Sampler:
    eta, _, friction, *_ = task.hyperparameters
    given = {"friction": friction, **settings}
    return sghmc(given.pop("step_size", eta / num_data), **given)


def _sgnht(task: Task, num_data: int, variant: Variant, settings: Mapping[str, Any]) -> Sampler:
    eta, _, noise, *_ = task.hyperparameters
    given = {"noise": noise, "thermostat": ScalarThermostat(), **settings}
    return sgnht(given.pop("step_size", eta / num_data), **given)


def _adam(task: Task, num_data: int, variant: Variant, settings: Mapping[str, Any]) -> Sampler:
    return adam(**{"learning_rate": RATE, "num_data": num_data, **settings})


def _momentum_sgd(
    task: Task, num_data: int, variant: Variant, settings: Mapping[str, Any]
) -> Sampler:
    return momentum_sgd(
        **{"learning_rate": RATE, "momentum": 0.9, "num_data": num_data, **settings}
    )


METHODS: dict[str, Callable[[Task, int, Variant, Mapping[str, Any]], Sampler]] = {
    "adam": _adam,
    "momentum_sgd": _momentum_sgd,
    "sghmc": _sghmc,
    "sgnht": _sgnht,
    "tact": _tact,
}
"""The rows of Table 1. Each makes a sampler from a task, N, the variant of TACT-HMC, and arguments
of the sampler that replace the paper's numbers."""


def task(
    name: str,
    method: str,
    data: ImageSet,
    *,
    variant: Variant = "splitting",
    label_share: float | int | Sequence[float | int] = 0.0,
    label_kind: Literal["permutation", "random per batch"] = "permutation",
    batches: Literal["replacement", "epochs"] = "epochs",
    compute: str = "float32",
    settings: Mapping[str, Any] | None = None,
) -> TaskSetup:
    """The setup of a cell of the paper's Table 1.

    Prior, batch size and 7-tuple are those of the paper and of the authors' code (per datum, see
    :func:`tacthmc.samplers.tact_from_tuple`). The paper tunes its baselines without giving their
    settings. Here SGHMC and SGNHT have η_θ, c_θ and K of the 7-tuple, and the optimizers have the
    rates of the authors' code (1e-3, momentum 0.9). None of these settings are tuned.

    Args:
        name: "mlp" (784-100-47), "rnn" (LSTM) or "cnn".
        method: "adam", "momentum_sgd", "sghmc", "sgnht" or "tact".
        data: data from :func:`tacthmc.paper.data.load`, normalized or not. A run on "emnist47" is
            not a run on the paper's EMNIST Balanced.
        variant: the variant of TACT-HMC. "splitting" has the integrator, bias and thermostat of
            this library. "algorithm1" and "authors" may diverge on a network.
        label_share: the share of wrong labels (in the paper 0, 0.2 and 0.3). A list has one for
            each chain.
        label_kind: how labels are wrong, see :func:`tacthmc.potentials.label_noise`. The default is
            that of the paper.
        batches: "epochs" as in the paper, or "replacement" as in the theory.
        compute: the precision of products.
        settings: arguments of the sampler that replace the paper's numbers.

    >>> import jax, numpy as np
    >>> from tacthmc.paper.data import ImageSet
    >>> images, labels = np.zeros((256, 28, 28), np.uint8), np.zeros(256, np.uint8)
    >>> blank = ImageSet("blank", images, labels, images, labels, ("x",) * 47, "made here")
    >>> ready = task("mlp", "sgnht", blank, label_share=0.2)
    >>> ready.sampler.step_size == 0.0015 / 256, ready.keep.every, ready.model.num_parameters
    (True, 50, 83247)
    """
    checks.one_of("name", name, TASKS)
    checks.one_of("method", method, METHODS)
    chosen = TASKS[name]
    model = chosen.model(compute=compute)
    fitting, num_data = shaped(data, model), data.num_train
    potential: Potential = posterior(
        gaussian_prior(precision=2 * DECAY * num_data),
        categorical(model),
        fitting.train,
        chosen.batch_size,
        batches=batches,
        batched=True,
    )
    if label_share:
        # Random labels come from all classes, even if a small data set lacks some of them.
        classes = None if label_kind == "permutation" else chosen.classes
        potential = label_noise(potential, label_share, label_kind, classes=classes)
    sampler = METHODS[method](chosen, num_data, variant, settings or {})
    keep = Keep(every=int(chosen.hyperparameters[-1]))
    return TaskSetup(potential, model.init, sampler, keep, model)
