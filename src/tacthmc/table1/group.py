"""What is asked for: cells of the table, in groups that are chains of one program."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from tacthmc import checks
from tacthmc.data.image_set import ImageSet
from tacthmc.table1.configs import CONFIGS, Config
from tacthmc.table1.paper import NOISES
from tacthmc.tasks import METHODS, TASKS


class Cell(NamedTuple):
    """One chain."""

    noise: float
    seed: int
    settings: tuple[tuple[str, float], ...] = ()
    """Of the sampler, instead of the configuration's."""


@dataclass(frozen=True)
class Group:
    """All noise levels, seeds and settings of one method on one task.

    They are chains of one compiled program.
    """

    task: str
    method: str
    config: str
    noises: tuple[float, ...]
    seeds: tuple[int, ...]
    epochs: int
    compute: str = "float32"
    settings: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Values to try of the sampler's numbers, each with each."""
    draw_every: int = 1
    """Epochs from one draw that counts to the next."""

    @property
    def cells(self) -> list[Cell]:
        """Chain by chain."""
        names = sorted(self.settings)
        tried = [
            tuple(zip(names, values, strict=True))
            for values in product(*(self.settings[name] for name in names))
        ]
        return [Cell(*cell) for cell in product(self.noises, self.seeds, tried)]

    @property
    def configured(self) -> Config:
        """The configuration that goes by that name."""
        return CONFIGS[self.config]

    @property
    def burn_in(self) -> int:
        """Epochs whose draws do not count."""
        return min(int(self.configured.burn_in * self.epochs), self.epochs - 1)

    def identity(self, data: ImageSet) -> dict[str, Any]:
        """All that numbers depend on, but for versions and the device."""
        return {
            "task": self.task,
            "method": self.method,
            "config": self.config,
            "noises": list(self.noises),
            "seeds": list(self.seeds),
            "epochs": self.epochs,
            "compute": self.compute,
            "settings": {name: list(values) for name, values in sorted(self.settings.items())},
            "draw_every": self.draw_every,
            "data": data.name,
            "images": [len(data.train_labels), len(data.test_labels)],
        }

    def name(self, data: ImageSet) -> str:
        """A file name that differs where the identity does.

        >>> import numpy as np
        >>> images, labels = np.zeros((4, 28, 28), np.uint8), np.zeros(4, np.uint8)
        >>> data = ImageSet("blank", images, labels, images, labels, ("a",), "here")
        >>> Group("mlp", "tact", "paper", (0.0,), (0,), 5).name(data)[:-8]
        'mlp-tact-paper-'
        """
        text = json.dumps(self.identity(data), sort_keys=True)
        short = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.task}-{self.method}-{self.config}-{short}"


def groups(
    *,
    tasks: Sequence[str] = (),
    noises: Sequence[float | int] = NOISES,
    methods: Sequence[str] = (),
    config: str = "adapted",
    epochs: int | None = None,
    seeds: Sequence[int] = (0,),
    compute: str = "float32",
    settings: Mapping[str, Sequence[float | int]] | None = None,
    draw_every: int = 1,
) -> list[Group]:
    """The groups that the words of a command stand for; all tasks and methods if none is named.

    >>> found = groups(tasks=["cnn"], methods=["tact", "adam"], seeds=[0, 1, 2])
    >>> [(g.task, g.method, len(g.cells), g.epochs) for g in found]
    [('cnn', 'adam', 9, 1000), ('cnn', 'tact', 9, 1000)]
    """
    if config not in CONFIGS:
        raise ValueError(f"config must be one of {', '.join(CONFIGS)}; got {config!r}")
    for noise in noises:
        if not 0 <= noise <= 1:
            raise ValueError(f"noise is a share of the labels, 0 to 1; got {noise}")
    if settings and len(methods) != 1:
        raise ValueError("settings are those of one method: name it with --method")
    for name, found in (("noise", noises), ("seeds", seeds)):
        if not found or len(set(found)) < len(found):
            raise ValueError(f"{name} must be different numbers, at least one; got {list(found)}")
    checks.whole("draw_every", draw_every, 1)
    if epochs is not None:
        checks.whole("epochs", epochs, 1)
    chosen = CONFIGS[config]
    return [
        Group(
            task,
            method,
            config,
            tuple(float(noise) for noise in noises),
            tuple(seeds),
            epochs or (chosen.tact_epochs if method == "tact" else chosen.epochs),
            compute,
            {name: tuple(map(float, values)) for name, values in (settings or {}).items()},
            draw_every,
        )
        for task in TASKS
        if task in tasks or not tasks
        for method in METHODS
        if method in methods or not methods
    ]
