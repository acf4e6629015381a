"""The settings of §5.2 of the paper for its three tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacthmc.paper.networks import cnn, lstm, mlp
from tacthmc.paper.networks.model import Model


@dataclass(frozen=True)
class Task:
    """A network, its data sets, and the paper's settings."""

    network: Callable[..., Model]
    """A function of ``classes`` and ``compute``."""
    data: tuple[str, ...]
    """Names for :func:`tacthmc.paper.data.load`. The first is that of the paper."""
    classes: int
    batch_size: int
    hyperparameters: tuple[float | int, ...]
    """[η_θ, η_ξ, c_θ, c_ξ, γ_θ, γ_ξ, K], per datum."""

    def model(self, **options: Any) -> Model:
        """The network."""
        return self.network(classes=self.classes, **options)


TASKS = {
    "mlp": Task(
        mlp,
        ("emnist_balanced", "emnist47"),
        classes=47,
        batch_size=128,
        hyperparameters=(0.0015, 0.0015, 0.05, 0.05, 1.0, 1.0, 50),
    ),
    "rnn": Task(
        lstm,
        ("fashion_mnist",),
        classes=10,
        batch_size=64,
        hyperparameters=(0.0012, 0.0012, 0.15, 0.15, 1.0, 1.0, 50),
    ),
    "cnn": Task(
        cnn,
        ("cifar10",),
        classes=10,
        batch_size=64,
        hyperparameters=(0.0010, 0.0010, 0.10, 0.10, 1.0, 1.0, 50),
    ),
}
"""The tasks of Table 1."""
