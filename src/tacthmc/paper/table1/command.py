"""``tacthmc reproduce table1``: its options; what it does loads much more."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

WORDS = ["reproduce", "table1"]
NAME = " ".join(WORDS)

_MANY = ("--task", "--noise", "--method", "--seeds", "--setting", "--merge")
"""Options that take as many values as follow them."""


class TableName(StrEnum):
    """Whose settings."""

    A = "A"
    B = "B"


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
    tuned = "tuned"


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
        "--table B --task cnn --compute tf32 --minutes 8",
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
    table: Annotated[
        TableName,
        typer.Option(
            help="A: the paper's settings. B: every method tuned by the same search on validation"
            " images, then 3 seeds, one chain and 4; docs/table-b.md is its protocol."
        ),
    ] = TableName.A,
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
        ConfigName | None,
        typer.Option(
            help="paper: Algorithm 1 to the letter. splitting: its numbers, our integrator and"
            " bias. adapted (default): that with thermostats of relative inertia. authors: as their"
            " code. tuned: as in Table B.",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="1000 by default, as in the paper; with --quick 3. Of Table B 300; 4.", min=1
        ),
    ] = None,
    seeds: Annotated[
        list[int] | None,
        typer.Option(help="Seeds; 0 by default, of Table B 0 1 2.", show_default=False, min=0),
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
        typer.Option(
            help="Folder for results and checkpoints; results/table1 or table-b (-quick)."
        ),
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
        typer.Option("--quick", help="A look on a CPU: 2,000 images, few epochs, noise 0 and 0.2."),
    ] = False,
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            help="Run nothing: join the results of these folders in --out, and write the tables.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """The paper's Table 1: all noise levels and seeds of a method as chains of one program.

    Writes results.json, the table as Markdown and LaTeX beside the paper's numbers, learning
    curves and reliability diagrams. What is finished is not run again.
    """
    from tacthmc.store._errors import StoreError

    named = "table1" if table == TableName.A else "table-b"
    folder = out or Path("results") / (f"{named}-quick" if quick else named)
    tasks = [name.value for name in task or ()]
    methods = [name.value for name in method or ()]
    try:
        if merge:
            from tacthmc.paper.table1.merge import merge as merged

            finished, written = True, merged(merge, folder)
        elif table == TableName.B:
            fixed = {
                "--config": config,
                "--setting": setting,
                "--validation": validation,
                "--draw-every": draw_every != 1,
            }
            given = [option for option, value in fixed.items() if value]
            if given:
                raise ValueError(f"Table B's protocol fixes what {', '.join(given)} would change")
            options = {
                "compute": compute.value,
                **({"epochs": epochs} if epochs else {}),
                **({"seeds": tuple(seeds)} if seeds else {}),
                **({"noises": tuple(noise)} if noise else {}),
            }
            finished, written = _table_b(tasks, methods, options, folder, minutes, data, quick)
        else:
            asked = {
                "tasks": tasks,
                "noises": noise or None,
                "methods": methods,
                "config": (config or ConfigName.adapted).value,
                "epochs": epochs,
                "seeds": seeds or None,
                "compute": compute.value,
                "setting": setting or [],
                "draw_every": draw_every,
            }
            finished, written = _table_a(asked, folder, minutes, data, quick, validation)
    except (StoreError, ValueError, TypeError, OSError, ImportError) as error:
        typer.echo(f"tacthmc: {error}", err=True)
        raise typer.Exit(1) from error
    for path in written:
        if path.suffix == ".md":
            typer.echo(path.read_text(encoding="utf-8"))
    for path in written:
        typer.echo(str(path))
    if not finished:
        typer.echo("unfinished; the same command goes on")


def _table_a(
    asked: dict[str, Any],
    folder: Path,
    minutes: float | None,
    data: Path | None,
    quick: bool,
    validation: bool,
) -> tuple[bool, list[Path]]:
    from functools import cache

    from tacthmc.paper.table1.group import groups
    from tacthmc.paper.table1.images import images
    from tacthmc.paper.table1.paper import NOISES
    from tacthmc.paper.table1.reproduce import reproduce, write_tables

    words = {
        "--task": asked["tasks"],
        "--noise": [f"{share:g}" for share in asked["noises"] or ()],
        "--method": asked["methods"],
        "--config": [asked["config"]],
        "--epochs": [] if asked["epochs"] is None else [str(asked["epochs"])],
        "--seeds": [str(seed) for seed in asked["seeds"] or ()],
        "--setting": asked["setting"],
        "--draw-every": [] if asked["draw_every"] == 1 else [str(asked["draw_every"])],
        "--compute": [asked["compute"]],
    }
    flags = {"--validation": validation, "--quick": quick}
    command = _command(words, [flag for flag, given in flags.items() if given])
    found = groups(
        tasks=asked["tasks"],
        noises=asked["noises"] or ((0.0, 0.2) if quick else NOISES),
        methods=asked["methods"],
        config=asked["config"],
        epochs=asked["epochs"] or (3 if quick else None),
        seeds=asked["seeds"] or [0],
        compute=asked["compute"],
        settings=settings(asked["setting"]),
        draw_every=asked["draw_every"],
    )
    of = cache(lambda name: images(name, data, quick, validation))
    finished = reproduce(found, of, folder, minutes=minutes, command=command, say=typer.echo)
    return finished, write_tables(folder)


def _table_b(
    tasks: list[str],
    methods: list[str],
    options: dict[str, Any],
    folder: Path,
    minutes: float | None,
    data: Path | None,
    quick: bool,
) -> tuple[bool, list[Path]]:
    from functools import cache

    from tacthmc.paper.table1.images import images
    from tacthmc.paper.table1.protocol import Protocol
    from tacthmc.paper.table1.table_b import command_b, reproduce_b
    from tacthmc.paper.table1.tables_b import write_table_b

    protocol = Protocol.quick(**options) if quick else Protocol.of(**options)
    finished = reproduce_b(
        # A look is no result: it never sees a test image.
        cache(lambda name, validation: images(name, data, quick, validation or quick)),
        folder,
        tasks=tasks,
        methods=methods,
        protocol=protocol,
        minutes=minutes,
        command=command_b(tasks, methods, protocol, quick),
        say=typer.echo,
    )
    return finished, write_table_b(folder)


def _command(words: dict[str, list[str]], flags: list[str]) -> str:
    """What makes the same numbers: without where and in how many slices."""
    parts = ["tacthmc", *WORDS]
    for option, values in words.items():
        parts += [option, *values] if values else []
    return shlex.join([*parts, *flags])
