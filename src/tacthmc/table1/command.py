"""``tacthmc reproduce table1``: its options; what it does loads much more."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

WORDS = ["reproduce", "table1"]
NAME = " ".join(WORDS)

_MANY = ("--task", "--noise", "--method", "--seeds", "--setting")
"""Options that take as many values as follow them."""


class TaskName(StrEnum):
    """The paper's tasks."""

    mlp = "mlp"
    rnn = "rnn"
    cnn = "cnn"


class MethodName(StrEnum):
    """The rows of the table."""

    adam = "adam"
    momentum_sgd = "momentum_sgd"
    sghmc = "sghmc"
    sgnht = "sgnht"
    tact = "tact"


class ConfigName(StrEnum):
    """Named configurations."""

    paper = "paper"
    splitting = "splitting"
    adapted = "adapted"
    authors = "authors"


class ComputeName(StrEnum):
    """The precision of products."""

    float32 = "float32"
    tf32 = "tf32"
    bfloat16 = "bfloat16"


EXAMPLES = "**Examples**\n\n" + "\n\n".join(
    f"`tacthmc {NAME} {line}`"
    for line in (
        "--quick",
        "--task cnn --method tact sgnht --seeds 0 1 2 --minutes 8 --compute tf32",
        "--task mlp --method adam --setting learning_rate=3e-4,1e-3 --noise 0 --out tuned",
    )
)


def spread(words: list[str]) -> list[str]:
    """Options with many values as the same option many times.

    >>> spread(["--noise", "0", "0.2", "--quick"])
    ['--noise', '0', '--noise', '0.2', '--quick']
    """
    made: list[str] = []
    option, first = None, False
    for word in words:
        if word.startswith("--"):
            option, first = (word, True) if word in _MANY else (None, False)
            made.append(word)
            continue
        if option is not None and not first:
            made.append(option)
        made.append(word)
        first = False
    return made


def settings(words: list[str]) -> dict[str, tuple[float, ...]]:
    """Numbers to try, by name.

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


def table1(
    task: Annotated[
        list[TaskName] | None, typer.Option(help="Tasks; all by default.", show_default=False)
    ] = None,
    noise: Annotated[
        list[float] | None,
        typer.Option(help="Shares of wrong labels; 0 0.2 0.3.", show_default=False),
    ] = None,
    method: Annotated[
        list[MethodName] | None, typer.Option(help="Methods; all by default.", show_default=False)
    ] = None,
    config: Annotated[
        ConfigName,
        typer.Option(
            help="paper: Algorithm 1 to the letter. splitting: its numbers, our integrator and"
            " bias. adapted: that with thermostats of relative inertia. authors: as their code."
        ),
    ] = ConfigName.adapted,
    epochs: Annotated[
        int | None, typer.Option(help="1000 by default, as in the paper; with --quick 3.", min=1)
    ] = None,
    seeds: Annotated[
        list[int] | None, typer.Option(help="Seeds; 0 by default.", show_default=False, min=0)
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=NUMBER[,NUMBER]... of the one --method's sampler, each in chains of its"
            " own; learning_rate is per datum.",
            show_default=False,
        ),
    ] = None,
    draw_every: Annotated[
        int, typer.Option(help="Epochs from one draw that counts to the next.", min=1)
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results and checkpoints; results/table1 (-quick)."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Stop after so many, all saved; the same command goes on.", min=0),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where data sets lie; TACTHMC_DATA, else the user's cache.")
    ] = None,
    validation: Annotated[
        bool,
        typer.Option(
            "--validation", help="Judge on a tenth of the training images: to choose settings."
        ),
    ] = False,
    compute: Annotated[
        ComputeName, typer.Option(help="The precision of products.")
    ] = ComputeName.float32,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A look on a CPU: 2,000 images, 3 epochs, noise 0 and 0.2."),
    ] = False,
) -> None:
    """The paper's Table 1: all noise levels and seeds of a method as chains of one program.

    Writes results.json, the table as Markdown and LaTeX beside the paper's numbers, learning
    curves and reliability diagrams. What is finished is not run again.
    """
    from functools import cache

    from tacthmc.store.errors import StoreError
    from tacthmc.table1.group import groups
    from tacthmc.table1.images import images
    from tacthmc.table1.paper import NOISES
    from tacthmc.table1.reproduce import reproduce, write_tables

    folder = out or Path("results") / ("table1-quick" if quick else "table1")
    try:
        asked = groups(
            tasks=[name.value for name in task or ()],
            noises=noise or ((0.0, 0.2) if quick else NOISES),
            methods=[name.value for name in method or ()],
            config=config.value,
            epochs=epochs or (3 if quick else None),
            seeds=seeds or [0],
            compute=compute.value,
            settings=settings(setting or []),
            draw_every=draw_every,
        )
        found = cache(lambda name: images(name, data, quick, validation))
        words = {
            "--task": [name.value for name in task or ()],
            "--noise": [f"{share:g}" for share in noise or ()],
            "--method": [name.value for name in method or ()],
            "--config": [config.value],
            "--epochs": [] if epochs is None else [str(epochs)],
            "--seeds": [str(seed) for seed in seeds or ()],
            "--setting": setting or [],
            "--draw-every": [] if draw_every == 1 else [str(draw_every)],
            "--compute": [compute.value],
        }
        flags = {"--validation": validation, "--quick": quick}
        command = _command(words, [flag for flag, given in flags.items() if given])
        finished = reproduce(asked, found, folder, minutes=minutes, command=command, say=typer.echo)
        written = write_tables(folder)
    except (StoreError, ValueError, TypeError, OSError, ImportError) as error:
        typer.echo(f"tacthmc: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo((folder / "table1.md").read_text(encoding="utf-8"))
    for path in written:
        typer.echo(str(path))
    if not finished:
        typer.echo("unfinished; the same command goes on")


def _command(words: dict[str, list[str]], flags: list[str]) -> str:
    """What makes the same numbers: without where and in how many slices."""
    parts = ["tacthmc", *WORDS]
    for option, values in words.items():
        parts += [option, *values] if values else []
    return shlex.join([*parts, *flags])
