"""``python -m benchmarks``: how fast the library is on this machine, side by side with its peers."""

from pathlib import Path
from typing import Annotated

import typer

import tacthmc
from benchmarks.speed import options

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="markdown")


@app.callback()
def benchmarks() -> None:
    """Measurements of the library."""


@app.command(epilog="\n\n".join(f"`{line}`" for line in options.EXAMPLES))
def speed(
    out: options.Out = Path("bench.json"),
    only: options.Only = None,
    quick: options.Quick = False,
    repeats: options.Repeats = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)] = 0,
) -> None:
    """Measure speed on this machine's CPU, side by side with peers that are installed.

    Contestants take turns; medians, least and most are written with versions and machine.
    BlackJAX, PyTorch and posteriors are optional: one that is missing is told of and skipped.
    """
    from rich.console import Console

    from benchmarks.speed.command import bench

    try:
        bench(out, [case.value for case in only or ()], quick, repeats, seed, Console())
    except (ValueError, OSError, ImportError) as error:
        typer.echo(f"benchmarks: {error}", err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    tacthmc.configure_cpu()
    app()
