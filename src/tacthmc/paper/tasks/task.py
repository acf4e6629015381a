"""A task of the paper's as what :func:`tacthmc.sample` takes."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from tacthmc._checks import nearest
from tacthmc.dynamics._sampler import Sampler
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.data.shape import shaped
from tacthmc.paper.networks import categorical, gaussian_prior
from tacthmc.paper.networks.model import Model
from tacthmc.paper.tasks.table import TASKS, Task
from tacthmc.potentials._base import Potential
from tacthmc.potentials._label_noise import label_noise
from tacthmc.potentials._posterior import posterior
from tacthmc.samplers._optimizer import adam, momentum_sgd
from tacthmc.samplers._sghmc import sghmc
from tacthmc.samplers._sgnht import sgnht
from tacthmc.samplers._tact import tact_from_tuple

DECAY = 1e-3
"""The authors' loss is the mean cross-entropy + 1e-3·Σθ²: a prior of precision 2e-3·N."""

RATE = 1e-3
"""The authors' learning rate of both optimizers, on that loss."""


class Completion(NamedTuple):
    """What :func:`tacthmc.sample` takes, and what made it."""

    potential: Potential
    init: Callable[[Any], Any]
    """``init(key)`` gives parameters."""
    sampler: Sampler
    model: Model


def _tact(task: Task, num_data: int, variant: Any, settings: dict[str, Any]) -> Sampler:
    return tact_from_tuple(task.seven, num_data, variant, **settings)


def _sghmc(task: Task, num_data: int, variant: Any, settings: dict[str, Any]) -> Sampler:
    eta, _, friction, *_, keep_every = task.seven
    given = {"friction": friction, "keep_every": int(keep_every)} | settings
    return sghmc(given.pop("step_size", eta / num_data), **given)


def _sgnht(task: Task, num_data: int, variant: Any, settings: dict[str, Any]) -> Sampler:
    eta, _, noise, *_, keep_every = task.seven
    given = {"noise": noise, "keep_every": int(keep_every)} | settings
    return sgnht(given.pop("step_size", eta / num_data), **given)


def _adam(task: Task, num_data: int, variant: Any, settings: dict[str, Any]) -> Sampler:
    given = {"num_data": num_data, "keep_every": int(task.seven[-1])} | settings
    return adam(given.pop("learning_rate", RATE), **given)


def _momentum_sgd(task: Task, num_data: int, variant: Any, settings: dict[str, Any]) -> Sampler:
    given = {"num_data": num_data, "momentum": 0.9, "keep_every": int(task.seven[-1])} | settings
    return momentum_sgd(given.pop("learning_rate", RATE), **given)


METHODS: dict[str, Callable[[Task, int, Any, dict[str, Any]], Sampler]] = {
    "adam": _adam,
    "momentum_sgd": _momentum_sgd,
    "sghmc": _sghmc,
    "sgnht": _sgnht,
    "tact": _tact,
}
"""The rows of Table 1."""


def task(
    name: str,
    method: str,
    data: ImageSet,
    *,
    variant: Literal["algorithm1", "splitting", "authors"] = "splitting",
    label_share: float | int | Sequence[float | int] = 0.0,
    label_kind: Literal["permutation", "random per batch"] = "permutation",
    batches: Literal["replacement", "epochs"] = "epochs",
    compute: str = "float32",
    **settings: Any,
) -> Completion:
    """A cell of the paper's Table 1, ready to run.

    Prior, batch size and 7-tuple are the paper's and its authors' (per datum, see
    :func:`tacthmc.samplers.tact_from_tuple`). The paper tunes its baselines and does not say to what: here
    SGHMC and SGNHT have the η_θ, c_θ and K of the 7-tuple, and the optimizers the rates of the
    authors' code (1e-3, momentum 0.9). All of these are first settings, not tuned ones.

    Args:
        name: "mlp" (784-100-47), "rnn" (LSTM) or "cnn".
        method: "adam", "momentum_sgd", "sghmc", "sgnht" or "tact".
        data: from :func:`tacthmc.paper.data.load`, as it is or normalized. With "emnist47" for the
            paper's EMNIST Balanced the result is one on emnist47.
        variant: of TACT-HMC. "splitting", the same numbers with this library's integrator, bias
            and thermostat; "algorithm1" and "authors" as they are, which on a network may diverge.
        label_share: which share of the labels is wrong (the paper: 0, 0.2, 0.3); a list has one
            for each chain.
        label_kind: how, see :func:`tacthmc.potentials.label_noise`; the paper's by default.
        batches: "epochs" as in the paper, or "replacement" as the theory has it.
        compute: the precision of products.
        settings: of the sampler, instead of these.

    >>> import jax, numpy as np
    >>> from tacthmc.paper.data import ImageSet
    >>> images, labels = np.zeros((256, 28, 28), np.uint8), np.zeros(256, np.uint8)
    >>> blank = ImageSet("blank", images, labels, images, labels, ("x",) * 47, "made here")
    >>> ready = task("mlp", "sgnht", blank, label_share=0.2)
    >>> ready.sampler.step_size == 0.0015 / 256, ready.model.num_parameters
    (True, 83247)
    """
    for argument, value, known in (("name", name, TASKS), ("method", method, METHODS)):
        if value not in known:
            near = nearest(str(value), known)
            hint = f" ({near}?)" if near else ""
            raise ValueError(f"{argument} must be one of {', '.join(known)}; got {value!r}{hint}")
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
        # A class that some small part of the data lacks is still one to be wrong about.
        classes = None if label_kind == "permutation" else chosen.classes
        potential = label_noise(potential, label_share, label_kind, classes=classes)
    sampler = METHODS[method](chosen, num_data, variant, dict(settings))
    return Completion(potential, model.init, sampler, model)
