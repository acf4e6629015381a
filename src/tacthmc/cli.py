"""The command line: ``tacthmc``."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Sample multimodal posteriors with mini-batches.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Folder = Annotated[Path, typer.Argument(help="The run's folder, as given to sample(store=…).")]


@app.command()
def demo() -> None:
    """Sample a mixture of three Gaussians and print a summary."""
    from tacthmc.demo import main

    main()


@app.command()
def resume(
    path: Folder,
    num_steps: Annotated[
        int | None, typer.Option(help="Steps per chain in all, to make a finished run longer.")
    ] = None,
) -> None:
    """Go on with a run that was killed or interrupted, or make one longer."""
    import tacthmc

    try:
        typer.echo(str(tacthmc.resume(path, num_steps=num_steps).summary()))
    except (tacthmc.StoreError, ValueError) as error:
        typer.echo(f"tacthmc: {error}", err=True)
        raise typer.Exit(1) from error


@app.command()
def summary(path: Folder) -> None:
    """Print the summary of a stored run, finished or still going on."""
    import tacthmc

    try:
        typer.echo(str(tacthmc.load(path).summary()))
    except tacthmc.StoreError as error:
        typer.echo(f"tacthmc: {error}", err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app()
