"""Cells of the table, in groups whose cells are chains of one program."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from tacthmc.paper import checks
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.table1.configs import CONFIGS, Config
from tacthmc.paper.table1.paper import NOISES
from tacthmc.paper.tasks import METHODS, TASKS


class Cell(NamedTuple):
    """One chain."""

    noise: float
    seed: int
    settings: tuple[tuple[str, float], ...] = ()
    """Settings of the sampler that replace the configuration's."""
    chain: int = 0
    """The number of the chain among several with the same seed, whose predictions are averaged."""


@dataclass(frozen=True)
class Stage:
    """A part of Table B: its own list of cells, and chains that go on from another group's."""

    name: str
    """"search" or "final"."""
    cells: tuple[Cell, ...]
    burn_in: int
    """Epochs whose draws do not count."""
    held: int
    """Epochs for which ξ does not move."""
    rung: int = 0
    """The rung of a search; the first is 1."""
    former: "Group | None" = None
    """The group whose chains these were before."""
    chains: int = 1
    """How many chains have the same seed; their predictions are averaged."""


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
    """Values of the sampler's settings, each of which is tried with each."""
    draw_every: int = 1
    """Epochs from one draw that counts to the next."""
    stage: Stage | None = None
    """The part of Table B, whose cells then replace each noise level with each seed and setting."""

    @property
    def cells(self) -> list[Cell]:
        """The cell of each chain."""
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
        """The numbers of chains whose predictions are averaged: they differ in nothing else.

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
        """The configuration that has the group's name for it."""
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
        """The table that has these cells."""
        return "A" if self.stage is None else "B"

    def identity(self, data: ImageSet) -> dict[str, Any]:
        """Everything that the numbers depend on, except versions and the device."""
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
        """A file name that is another one for another identity.

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
    """Epochs whose draws do not count: the configuration's share, but never all of them.

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
    """A group for each task and method; all tasks and methods if none is named.

    >>> found = groups(tasks=["cnn"], methods=["tact", "adam"], seeds=[0, 1, 2])
    >>> [(g.task, g.method, len(g.cells), g.epochs) for g in found]
    [('cnn', 'adam', 9, 1000), ('cnn', 'tact', 9, 1000)]
    """
    _check_names({"task": (tasks, TASKS), "method": (methods, METHODS)}, config)
    _check_numbers(noises, seeds, draw_every, epochs)
    if settings and len(methods) != 1:
        raise ValueError("settings are those of one method: name it with --method")
    chosen = CONFIGS[config]
    given = {name: tuple(map(float, values)) for name, values in (settings or {}).items()}

    def group(task: str, method: str) -> Group:
        usual = chosen.tact_epochs if method == "tact" else chosen.epochs
        shares = tuple(float(noise) for noise in noises)
        length = usual if epochs is None else epochs
        return Group(task, method, config, shares, tuple(seeds), length, compute, given, draw_every)

    names = product(_named(tasks, TASKS), _named(methods, METHODS))
    return [group(task, method) for task, method in names]


def _named(names: Sequence[str], known: Mapping[str, Any]) -> list[str]:
    """The names in the table's order; all of them if none is given."""
    return [name for name in known if name in names or not names]


def _check_names(given: Mapping[str, tuple[Sequence[str], Any]], config: str) -> None:
    checks.one_of("config", config, CONFIGS)
    for what, (names, known) in given.items():
        for name in names:
            checks.one_of(what, name, known)


def _check_numbers(
    noises: Sequence[float | int], seeds: Sequence[int], draw_every: int, epochs: int | None
) -> None:
    check_shares(noises)
    for name, found in (("noise", noises), ("seeds", seeds)):
        check_different(name, found)
    checks.whole("draw_every", draw_every, 1)
    if epochs is not None:
        checks.whole("epochs", epochs, 1)


def check_shares(noises: Sequence[float | int]) -> None:
    """Refuse noise levels that are no share of the labels."""
    for noise in noises:
        if not 0 <= noise <= 1:
            raise ValueError(f"noise is a share of the labels, 0 to 1; got {noise}")


def check_different(name: str, found: Sequence[float | int]) -> None:
    """Refuse an empty list, and one that has a number twice."""
    if not found or len(set(found)) < len(found):
        raise ValueError(f"{name} must be different numbers, at least one; got {list(found)}")
