"""A slice of minutes, after which everything is saved and the same call goes on."""

import time


class Slice:
    """The given minutes from now on; None for as long as it takes.

    >>> now = Slice(0)
    >>> now.over                # however short it is, something runs in it
    False
    >>> now.advanced = True
    >>> now.over
    True
    """

    def __init__(self, minutes: float | int | None):
        """Begin the slice now."""
        self.deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self.advanced = False
        """Whether something has run in it."""
        self.interrupted = False
        """Whether somebody stopped what ran in it."""

    @property
    def over(self) -> bool:
        """Whether nothing more should begin."""
        ended = self.deadline is not None and time.monotonic() >= self.deadline
        return self.interrupted or (self.advanced and ended)
