"""Errors of folders of runs."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacthmc._checks import missing_extra


class StoreError(RuntimeError):
    """An error in creating, writing or reading the folder of a run. The message says what to do.

    >>> import tacthmc
    >>> tacthmc.load("no/such/run")
    Traceback (most recent call last):
    ...
    tacthmc.store._errors.StoreError: no/such/run holds no run (there is no config.json in it)
    """


class DamageWarning(UserWarning):
    """A warning that a part of a stored run is damaged, and what is used instead.

    ``tacthmc repair RUN`` makes a sound folder of it.
    """


def needs(package: str) -> StoreError:
    """The error for a missing package."""
    why = missing_extra("keeping a run on disk", package, "store")
    return StoreError(f"{why} (sampling in memory works without it)")


@contextmanager
def writing(path: Path, what: str) -> Iterator[None]:
    """Turn a disk error into a StoreError that names the folder."""
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
