"""What can be wrong with a data set's files."""


class DataError(OSError):
    """A data set is not there, or is not what it should be."""
