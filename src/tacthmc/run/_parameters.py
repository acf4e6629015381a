"""The rows of a summary: the statistics of single scalars, the worst first."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from tacthmc._positions import dimension
from tacthmc.diagnostics._limits import fewest_effective, rhat_limits
from tacthmc.diagnostics._statistics import Statistics
from tacthmc.run._scalars import Scalars, all_scalars, scalars_named, statistics_of

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_SHOWN_PARAMETERS = 16
"""The largest number of rows of a table."""
MIN_DRAWS = 4
"""The smallest number of draws of a chain from which it can be said that a scalar never moves."""


class Parameter(NamedTuple):
    """Statistics of one scalar of the position, over the draws of all chains."""

    name: str
    mean: float
    sd: float
    q5: float
    """The value below which 5% of the draws lie."""
    median: float
    q95: float
    mcse: float
    """The Monte-Carlo standard error of the mean."""
    ess: float
    """Effective draws of the bulk."""
    ess_tail: float
    """Effective draws of the 5% and 95% quantiles, the smaller of the two."""
    rhat: float


class Judged(NamedTuple):
    """The statistics of a run's scalars with what is wrong with them.

    Arrays have one entry for each scalar of ``scalars.numbers``, and then one for each function.
    """

    scalars: Scalars
    names: list[str]
    rhat: Float[np.ndarray, " k"]
    limits: Float[np.ndarray, " k"]
    """The largest R-hat by chance."""
    excess: Float[np.ndarray, " k"]
    """R-hat over its limit: above one, chains disagree."""
    within: Float[np.ndarray, " k"]
    """The fewest effective draws within chains, of place and width."""
    fewest: float
    """The number below which these are too few."""
    lost: Bool[np.ndarray, " k"]
    """Whether a draw is not finite."""
    constant: Bool[np.ndarray, " k"]
    """Whether it never moved."""
    still: Int[np.ndarray, " k"]
    """The first chain that stood still while others moved, or −1."""

    @property
    def order(self) -> Int[np.ndarray, " k"]:
        """The places of the scalars, the worst first; those that are right as they come."""
        count = len(self.scalars.numbers)
        wrong = self.excess[:count] > 1
        few = self.within[:count] < self.fewest
        # Of few parameters, those that are right keep their order.
        others = 0.0 if self.scalars.total <= MAX_SHOWN_PARAMETERS else self.rhat[:count]
        rank = np.nan_to_num(np.where(wrong | few, self.excess[:count], others), nan=0.0)
        keys = (few, wrong, self.still[:count] >= 0, self.constant[:count], self.lost[:count])
        return np.lexsort((-rank, *(~key for key in keys)))


def judged(run: "Run") -> Judged | None:
    """Look at all scalars of a run; None without draws."""
    if not run.num_draws:
        return None
    scalars = all_scalars(run)
    both = [scalars.statistics, scalars.of_functions]
    # The law of the largest holds for all scalars, though only some of them are ranked.
    count = scalars.total + len(scalars.functions)
    parts = []
    for rhats in ([s.location for s in both], [s.scale for s in both]):
        rhat = np.concatenate([part.rhat for part in rhats])
        within = np.concatenate([part.within for part in rhats])
        parts.append((rhat, within, rhat_limits(within, run.num_chains, run.num_draws, count)))
    (rhat, within, limit), (other, also, second) = parts
    excess = np.fmax(rhat / limit, other / second)
    extra = len(scalars.functions)
    found, places = scalars.screened, scalars.numbers
    moves = run.num_draws >= MIN_DRAWS
    return Judged(
        scalars,
        [*scalars_named(run, scalars.numbers), *scalars.functions],
        np.fmax(rhat, other),
        np.where(other / second > rhat / limit, second, limit),
        excess,
        np.fmin(within, also),
        fewest_effective(run.num_chains, count),
        np.append(found.lost[places], np.zeros(extra, bool)),
        np.append(found.constant[places] & moves, np.zeros(extra, bool)),
        np.append(found.still[places], np.full(extra, -1)),
    )


def shown_parameters(found: Judged) -> list[Parameter]:
    """The rows of the table."""
    places = found.order[:MAX_SHOWN_PARAMETERS]
    names = [found.names[place] for place in places]
    return rows(names, found.scalars.statistics.taken(places))


def function_rows(found: Judged) -> list[Parameter]:
    """The rows of functions of the whole position."""
    return rows(list(found.scalars.functions), found.scalars.of_functions)


def rows(names: list[str], found: Statistics) -> list[Parameter]:
    """A row for each scalar."""
    columns = (*found.columns, found.rhat)
    values = zip(*(column.tolist() for column in columns), strict=True)
    return [Parameter(name, *each) for name, each in zip(names, values, strict=True)]


def every_row(run: "Run") -> list[Parameter]:
    """The rows of all scalars of the position, in their order."""
    numbers = np.arange(dimension(run.draw_shapes()))
    names, found = scalars_named(run, numbers), run.judged
    if found is None:
        return empty_rows(names)
    whole = found.scalars.all_ranked and found.scalars.stride == 1
    return rows(names, found.scalars.statistics if whole else statistics_of(run, numbers))


def empty_rows(names: list[str]) -> list[Parameter]:
    """The rows of a run without draws."""
    nan = float("nan")
    return [Parameter(name, nan, nan, nan, nan, nan, nan, 0.0, 0.0, nan) for name in names]
