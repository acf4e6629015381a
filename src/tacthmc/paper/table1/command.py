"""The options of ``tacthmc reproduce table1``; the modules that do the work load when it runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tacthmc.paper.table1.options import WORDS as WORDS
from tacthmc.paper.table1.options import Options
from tacthmc.paper.table1.options import spread as spread

NAME = " ".join(WORDS)


class TableName(StrEnum):
    """The paper's settings, or every method tuned alike."""

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


def table1(
    table: Annotated[
        TableName,
        typer.Option(
            help="A: the paper's settings. B: every method tuned by the same search on validation"
            " images, then 3 seeds, one chain and 4; research/table-b.md is its protocol."
        ),
    ] = TableName.A,
    task: Annotated[
        list[TaskName] | None, typer.Option(help="Tasks; all by default.", show_default=False)
    ] = None,
    noise: Annotated[
        list[float] | None,
        typer.Option(help="Shares of wrong labels; 0 0.2 0.3 by default.", show_default=False),
    ] = None,
    method: Annotated[
        list[MethodName] | None, typer.Option(help="Methods; all by default.", show_default=False)
    ] = None,
    config: Annotated[
        ConfigName | None,
        typer.Option(
            help="paper: Algorithm 1 to the letter. splitting: its numbers, our integrator and"
            " bias. adapted (default): the same with thermostats of relative inertia. authors: as"
            " in their code. tuned: as in Table B.",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="1000 by default, as in the paper; with --quick 3. For Table B 300, or 4.", min=1
        ),
    ] = None,
    seeds: Annotated[
        list[int] | None,
        typer.Option(help="Seeds; 0 by default, for Table B 0 1 2.", show_default=False, min=0),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=NUMBER[,NUMBER]... for the sampler of the one --method, each value in chains"
            " of its own; learning_rate is per datum.",
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
        typer.Option(
            help="Stop after these minutes, with everything saved; the same command goes on.", min=0
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the data sets; TACTHMC_DATA, else the user's cache."),
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
    curves and reliability diagrams. Finished cells are not run again.
    """
    _run(
        Options(
            table=table.value,
            tasks=[name.value for name in task or ()],
            noises=noise or (),
            methods=[name.value for name in method or ()],
            config=config and config.value,
            epochs=epochs,
            seeds=seeds or (),
            setting=setting or (),
            draw_every=draw_every,
            out=out,
            minutes=minutes,
            data=data,
            validation=validation,
            compute=compute.value,
            quick=quick,
            merge=merge or (),
        )
    )


def _run(options: Options) -> None:
    """Do it, and print the tables and the files; an error is one line."""
    from tacthmc.paper.table1.subcommands import run
    from tacthmc.store import StoreError

    try:
        written = run(options, typer.echo)
    except (StoreError, ValueError, TypeError, OSError, ImportError) as error:
        typer.echo(f"tacthmc: {error}", err=True)
        raise typer.Exit(1) from error
    for path in written.paths:
        if path.suffix == ".md":
            typer.echo(path.read_text(encoding="utf-8"))
    for path in written.paths:
        typer.echo(str(path))
    if not written.finished:
        typer.echo("unfinished; the same command goes on")
