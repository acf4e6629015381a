"""Errors in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


@contextmanager
def short_errors(file: Path | None = None) -> Iterator[None]:
    """Print errors in one line, or with the user's part of the traceback if ``file`` raised it."""
    from tacthmc.cli._model_file import ModelFileError, is_from_file, user_traceback
    from tacthmc.store._errors import StoreError

    try:
        yield
    except ModelFileError as error:
        _fail(str(error))
    except Exception as error:
        if file is not None and is_from_file(error, file):
            _fail(user_traceback(error, file))
        if isinstance(error, (StoreError, ValueError, TypeError, OSError, ImportError)):
            _fail(str(error))
        raise


def _fail(message: str) -> None:
    traceback = message.lstrip().startswith(("Traceback", "File "))
    typer.echo(message if traceback else f"tacthmc: {message}", err=True)
    raise typer.Exit(1)
