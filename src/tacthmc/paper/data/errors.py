"""Errors of data sets."""


class DataError(OSError):
    """An error that a data set is missing or wrong."""
