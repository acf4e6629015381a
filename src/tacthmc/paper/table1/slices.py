"""A slice of minutes, after which all is saved and the same call goes on."""

import time


class Slice:
    """So many minutes from now; None for as long as it takes.

    >>> now = Slice(0)
    >>> now.over                # however short it is, it gets on
    False
    >>> now.advanced = True
    >>> now.over
    True
    """

    def __init__(self, minutes: float | int | None):
        """Begin."""
        self.deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self.advanced = False
        """Whether something ran in it."""

    @property
    def over(self) -> bool:
        """Whether nothing more should begin."""
        ended = self.deadline is not None and time.monotonic() >= self.deadline
        return self.advanced and ended
