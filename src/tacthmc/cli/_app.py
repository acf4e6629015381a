"""The command line: ``tacthmc``."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tacthmc.cli import _repair as repair_command
from tacthmc.cli._errors import short_errors
from tacthmc.cli._exit import FAILED, INTERRUPTED, NOT_GOOD, exit_code
from tacthmc.cli._exit import HELP as EXIT_CODES
from tacthmc.cli._nearest import NearestOption
from tacthmc.paper.data import command as data_command
from tacthmc.paper.table1 import command as table1_command

app = typer.Typer(
    cls=NearestOption,
    help="Sample multimodal posteriors with mini-batches: TACT-HMC and its family.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(data_command.app, name="data")
app.command(epilog=repair_command.EXAMPLES)(repair_command.repair)
app.command(table1_command.NAME, epilog=table1_command.EXAMPLES)(table1_command.table1)

MAX_SEED = 2**32 - 1
Seed = typer.Option(help="Seed of all random numbers.", min=0, max=MAX_SEED)
Folder = Annotated[Path, typer.Argument(help="The folder of the run.", show_default=False)]


Trust = Annotated[
    bool,
    typer.Option("--trust", help="Unpickle functions in the folder, which can run any code."),
]


class Figure(StrEnum):
    """The names of the studies, for --help without importing the studies."""

    fig1 = "fig1"
    fig2 = "fig2"
    fig3 = "fig3"
    free_energy = "free-energy"
    step_size = "step-size"
    dimension = "dimension"
    tuning = "tuning"


class SamplerName(StrEnum):
    """Samplers that need only a step size."""

    tact = "tact"
    sgnht = "sgnht"
    sghmc = "sghmc"
    sgld = "sgld"
    psgld = "psgld"


class Keep(StrEnum):
    """Which draws are kept."""

    plateau = "plateau"
    all = "all"


def _examples(*lines: str) -> str:
    return "**Examples**\n\n" + "\n\n".join(f"`{line}`" for line in lines)


Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 4 unless nothing speaks against the draws.")
]


def _show_version(asked: bool) -> bool:
    from tacthmc.cli._info import version_of

    if asked:
        typer.echo(f"tacthmc {version_of('tacthmc')}")
        raise typer.Exit
    return asked


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the command itself."""


@app.command(
    epilog=_examples("tacthmc demo", "tacthmc demo --out somewhere", "tacthmc demo --steps 100000")
)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("tacthmc-demo"),
    steps: Annotated[int, typer.Option(help="Steps per chain.", min=1000)] = 400_000,
    seed: Annotated[int, Seed] = 0,
) -> None:
    """Three samplers side by side on three Gaussians: a table and a report, in under a minute."""
    from tacthmc.cli._demo import demo as run_demo

    with short_errors():
        run_demo(out, steps, seed)


@app.command(
    epilog=_examples(
        "tacthmc reproduce fig1",
        "tacthmc reproduce fig1 --full --out results/fig1",
        "tacthmc reproduce fig2 --seed 1",
        "tacthmc reproduce tuning --redraw results/tuning/results.json --out pictures",
    )
)
def reproduce(
    figure: Annotated[
        Figure,
        typer.Argument(
            help="fig1, fig2, fig3: figures of the paper. free-energy: A(ξ) under each bias."
            " step-size: bias of Euler and the splitting. dimension: round trips against D. tuning:"
            " ESS per gradient against Algorithm 1. table1: see tacthmc reproduce table1 --help.",
            show_default=False,
            show_choices=True,
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="The published size: minutes instead of seconds.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for PDF, PNG and results.json; by default results/FIGURE, or"
            " results/FIGURE-quick without --full."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="A seed instead of the published one.", show_default=False, min=0, max=MAX_SEED
        ),
    ] = None,
    redraw: Annotated[
        Path | None,
        typer.Option(help="Redraw the numbers of this results.json without sampling."),
    ] = None,
) -> None:
    """Make a figure as PDF and PNG, and results.json with every number, config and seed."""
    from rich.console import Console

    from tacthmc.paper.figures.catalog import STUDIES
    from tacthmc.paper.figures.make import make_figure, redraw_figure

    study = STUDIES[figure.value]
    console = Console()
    # A quick run must not overwrite a published one.
    out = out or Path("results") / (study.name if full or redraw else f"{study.name}-quick")
    with short_errors():
        if redraw is not None and (full or seed is not None):
            raise ValueError("--redraw samples nothing: --full and --seed would do nothing")
        if redraw is not None:
            results, written = redraw_figure(study, redraw, out)
        else:
            results, written = make_figure(
                study, out, full, seed, lambda text: console.print(f"· {text}")
            )
        console.print(_rich_table(study.table(results["numbers"])))
        console.print(f"{study.about}; {results['seconds']:.0f} s")
        for path in written:
            console.print(str(path), soft_wrap=True)


@app.command(
    epilog=_examples(
        "tacthmc new model.py",
        "tacthmc sample model.py --steps 200000 --chains 4 --out runs/model",
        "tacthmc sample model.py:wide --sampler sgnht --step-size 1e-3 --out runs/wide",
        "tacthmc sample model.py --tune --report --seed 7",
        "tacthmc sample model.py --until 400 --steps 10000000",
    )
    + f"\n\n{EXIT_CODES}"
)
def sample(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py[:NAME]",
            help="A file with a function, NAME or `model`, that returns a potential and a starting"
            " point, and optionally a sampler.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="A new folder for the run; by default runs/FILE.", show_default=False),
    ] = None,
    steps: Annotated[
        int, typer.Option(help="Steps per chain, including warm-up; with --until the most.", min=1)
    ] = 100_000,
    until: Annotated[
        int | None,
        typer.Option(
            help="End the run when every parameter shown, the energy and the shares of known modes"
            " have so many effective draws, and R-hat is at most 1.01.",
            show_default=False,
            min=1,
        ),
    ] = None,
    chains: Annotated[int, typer.Option(help="Number of chains.", min=1)] = 4,
    sampler: Annotated[
        SamplerName | None,
        typer.Option(help="By default that of the file, or tact.", show_default=False),
    ] = None,
    step_size: Annotated[
        float | None,
        typer.Option(
            help="η in full-data units; by default from the curvature and noise at the start."
        ),
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="c, the level of injected noise (friction for sghmc).")
    ] = None,
    keep_every: Annotated[int | None, typer.Option(help="K, steps between draws.", min=1)] = None,
    tune: Annotated[
        bool,
        typer.Option("--tune", help="Let short runs choose all numbers that are not given."),
    ] = False,
    warmup: Annotated[
        int | None,
        typer.Option(help="First steps that are not kept; by default a tenth of all.", min=0),
    ] = None,
    keep: Annotated[
        Keep, typer.Option(help="Draws at unit temperature only, or all with weights.")
    ] = Keep.plateau,
    seed: Annotated[int, Seed] = 0,
    x64: Annotated[bool, typer.Option("--x64", help="Compute in double precision.")] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")
    ] = True,
    strict: Strict = False,
) -> None:
    """Sample your own model: draws, checkpoints and a report in one folder."""
    import jax

    from tacthmc.cli._model_file import load_model, split_argument

    if x64:
        jax.config.update("jax_enable_x64", True)
    path, name = split_argument(file)
    with short_errors(path):
        import tacthmc
        from tacthmc.cli._model_sampler import chosen_sampler

        model = load_model(path, name)
        key = jax.random.key(seed)
        condition = None if until is None else tacthmc.effective(until)
        given = {"step_size": step_size, "noise": noise}
        settings = {k: v for k, v in given.items() if v is not None}
        named = None if sampler is None else sampler.value
        chosen = chosen_sampler(key, model, named, settings, chains, tune, typer.echo)
        folder = out or Path("runs") / (path.stem if name is None else f"{path.stem}-{name}")
        run = tacthmc.sample(
            key,
            chosen,
            model.potential,
            model.start,
            steps,
            chains,
            keep=tacthmc.Keep(
                every=keep_every,
                after=warmup,
                temperatures="all" if keep is Keep.all else "unit",
            ),
            store=folder,
            until=condition,
        )
        typer.echo(str(run.summary()))
        _afterwards(run, folder, report)
    _finish(run, strict)


def _finish(run: Any, strict: bool) -> None:
    """Exit with the code of the run, and say why if it is not zero."""
    code = INTERRUPTED if run.interrupted else exit_code(run, strict)
    if code in (FAILED, NOT_GOOD):
        head = run.summary().headline
        typer.echo(f"tacthmc: {head.title.lower()}. {head.text} (exit code {code})", err=True)
    raise typer.Exit(code)


def _afterwards(run: Any, folder: Path, report: bool) -> None:
    import tacthmc

    if report:
        written = tacthmc.write_report(run, folder / "report.html")
        typer.echo(f"\nreport: {written}")
    if run.interrupted:
        typer.echo(f"interrupted; continue with: tacthmc resume {folder} --trust")


@app.command(epilog=_examples("tacthmc new model.py", "tacthmc new model.py --force"))
def new(
    path: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a documented model file that runs, as a start for your own."""
    from tacthmc.cli._model_file import write_template

    with short_errors():
        write_template(path, force)
        typer.echo(f"wrote {path}; run it with: tacthmc sample {path}")


@app.command(
    epilog=_examples(
        "tacthmc report runs/model",
        "tacthmc report runs/model --out model.html --parameter 'theta[0]' --parameter 'theta[3]'",
        "tacthmc report runs/tact runs/sgnht --out both.html",
    )
)
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="The folder of a run, or several to compare."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The HTML file; by default report.html in the (first) folder."),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            help="A parameter to show, such as theta[0], or a leaf such as theta; may be repeated."
            " By default those that look suspicious, and the first."
        ),
    ] = None,
    trust: Trust = False,
) -> None:
    """Write a report on a run, finished or not: one HTML file that needs no network."""
    import tacthmc

    with short_errors():
        loaded = {path.name: tacthmc.load(path, trust=trust) for path in runs}
        if len(loaded) < len(runs):
            loaded = {str(path): tacthmc.load(path, trust=trust) for path in runs}
        written = tacthmc.write_report(
            next(iter(loaded.values())) if len(loaded) == 1 else loaded,
            out or runs[0] / "report.html",
            parameters=parameter or None,
        )
        typer.echo(str(written))


@app.command(
    epilog=_examples(
        "tacthmc resume runs/model --trust",
        "tacthmc resume runs/model --trust --steps 1000000",
        "tacthmc resume runs/model --trust --until 1000",
        "tacthmc resume runs/model --model model.py",
    )
    + f"\n\n{EXIT_CODES}"
)
def resume(
    path: Folder,
    steps: Annotated[
        int | None,
        typer.Option(help="Total steps per chain, to make a finished run longer.", min=1),
    ] = None,
    until: Annotated[
        int | None,
        typer.Option(
            help="End the run at so many effective draws; by default as it was begun.",
            show_default=False,
            min=1,
        ),
    ] = None,
    trust: Trust = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py[:NAME]",
            help="Take the potential from this file, and nothing from a pickle in the folder.",
            show_default=False,
        ),
    ] = None,
    changed: Annotated[
        bool,
        typer.Option("--changed", help="Go on though sampler, potential or data have changed."),
    ] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")
    ] = True,
    strict: Strict = False,
) -> None:
    """Continue a run that was killed or interrupted, or make a finished one longer.

    The functions of a run are stored as a pickle, which can run any code. --trust says that you or
    people you trust have made the run. --model takes the functions from a file instead.
    """
    import tacthmc
    from tacthmc.cli._model_file import load_model, split_argument

    file, name = (None, None) if model is None else split_argument(model)
    with short_errors(file):
        given = None if file is None else load_model(file, name)
        condition = None if until is None else tacthmc.effective(until)
        run = tacthmc.resume(
            path,
            num_steps=steps,
            until=condition,
            potential=None if given is None else given.potential,
            like=None if given is None else given.start,
            trust=trust,
            changed=changed,
        )
        typer.echo(str(run.summary()))
        _afterwards(run, path, report)
    _finish(run, strict)


@app.command(
    epilog=_examples("tacthmc summary runs/model", "tacthmc summary runs/model --strict")
    + f"\n\n{EXIT_CODES}"
)
def summary(path: Folder, trust: Trust = False, strict: Strict = False) -> None:
    """Print the summary of a stored run, finished or not."""
    import tacthmc

    with short_errors():
        run = tacthmc.load(path, trust=trust)
        typer.echo(str(run.summary()))
    raise typer.Exit(exit_code(run, strict))


@app.command(epilog=_examples("tacthmc info"))
def info() -> None:
    """Print versions and devices, for bug reports."""
    from rich.console import Console

    from tacthmc.cli._info import facts
    from tacthmc.report import Table

    Console().print(_rich_table(Table(("", ""), facts()), header=False))


def _rich_table(table: Any, header: bool = True) -> Any:
    from rich.table import Table

    columns, rows = table.columns, table.rows
    if len(columns) > 6:
        # Too wide for a terminal, so it is transposed.
        columns, *rows = zip(columns, *rows, strict=True)
    made = Table(show_header=header)
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if header and number else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def main() -> None:
    """Run the command line."""
    from tacthmc import configure_cpu

    configure_cpu()
    app()


if __name__ == "__main__":
    sys.exit(main())
