"""What is asked for: cells of the table, in groups that are chains of one program."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from tacthmc import _checks as checks
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.table1.configs import CONFIGS, Config
from tacthmc.paper.table1.paper import NOISES
from tacthmc.paper.tasks import METHODS, TASKS


class Cell(NamedTuple):
    """One chain."""

    noise: float
    seed: int
    settings: tuple[tuple[str, float], ...] = ()
    """Of the sampler, instead of the configuration's."""
    chain: int = 0
    """Of several with the same seed, whose predictions are averaged."""


@dataclass(frozen=True)
class Stage:
    """A part of Table B: cells that are no product, and chains that go on from other ones."""

    name: str
    """"search" or "final"."""
    cells: tuple[Cell, ...]
    burn_in: int
    """Epochs whose draws do not count."""
    held: int
    """Epochs for which ξ does not move."""
    rung: int = 0
    """Of a search, the first being 1."""
    former: "Group | None" = None
    """Whose chains these were."""
    chains: int = 1
    """With the same seed, whose predictions are averaged."""


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
    stage: Stage | None = None
    """Of Table B; its cells are those, and not each noise level with each seed and setting."""

    @property
    def cells(self) -> list[Cell]:
        """Chain by chain."""
        if self.stage is not None:
            return list(self.stage.cells)
        names = sorted(self.settings)
        tried = [
            tuple(zip(names, values, strict=True))
            for values in product(*(self.settings[name] for name in names))
        ]
        return [Cell(*cell) for cell in product(self.noises, self.seeds, tried)]

    @property
    def members(self) -> list[list[int]]:
        """The chains, by number, whose predictions are averaged: those that differ in nothing else.

        >>> cells = (Cell(0.0, 0), Cell(0.0, 1), Cell(0.0, 0, chain=1), Cell(0.0, 1, chain=1))
        >>> stage = Stage("final", cells, burn_in=1, held=1, chains=2)
        >>> Group("mlp", "sgnht", "tuned", (0.0,), (0, 1), 5, stage=stage).members
        [[0, 2], [1, 3]]
        """
        found: dict[Cell, list[int]] = {}
        for number, cell in enumerate(self.cells):
            found.setdefault(cell._replace(chain=0), []).append(number)
        return list(found.values())

    @property
    def configured(self) -> Config:
        """The configuration that goes by that name."""
        return CONFIGS[self.config]

    @property
    def burn_in(self) -> int:
        """Epochs whose draws do not count."""
        if self.stage is not None:
            return self.stage.burn_in
        return burn_in(self.configured, self.epochs)

    @property
    def held(self) -> int:
        """Epochs for which ξ does not move, where the configuration holds it."""
        return self.burn_in if self.stage is None else self.stage.held

    @property
    def table(self) -> str:
        """Whose cells these are."""
        return "A" if self.stage is None else "B"

    def identity(self, data: ImageSet) -> dict[str, Any]:
        """All that numbers depend on, but for versions and the device."""
        common = {
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
        if self.stage is None:
            return common
        stage = {
            "name": self.stage.name,
            "cells": [
                [c.noise, c.seed, [list(s) for s in c.settings], c.chain] for c in self.cells
            ],
            "burn_in": self.burn_in,
            "held": self.held,
            "former": None if self.stage.former is None else self.stage.former.name(data),
            "chains": self.stage.chains,
        }
        return common | {"stage": stage}

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


def burn_in(config: Config, epochs: int) -> int:
    """The configuration's share of so many epochs, but never all of them.

    >>> burn_in(CONFIGS["adapted"], 1000), burn_in(CONFIGS["adapted"], 1)
    (300, 0)
    """
    return min(int(config.burn_in * epochs), epochs - 1)


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
