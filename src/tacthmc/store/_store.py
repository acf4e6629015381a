"""Where a run is kept, and how often its state is saved."""

from dataclasses import dataclass
from pathlib import Path

from tacthmc import _checks as checks


@dataclass(frozen=True)
class Store:
    """A folder for a run, for :func:`tacthmc.sample`; its path alone will do.

    Draws and statistics stream to it, and a run that was interrupted in any way goes on with
    :func:`tacthmc.resume`.

    >>> Store("runs/first", checkpoint_seconds=30.0).checkpoint_steps is None
    True
    """

    path: str | Path
    """A new folder."""
    checkpoint_seconds: float | None = 120.0
    """No more than this is ever computed again."""
    checkpoint_steps: int | None = None
    """The same in steps; both may be given."""

    def __post_init__(self) -> None:
        """Refuse what is no path, and intervals that are none."""
        if not isinstance(self.path, (str, Path)):
            raise TypeError(f"store must be the path of a folder, or a Store; got {self.path!r}")
        if self.checkpoint_seconds is not None:
            checks.positive("Store.checkpoint_seconds", self.checkpoint_seconds)
        if self.checkpoint_steps is not None:
            checks.whole("Store.checkpoint_steps", self.checkpoint_steps, 1)

    def check(self, every: int) -> None:
        """Refuse intervals between checkpoints that cannot be kept."""
        if self.checkpoint_steps is not None and self.checkpoint_steps < 2 * every:
            raise ValueError(
                f"Store.checkpoint_steps is {self.checkpoint_steps}; expected at least twice"
                f" Keep.every, {2 * every}: a checkpoint comes after whole intervals of {every} steps"
            )

    def commit_intervals(self, every: int) -> int | None:
        """Intervals of ``every`` steps between two checkpoints, if steps count.

        Half of what was asked for: while one checkpoint is being written the one before it
        is the newest, and still no more than the interval asked for is computed again.
        """
        return None if self.checkpoint_steps is None else self.checkpoint_steps // (2 * every)


def as_store(store: Store | str | Path, every: int) -> Store:
    """What ``store=`` was given, as a :class:`Store` that suits intervals of ``every`` steps."""
    store = store if isinstance(store, Store) else Store(store)
    store.check(every)
    return store
