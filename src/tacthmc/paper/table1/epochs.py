"""Epochs counted in intervals of K steps: now one more, now one less."""

from typing import NamedTuple


class Epochs(NamedTuple):
    """Where epochs end, if a chain stops only after whole intervals.

    >>> epochs = Epochs(num_data=320, examples_per_interval=128 * 2)      # 1.25 intervals an epoch
    >>> [epochs.end(epoch) for epoch in range(6)]
    [0, 2, 3, 4, 5, 7]
    >>> [epochs.ended(intervals) for intervals in range(8)]
    [0, 0, 1, 2, 3, 4, 4, 5]
    """

    num_data: int
    """N, the examples that an epoch goes through."""
    examples_per_interval: int
    """The examples that an interval goes through: batch size times K."""

    def end(self, epoch: int) -> int:
        """The intervals after which that many epochs are over."""
        return -(-epoch * self.num_data // self.examples_per_interval)

    def ended(self, intervals: int) -> int:
        """How many epochs are over after that many intervals."""
        return intervals * self.examples_per_interval // self.num_data

    def longest(self, epochs: int) -> int:
        """The most intervals that one of the first ``epochs`` epochs has."""
        return max(self.end(epoch + 1) - self.end(epoch) for epoch in range(epochs))
