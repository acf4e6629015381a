"""The words of ``tacthmc reproduce table1``, as plain values."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WORDS = ["reproduce", "table1"]

MANY_VALUES = ("--task", "--noise", "--method", "--seeds", "--setting", "--merge")
"""Options that take as many values as follow them."""


@dataclass(frozen=True)
class Options:
    """What was asked for; None and empty lists stand for defaults that depend on the table."""

    table: str = "A"
    tasks: Sequence[str] = ()
    noises: Sequence[float] = ()
    methods: Sequence[str] = ()
    config: str | None = None
    epochs: int | None = None
    seeds: Sequence[int] = ()
    setting: Sequence[str] = ()
    draw_every: int = 1
    out: Path | None = None
    minutes: float | None = None
    data: Path | None = None
    validation: bool = False
    compute: str = "float32"
    quick: bool = False
    merge: Sequence[Path] = ()

    @property
    def folder(self) -> Path:
        """The folder of results."""
        if self.out is not None:
            return self.out
        name = "table1" if self.table == "A" else "table-b"
        return Path("results") / (f"{name}-quick" if self.quick else name)

    @property
    def command(self) -> str:
        """The command that makes the same numbers of Table A, without folders and slices.

        >>> Options(tasks=["cnn"], seeds=[0, 1], quick=True).command
        'tacthmc reproduce table1 --task cnn --config adapted --seeds 0 1 --compute float32 --quick'
        """
        words = {
            "--task": self.tasks,
            "--noise": [f"{share:g}" for share in self.noises],
            "--method": self.methods,
            "--config": [self.config or "adapted"],
            "--epochs": [] if self.epochs is None else [str(self.epochs)],
            "--seeds": [str(seed) for seed in self.seeds],
            "--setting": self.setting,
            "--draw-every": [] if self.draw_every == 1 else [str(self.draw_every)],
            "--compute": [self.compute],
        }
        flags = {"--validation": self.validation, "--quick": self.quick}
        parts = ["tacthmc", *WORDS]
        for option, values in words.items():
            parts += [option, *values] if values else []
        return shlex.join([*parts, *(flag for flag, given in flags.items() if given)])


def spread(words: Sequence[str]) -> list[str]:
    """Options with many values as the same option many times.

    >>> spread(["--noise", "0", "0.2", "--quick"])
    ['--noise', '0', '--noise', '0.2', '--quick']
    """
    made: list[str] = []
    option, first = None, False
    for word in words:
        if word.startswith("--"):
            option, first = (word, True) if word in MANY_VALUES else (None, False)
            made.append(word)
            continue
        if option is not None and not first:
            made.append(option)
        made.append(word)
        first = False
    return made


def settings(words: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """The values of ``--setting`` by name.

    >>> settings(["learning_rate=3e-4,1e-3"])
    {'learning_rate': (0.0003, 0.001)}
    >>> settings(["learning_rate"])
    Traceback (most recent call last):
    ...
    ValueError: --setting must be NAME=NUMBER[,NUMBER]...; got 'learning_rate'
    """
    found: dict[str, tuple[float, ...]] = {}
    for word in words:
        name, _, values = word.partition("=")
        try:
            found[name] = tuple(float(value) for value in values.split(","))
        except ValueError:
            raise ValueError(f"--setting must be NAME=NUMBER[,NUMBER]...; got {word!r}") from None
    return found
