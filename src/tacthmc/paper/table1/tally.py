"""What is noted on the host while a group runs: ξ's journeys, failures, curves, seconds."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tacthmc.run._chunk import Filled

Numbers = list[float | None]


@dataclass
class Tally:
    """Lists have an entry for each chain."""

    epoch: int
    intervals: int
    plateau: list[float]
    """Sums over intervals of the share of steps at unit temperature."""
    round_trips: list[int]
    hottest: list[float]
    kinetic: list[float]
    """Sums over intervals of the kinetic temperature; NaN once a chain has diverged."""
    diverged: list[int]
    """The first step after which a chain was not finite; 0: none."""
    curve: list[dict[str, Any]]
    sampling_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    compile_seconds: float = 0.0

    @classmethod
    def none(cls, chains: int) -> "Tally":
        """Before the first epoch."""
        zeros = [0.0] * chains
        nothing = [0] * chains
        return cls(0, 0, [*zeros], [*nothing], [*zeros], [*zeros], [*nothing], [])

    def some(self, numbers: list[int]) -> "Tally":
        """Of those chains, in that order; seconds begin anew.

        >>> tally = Tally.none(3)
        >>> tally.round_trips = [4, 5, 6]
        >>> tally.some([2, 0]).round_trips
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
        """As a checkpoint keeps it; numbers come back as they were, NaN too."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Tally":
        """Read back."""
        return cls(**fields)

    @property
    def all_diverged(self) -> bool:
        """Whether nothing is left to go on with."""
        return all(self.diverged)

    def take_in(self, filled: Filled, intervals: int) -> None:
        """Add an epoch's rows."""
        rows = filled.rows

        def column(name: str) -> np.ndarray | None:
            values = getattr(rows, name)
            return None if values is None else np.asarray(values)[:, :intervals]

        self.intervals += intervals
        self.diverged = np.asarray(filled.health.step).astype(int).tolist()
        for name, kept in (("plateau_share", "plateau"), ("kinetic_temperature", "kinetic")):
            values = column(name)
            if values is not None:
                before = np.array(getattr(self, kept))
                setattr(self, kept, (before + values.astype(float).sum(axis=1)).tolist())
        trips, heat = column("round_trips"), column("temperature")
        if trips is not None:
            self.round_trips = (np.array(self.round_trips) + trips.sum(axis=1)).tolist()
        if heat is not None and intervals:
            self.hottest = np.fmax(self.hottest, heat.astype(float).max(axis=1)).tolist()


def numbers(values: Any) -> Numbers:
    """Plain numbers, None for what is none.

    >>> numbers([0.5, float("nan")])
    [0.5, None]
    """
    found = np.asarray(values, float)
    return [float(x) if np.isfinite(x) else None for x in found]
