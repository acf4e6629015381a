"""What can be wrong with a run's folder, in words."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StoreError(RuntimeError):
    """A run's folder cannot be made, written or read; the message says what to do.

    >>> import tacthmc
    >>> tacthmc.load("no/such/run")
    Traceback (most recent call last):
    ...
    tacthmc.store.errors.StoreError: no/such/run holds no run (there is no config.json in it)
    """


def needs(package: str) -> StoreError:
    """What to install."""
    return StoreError(
        f"keeping a run on disk needs {package}: pip install 'orbax-checkpoint' 'zarr'"
        " (sampling in memory works without)"
    )


@contextmanager
def writing(path: Path, what: str) -> Iterator[None]:
    """Turn an error of the disk into a message about the run's folder."""
    try:
        yield
    except StoreError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise StoreError(f"{path}: {what} failed: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    text = str(error)
    code = getattr(error, "errno", None)
    if code in (errno.ENOSPC, errno.EDQUOT) or "No space left" in text or "quota" in text:
        return f"the disk is full ({text})"
    if code in (errno.EACCES, errno.EROFS, errno.EPERM):
        return f"the folder cannot be written ({text})"
    return text
