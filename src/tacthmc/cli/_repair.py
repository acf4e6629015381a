"""``tacthmc repair``: save what is good of a damaged run."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = "**Examples**\n\n" + "\n\n".join(
    f"`tacthmc repair runs/model{options}`" for options in ("", " --out runs/saved", " --check")
)


def repair(
    path: Annotated[Path, typer.Argument(help="The folder of the run.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            help="A new folder for what is saved; by default RUN-repaired.", show_default=False
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only say what is damaged; exit with 1 if anything is."),
    ] = False,
) -> None:
    """Save what is good of a damaged run into a new folder, and say what is not.

    The damaged folder stays as it is. Files come from their copies, statistics are computed again
    where others imply them, damaged checkpoints and draws are left out.
    """
    from tacthmc.store import StoreError, find_damage
    from tacthmc.store import repair as repair_run

    if check and out is not None:
        raise typer.BadParameter("--check writes nothing, so --out would do nothing")
    try:
        damage = find_damage(path) if check else repair_run(path, out)
    except (StoreError, OSError) as error:
        typer.echo(f"tacthmc: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(str(damage))
    if check and damage.found:
        raise typer.Exit(1)
