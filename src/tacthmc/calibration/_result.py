"""The result of a calibration: ranks, checks with p-values, and what they could have found."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from tacthmc.calibration._rank_band import RankBand, differences, rank_band, uniform_p_value
from tacthmc.calibration._scores import (
    LEAST_WIDTH,
    MOST_WIDTH,
    POWER,
    Interval,
    bias,
    bias_p_value,
    detectable_bias,
    detectable_widths,
    width,
    width_p_value,
)

LEAST_DRAWS = 20
"""With fewer independent draws per simulation, ranks say too little about the posterior's width."""
MOST_EMPTY = 0.01
"""The share of simulations that may be without a draw. Their ranks are random numbers."""
CHECKS = 3
"""Checks of a quantity: uniform ranks, place and width."""
LEAST_REMAINING = 0.85
UNINFORMED = (
    "The draws are about as wide as the prior. Ranks cannot tell a right posterior from one that"
    " ignores the data: does make_potential use them?"
)
SHOWN = 12
"""Quantities in the text of a calibration."""

Verdict = Literal["right", "wrong", "too short"]


class Row(NamedTuple):
    """What the ranks of one quantity say."""

    name: str
    bias: Interval
    """How far the draws lie too high, in right standard deviations."""
    width: Interval
    """The sampler's standard deviation over the right one."""
    ranks_p: float
    """The p-value of the simultaneous band."""
    bias_p: float
    width_p: float

    @property
    def least(self) -> float:
        """The smallest of the three p-values."""
        return min(self.ranks_p, self.bias_p, self.width_p)


@dataclass(frozen=True)
class Calibration:
    """What :func:`tacthmc.calibrate` found.

    >>> even = (np.arange(200) + 0.5) / 200
    >>> found = Calibration(("mu",), even[:, None], np.full(200, 100), distance=5)
    >>> found.verdict, found.rows[0].ranks_p > 0.5
    ('right', True)
    >>> Calibration(("mu",), even[:, None] ** 2, np.full(200, 100), distance=5).verdict
    'wrong'
    """

    names: tuple[str, ...]
    """The quantities."""
    ranks: np.ndarray
    """The normalized rank of the truth among the draws, (simulation, quantity), each in (0, 1).
    Ties and the space between two draws are divided at random, so that right ranks are uniform."""
    counts: np.ndarray
    """The number of nearly independent draws of each simulation."""
    distance: int
    """How many kept draws apart they are."""
    diverged: int = 0
    """The simulations whose chain did not stay finite. Their ranks are not there."""
    level: float = 0.01
    """The probability that a right sampler is called wrong."""
    remaining: tuple[float, ...] | None = None
    """The mean variance of each quantity's draws over that of its truths, without the energy."""

    @property
    def num_simulations(self) -> int:
        """The number of simulations with ranks."""
        return len(self.ranks)

    @property
    def num_draws(self) -> int:
        """The median number of independent draws of a simulation."""
        return int(np.median(self.counts)) if len(self.counts) else 0

    @property
    def num_checks(self) -> int:
        """The number of p-values."""
        return CHECKS * len(self.names)

    @property
    def level_of_each(self) -> float:
        """The level of one check, so that all of them together have ``level`` (Bonferroni)."""
        return self.level / self.num_checks

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """What the ranks of each quantity say; intervals have the level of one check."""
        if not self.num_simulations:
            return ()
        level, draws = self.level_of_each, max(self.num_draws, 1)
        return tuple(
            Row(
                name,
                bias(ranks, level),
                width(ranks, draws, level),
                uniform_p_value(ranks),
                bias_p_value(ranks),
                width_p_value(ranks),
            )
            for name, ranks in zip(self.names, self.ranks.T, strict=True)
        )

    @property
    def p_value(self) -> float:
        """The smallest p-value times their number, at most 1."""
        return min(1.0, self.num_checks * min((row.least for row in self.rows), default=0.0))

    @property
    def verdict(self) -> Verdict:
        """Whether the ranks are those of a right sampler; "too short" if there are too few draws.

        A chain that diverged makes the sampler wrong.
        """
        if self.diverged:
            return "wrong"
        if self.num_draws < LEAST_DRAWS or np.mean(self.counts < 1) > MOST_EMPTY:
            return "too short"
        return "wrong" if self.p_value < self.level else "right"

    @property
    def detectable_widths(self) -> tuple[float, float]:
        """Widths, too narrow and too wide, that would have been found with probability 95%."""
        return detectable_widths(self.num_simulations, max(self.num_draws, 1), self.level_of_each)

    @property
    def detectable_bias(self) -> float:
        """The bias in standard deviations that would have been found with probability 95%."""
        return detectable_bias(self.num_simulations, self.level_of_each)

    @property
    def band(self) -> RankBand:
        """The simultaneous band of one quantity at the level of one check."""
        return rank_band(self.num_simulations, self.level_of_each)

    def differences(self, name: str) -> np.ndarray:
        """The distribution function of the ranks of a quantity minus the uniform one."""
        return differences(self.ranks[:, self.names.index(name)])

    @property
    def conclusion(self) -> str:
        """The verdict in a sentence or two."""
        if self.diverged:
            return (
                f"wrong: {self.diverged} of {self.diverged + self.num_simulations} chains did not"
                " stay finite. Take a smaller step size."
            )
        verdict = self.verdict
        if verdict == "too short":
            return (
                f"too short: a simulation has {self.num_draws} independent draws (the median), and"
                f" {LEAST_DRAWS} are needed; {int(np.sum(self.counts < 1))} of {len(self.counts)}"
                " have none. Take more steps."
            )
        if verdict == "right":
            return f"right: no check of {self.num_checks} is below its level."
        wrong = [row.name for row in self.rows if row.least < self.level_of_each]
        return f"wrong: {_some(wrong)}. The smallest p-value of {self.num_checks} is too small."

    @property
    def uninformed(self) -> bool:
        """Whether the data narrow no quantity. Ranks cannot tell this from a right posterior."""
        return self.remaining is not None and min(self.remaining) > LEAST_REMAINING

    @property
    def power(self) -> str:
        """What would have been found, in a sentence."""
        if not self.num_simulations:
            return "Without simulations nothing would have been found."
        narrow, wide = self.detectable_widths
        if narrow <= LEAST_WIDTH or wide >= MOST_WIDTH:
            return "There are too few simulations to find a wrong width. Take more."
        return (
            f"A width {100 * (1 - narrow):.0f}% too small or {100 * (wide - 1):.0f}% too large, or"
            f" a bias of {self.detectable_bias:.2f} sd, would have been found with probability"
            f" {POWER:.0%}."
        )

    def __str__(self) -> str:
        """The table of all quantities, or of the worst."""
        shown = sorted(self.rows, key=lambda row: row.least)[:SHOWN]
        size = max([len("quantity"), *(len(row.name) for row in shown)])
        lines = [
            f"{self.num_simulations} simulations of {self.num_draws} independent draws",
            f"{'quantity':<{size}}  bias in sd         width ratio        p: ranks   bias  width",
        ]
        for row in shown:
            lines.append(
                f"{row.name:<{size}}  {_interval(row.bias, '+')}  {_interval(row.width, '')} "
                f"  {row.ranks_p:7.2g} {row.bias_p:6.2g} {row.width_p:6.2g}"
            )
        if len(shown) < len(self.rows):
            lines.append(f"… and {len(self.rows) - len(shown)} that differ less.")
        lines += [
            f"Intervals and p-values are for one check; a p-value below {self.level_of_each:.2g}"
            f" makes the verdict at level {self.level:g}.",
            self.power,
            self.conclusion,
        ]
        if self.uninformed:
            lines.append(UNINFORMED)
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Plot the ranks of every quantity against the band; returns the Matplotlib axes."""
        from tacthmc.calibration._plot import plot_ranks

        return plot_ranks(self, ax)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON, with the checks."""
        return {
            "names": list(self.names),
            "ranks": [[round(float(u), 6) for u in row] for row in self.ranks],
            "counts": [int(count) for count in self.counts],
            "distance": self.distance,
            "diverged": self.diverged,
            "level": self.level,
            "remaining": None if self.remaining is None else list(self.remaining),
            "verdict": self.verdict,
            "checks": [
                {
                    **row._asdict(),
                    "bias": row.bias._asdict(),
                    "width": row.width._asdict(),
                }
                for row in self.rows
            ],
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Calibration":
        """The calibration that :meth:`to_json` wrote."""
        return cls(
            names=tuple(fields["names"]),
            ranks=np.asarray(fields["ranks"], float).reshape(-1, len(fields["names"])),
            counts=np.asarray(fields["counts"], int),
            distance=fields["distance"],
            diverged=fields["diverged"],
            level=fields["level"],
            remaining=None if fields["remaining"] is None else tuple(fields["remaining"]),
        )


def _interval(interval: Interval, sign: str) -> str:
    value, low, high = interval
    return f"{value:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
