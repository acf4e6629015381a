"""Errors of data sets, and the size beyond which an archive is refused."""

MAX_UNPACKED_BYTES = 1 << 28
"""More than the largest file in an official archive unpacks to."""


class DataError(OSError):
    """An error that a data set is missing or wrong."""
