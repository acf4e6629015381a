"""What §5.2 of the paper says of its three tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacthmc.paper.networks import cnn, lstm, mlp
from tacthmc.paper.networks.model import Model


@dataclass(frozen=True)
class Task:
    """A network, the data sets it is for, and the paper's settings."""

    network: Callable[..., Model]
    """Takes ``classes`` and ``compute``."""
    data: tuple[str, ...]
    """Names for :func:`tacthmc.paper.data.load`; the first is the paper's."""
    classes: int
    batch_size: int
    seven: tuple[float | int, ...]
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
        seven=(0.0015, 0.0015, 0.05, 0.05, 1.0, 1.0, 50),
    ),
    "rnn": Task(
        lstm,
        ("fashion_mnist",),
        classes=10,
        batch_size=64,
        seven=(0.0012, 0.0012, 0.15, 0.15, 1.0, 1.0, 50),
    ),
    "cnn": Task(
        cnn,
        ("cifar10",),
        classes=10,
        batch_size=64,
        seven=(0.0010, 0.0010, 0.10, 0.10, 1.0, 1.0, 50),
    ),
}
"""The tasks of Table 1."""
