"""What the host notes while a group runs: ξ's journeys, failures, learning curves."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Numbers = list[float | None]


@dataclass
class Tally:
    """Lists have an entry for each chain."""

    epoch: int
    """Epochs that have ended."""
    intervals: int
    """Intervals of K steps since the chains' first step."""
    plateau: list[float]
    """Sums over intervals of the share of steps at unit temperature."""
    round_trips: list[int]
    hottest: list[float]
    kinetic: list[float]
    """Sums over intervals of the kinetic temperature; NaN once a chain has diverged."""
    diverged: list[int]
    """The first step after which a chain was not finite; 0 for a sound chain."""
    curve: list[dict[str, Any]]
    """Points of the learning curves: an ``epoch``, and scores by name."""
    evaluation_seconds: float = 0.0
    compile_seconds: float = 0.0
    """Seconds that the compilation of the evaluation took."""

    @classmethod
    def none(cls, chains: int) -> "Tally":
        """The tally before the first epoch."""
        zeros = [0.0] * chains
        nothing = [0] * chains
        return cls(0, 0, [*zeros], [*nothing], [*zeros], [*zeros], [*nothing], [])

    def pick(self, numbers: list[int]) -> "Tally":
        """The tally of the chains of these numbers, in that order; seconds begin at zero.

        >>> tally = Tally.none(3)
        >>> tally.round_trips = [4, 5, 6]
        >>> tally.pick([2, 0]).round_trips
        [6, 4]
        """

        def picked(values: list[Any]) -> list[Any]:
            return [values[n] for n in numbers]

        curve = [
            {name: v if name == "epoch" else picked(v) for name, v in point.items()}
            for point in self.curve
        ]
        names = ("plateau", "round_trips", "hottest", "kinetic", "diverged")
        own = (picked(getattr(self, name)) for name in names)
        return Tally(self.epoch, self.intervals, *own, curve=curve)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON, from which numbers come back exactly; NaN too."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Tally":
        """The tally that :meth:`to_json` wrote."""
        return cls(**fields)

    @property
    def all_diverged(self) -> bool:
        """Whether no chain is left to go on with."""
        return all(self.diverged)

    def take_in(self, rows: dict[str, np.ndarray], diverged: np.ndarray) -> None:
        """Add a chunk's rows, each (chain, interval), and the steps at which chains diverged.

        Sums are the same however the intervals are cut into chunks: rows are added one by one.

        >>> tally = Tally.none(1)
        >>> tally.take_in({"plateau_share": np.array([[0.5, 1.0]])}, np.array([0]))
        >>> tally.intervals, tally.plateau
        (2, [1.5])
        """
        self.diverged = np.asarray(diverged).astype(int).tolist()
        self.intervals += rows["plateau_share"].shape[1]
        self.plateau = _added_up(self.plateau, rows["plateau_share"])
        if "kinetic_temperature" in rows:
            self.kinetic = _added_up(self.kinetic, rows["kinetic_temperature"])
        if "round_trips" in rows:
            self.round_trips = (np.array(self.round_trips) + rows["round_trips"].sum(1)).tolist()
        if "temperature" in rows:
            heat = np.column_stack([self.hottest, rows["temperature"].astype(float)])
            self.hottest = np.fmax.reduce(heat, axis=1).tolist()


def _added_up(before: list[float], rows: np.ndarray) -> list[float]:
    """The sums with all rows, in double precision and in the rows' order."""
    return np.add.accumulate(np.column_stack([before, rows.astype(float)]), axis=1)[:, -1].tolist()


def numbers(values: Any) -> Numbers:
    """Plain numbers, with None for what is not finite.

    >>> numbers([0.5, float("nan")])
    [0.5, None]
    """
    found = np.asarray(values, float)
    return [float(x) if np.isfinite(x) else None for x in found]
