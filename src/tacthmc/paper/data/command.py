"""``tacthmc data``: fetch, list and verify data sets."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class SetName(StrEnum):
    """The data sets, for --help."""

    cifar10 = "cifar10"
    fashion_mnist = "fashion_mnist"
    emnist_balanced = "emnist_balanced"
    emnist47 = "emnist47"


Names = Annotated[
    list[SetName] | None,
    typer.Argument(metavar="[NAME]...", help="Data sets; all by default.", show_default=False),
]
Folder = Annotated[
    Path | None,
    typer.Option(help="The folder of data sets; by default TACTHMC_DATA or the user's cache."),
]

_EXAMPLES = "**Examples**\n\n" + "\n\n".join(
    f"`tacthmc data {line}`"
    for line in ("list", "fetch fashion_mnist", "fetch cifar10 --folder data", "verify")
)

app = typer.Typer(
    help="The paper's image data sets: fetch, list, verify.",
    no_args_is_help=True,
    epilog=_EXAMPLES,
    rich_markup_mode="markdown",
)


@contextmanager
def _short_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, ImportError) as error:
        typer.echo(f"tacthmc: {error}", err=True)
        raise typer.Exit(1) from error


@app.command(epilog=_EXAMPLES)
def fetch(names: Names = None, folder: Folder = None) -> None:
    """Download the official archives, and check them against their published checksums.

    emnist47 has no download, so it is left out unless it is named.
    """
    from tacthmc.paper.data.catalog import ENTRIES
    from tacthmc.paper.data.download import fetch as fetch_archives
    from tacthmc.paper.data.folder import data_folder

    place = data_folder(folder)
    chosen = [name.value for name in names or ()] or [n for n, e in ENTRIES.items() if e.archives]
    with _short_errors():
        for name in chosen:
            for path in fetch_archives(name, ENTRIES[name], place):
                typer.echo(str(path))


@app.command("list", epilog=_EXAMPLES)
def list_sets(folder: Folder = None) -> None:
    """List the data sets, and which of them are on this machine."""
    from rich.console import Console
    from rich.table import Table

    from tacthmc.paper.data.catalog import ENTRIES
    from tacthmc.paper.data.folder import archive_path, data_folder, npz_path

    place = data_folder(folder)
    table = Table("name", "what", "images", "here")
    for name, entry in ENTRIES.items():
        archives = [archive_path(name, archive, place) for archive in entry.archives]
        there = "no"
        if npz_path(name, place).exists():
            there = npz_path(name, place).name
        elif archives and all(path.exists() for path in archives):
            there = f"archives in {name}/"
        elif not archives:
            there = "no, and no download"
        table.add_row(name, entry.title, f"{entry.num_train:,} + {entry.num_test:,}", there)
    Console().print(table)
    typer.echo(f"folder: {place}")


@app.command(epilog=_EXAMPLES)
def verify(names: Names = None, folder: Folder = None) -> None:
    """Read data sets and check them: checksums, shapes, labels, and the size of each class.

    By default these are the data sets on this machine.
    """
    from tacthmc.paper.data.catalog import ENTRIES
    from tacthmc.paper.data.errors import DataError
    from tacthmc.paper.data.folder import archive_path, data_folder, npz_path
    from tacthmc.paper.data.loading import load

    place = data_folder(folder)

    def here(name: str) -> bool:
        archives = [archive_path(name, archive, place) for archive in ENTRIES[name].archives]
        return any(path.exists() for path in (npz_path(name, place), *archives))

    chosen = [name.value for name in names or ()] or [name for name in ENTRIES if here(name)]
    if not chosen:
        typer.echo(f"no data set in {place}")
    wrong = False
    for name in chosen:
        try:
            typer.echo(f"{name}: right, {load(name, folder=place, download=False)!r}")
        except DataError as error:
            wrong = True
            typer.echo(f"{name}: {error}", err=True)
    if wrong:
        raise typer.Exit(1)
