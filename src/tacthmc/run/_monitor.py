"""What a person, or a callback, is told of a run while it goes on."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacthmc.run._chunk import Kept


@dataclass(frozen=True)
class Snapshot:
    """A run after a chunk. A callback that returns True ends the run there, all saved.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> def enough(snapshot):
    ...     return snapshot.kept.min() >= 10
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 10**9,
    ...                      num_warmup=0, callbacks=[enough])
    >>> run.interrupted, run.num_draws >= 10
    (True, True)
    """

    step: int
    num_steps: int
    seconds: float
    steps_per_second: float
    """Steps of one chain a second, over the last chunks."""
    kept: np.ndarray
    """Draws of each chain so far."""
    plateau_share: np.ndarray
    """Each chain's share of steps at unit temperature, since this process began."""
    rows: dict[str, np.ndarray]
    """The statistics of this chunk, each (chain, row), as in ``run.trace``."""
    draws: dict[int, Kept] = field(default_factory=dict)
    """The draws of this chunk by chain: ``position`` (and ``model``) with a leading draw axis.
    With a store, those of the chains that this process has."""

    def last(self, name: str) -> np.ndarray | None:
        """The last value of a statistic in each chain; None where there is none."""
        return self.rows[name][:, -1] if name in self.rows else None

    @property
    def seconds_left(self) -> float:
        """As far as can be told."""
        return (self.num_steps - self.step) / max(self.steps_per_second, 1e-9)


class Monitor:
    """Adds chunks up."""

    def __init__(self, num_chains: int, num_steps: int, counts: np.ndarray, begun: float):
        """``counts`` and ``begun`` are the draws and seconds that a resumed run already has."""
        self._begun = begun
        self._kept, self._num_steps = np.array(counts, int), num_steps
        self._plateau, self._rows = np.zeros(num_chains), 0
        # Over some chunks: the end of one alone is seen too coarsely.
        self._recent: deque[tuple[float, int]] = deque(maxlen=20)

    def add(
        self,
        step: int,
        made: int,
        columns: dict[str, Any],
        draws: dict[int, Kept],
        seconds: float,
    ) -> Snapshot:
        """The picture after a chunk of ``made`` steps, so many seconds into the run."""
        if not self._recent:
            self._recent.append((self._begun, step - made))
        then, before = self._recent[0]
        self._recent.append((seconds, step))
        self._kept = self._kept + columns["keep"].sum(axis=1)
        self._plateau = self._plateau + columns["plateau_share"].sum(axis=1)
        self._rows += columns["step"].shape[1]
        return Snapshot(
            step=step,
            num_steps=self._num_steps,
            seconds=seconds,
            steps_per_second=(step - before) / max(seconds - then, 1e-9),
            kept=self._kept,
            plateau_share=self._plateau / self._rows,
            rows=columns,
            draws=draws,
        )
