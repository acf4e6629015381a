"""The settings of a stored run: its folder, and how often its state is saved."""

from dataclasses import dataclass
from pathlib import Path

from tacthmc import _checks as checks

CONFIG = "config.json"
"""A file that exists if and only if a folder holds a run."""


@dataclass(frozen=True)
class Store:
    """A folder for a run, for :func:`tacthmc.sample`. A path alone has the default settings.

    Draws and statistics stream to it, and :func:`tacthmc.resume` continues a run that was
    interrupted in any way.

    >>> Store("runs/first", checkpoint_seconds=30.0).checkpoint_steps is None
    True
    """

    path: str | Path
    """A new folder."""
    checkpoint_seconds: float | None = 120.0
    """The most computing time, in seconds, that an interruption can lose."""
    checkpoint_steps: int | None = None
    """The largest number of steps that an interruption can lose. Both limits may be given."""
    with_program: bool = True
    """Whether the folder also stores the sampler, the potential and its data, so that the run can
    be resumed from it alone. Otherwise they have to be passed to :func:`tacthmc.resume`."""

    def __post_init__(self) -> None:
        """Check the path and the limits."""
        if not isinstance(self.path, (str, Path)):
            raise TypeError(f"store must be the path of a folder, or a Store; got {self.path!r}")
        if self.checkpoint_seconds is not None:
            checks.positive("Store.checkpoint_seconds", self.checkpoint_seconds)
        if self.checkpoint_steps is not None:
            checks.whole("Store.checkpoint_steps", self.checkpoint_steps, 1)
        checks.flag("Store.with_program", self.with_program)

    @property
    def holds_run(self) -> bool:
        """Whether the folder has a run, which can be loaded or resumed."""
        return (Path(self.path) / CONFIG).exists()

    def check(self, every: int) -> None:
        """Check the limits against the number of steps in an interval."""
        if self.checkpoint_steps is not None and self.checkpoint_steps < 2 * every:
            raise ValueError(
                f"Store.checkpoint_steps is {self.checkpoint_steps}; expected at least twice"
                f" Keep.every, {2 * every}: a checkpoint comes after whole intervals of {every}"
                " steps"
            )

    def commit_intervals(self, every: int) -> int | None:
        """The number of intervals of ``every`` steps between two checkpoints, if steps count.

        It is half of the limit. While a checkpoint is being written the previous one is the newest,
        and the number of steps since then is still within the limit.
        """
        return None if self.checkpoint_steps is None else self.checkpoint_steps // (2 * every)


def as_store(store: Store | str | Path, every: int) -> Store:
    """The argument ``store`` as a :class:`Store`, checked for intervals of ``every`` steps."""
    store = store if isinstance(store, Store) else Store(store)
    store.check(every)
    return store
