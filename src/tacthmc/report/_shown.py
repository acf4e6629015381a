"""The content of a report: the draws of a few parameters, and as many rows as can be shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacthmc._positions import dimension
from tacthmc.diagnostics._modes import Modes, find_modes
from tacthmc.run._found_modes import close_draws, close_scalars
from tacthmc.run._parameters import Parameter, rows
from tacthmc.run._result import Run
from tacthmc.run._scalars import scalar_numbers, scalars_named, statistics_of
from tacthmc.run._summary import Summary

MAX_CHAINS, MAX_PARAMETERS, MAX_POINTS, MAX_ROWS = 8, 4, 2000, 500
"""The largest numbers of chains, parameters, points per figure and rows per chain in a report."""
MAX_OF_LEAF = 8
"""The largest number of scalars that the name of a leaf stands for."""


@dataclass(frozen=True)
class ReferenceDensity:
    """A known density of one coordinate, to plot over the marginals.

    >>> import numpy as np
    >>> x = np.linspace(-4, 4, 101)
    >>> normal = ReferenceDensity(x, np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi))
    >>> round(float(normal.density.max()), 3)
    0.399
    """

    x: np.ndarray
    density: np.ndarray


class Shown:
    """A run as it is shown in a report. Expensive results are cached."""

    def __init__(
        self,
        name: str,
        run: Run,
        chosen: Sequence[str] | None = None,
        references: dict[str, ReferenceDensity] | None = None,
    ):
        """Show the scalars or leaves ``chosen``; by default suspicious ones and the first."""
        self.name, self.run, self.references = name, run, references or {}
        self._asked = _chosen(run, chosen)
        # A lost draw has no place in a figure. The table has its row.
        lost = run.judged.scalars.screened.lost if run.judged is not None else None
        self._numbers = [n for n in self._asked if lost is None or not lost[n]]
        self.names = scalars_named(run, np.array(self._numbers, int))
        """The names of the parameters in figures."""

    @cached_property
    def summary(self) -> Summary:
        """The summary of the run."""
        return self.run.summary()

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The rows of the table: those of the summary, and the other chosen ones."""
        known = {p.name for p in self.summary.parameters}
        asked = np.sort(np.array(self._asked, int))
        names = scalars_named(self.run, asked)
        more = asked[[name not in known for name in names]]
        if not self.run.num_draws or not more.size:
            return self.summary.parameters
        found = rows(scalars_named(self.run, more), statistics_of(self.run, more))
        return self.summary.parameters + found

    def _pairs(self) -> Iterable[tuple[int, str]]:
        return zip(self._numbers, self.names, strict=True)

    @property
    def first(self) -> Parameter:
        """The row of the first shown parameter."""
        mine = [p for p in self.parameters if p.name in self.names[:1]]
        return (mine or self.parameters)[0]

    @property
    def rows(self) -> int:
        """The number of rows of the trace, which is 0 at the start of a run."""
        return self.run.trace["step"].shape[1]

    @property
    def known(self) -> bool:
        """Whether the sampler is known, and with it the well of ξ."""
        return self.run.sampler_is_known

    @property
    def which(self) -> str:
        """A description of the draws."""
        if self.run.keep.all_temperatures:
            return "Draws of all temperatures, weighted to unit temperature"
        return "Draws at unit temperature" if self.run.has_tempering else "Kept draws"

    @cached_property
    def draws(self) -> dict[str, np.ndarray]:
        """The draws of the parameters at unit temperature, each (chain, draw).

        Draws of all temperatures are resampled by their weights, so that every figure shows the
        posterior.
        """
        rising = np.sort(self._numbers)
        values = close_draws(self.run, rising, most=self.run.num_draws * self.run.num_chains)
        where = {int(number): place for place, number in enumerate(rising)}
        return {name: values[:, :, where[number]] for number, name in self._pairs()}

    @property
    def num_draws(self) -> int:
        """The number of draws per chain, and zero if there is no parameter to show."""
        return self.run.num_draws if self.names else 0

    @cached_property
    def modes(self) -> Modes | None:
        """The modes of the shown parameters over all chains; None with too few draws."""
        if self.num_draws < 2:
            return None
        flat = np.stack([values.ravel() for values in self.draws.values()], axis=1)
        return find_modes(flat) if np.all(np.isfinite(flat)) else None

    @cached_property
    def mode_of(self) -> np.ndarray | None:
        """The mode of each draw, (chain, draw)."""
        if self.modes is None:
            return None
        return self.modes.labels.reshape(self.run.num_chains, -1)

    @cached_property
    def chains(self) -> list[int]:
        """The numbers of the shown chains."""
        return list(range(min(self.run.num_chains, MAX_CHAINS)))

    def usable(self, column: str) -> np.ndarray:
        """A column of the trace after warm-up."""
        return np.asarray(self.run.after_warmup(column), float)


def every(count: int, most: int) -> int:
    """The stride that shows at most ``most`` of ``count``.

    >>> every(2000, 2000), every(2001, 2000)
    (1, 2)
    """
    return max(1, -(-count // most))


def _chosen(run: Run, chosen: Sequence[str] | None) -> list[int]:
    """The numbers of the scalars to show: those asked for, with the first ones of whole leaves."""
    if chosen is not None:
        asked = [scalar_numbers(run, name)[:MAX_OF_LEAF].tolist() for name in chosen]
        return list(dict.fromkeys(number for group in asked for number in group))
    if run.judged is None:
        return list(range(min(dimension(run.draw_shapes()), MAX_PARAMETERS)))
    return close_scalars(run.judged).tolist()
