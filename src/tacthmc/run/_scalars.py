"""Statistics of all scalars of a run, or of the worst and of some others if there are very many.

Every scalar is screened in one pass (:mod:`tacthmc.run._scan`). Ranks and Fourier transforms follow
for all of them as long as that takes about a second. Beyond, they follow for the scalars that the
pass found worst, for evenly spaced ones, and for functions of the whole position: the energy, and
sums of all scalars with random signs.
"""

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from tacthmc import _checks as checks
from tacthmc._positions import dimension, leaf_names
from tacthmc.diagnostics._moments import Screened
from tacthmc.diagnostics._statistics import Statistics, joined, statistics
from tacthmc.run._scan import PROJECTIONS, gathered, length, rows_of, scanned

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_RANKED = 5_000_000
"""The number of values that are ranked, about a second of work."""
MIN_RANKED_SCALARS = 48
"""The smallest number of scalars that are ranked, if the position has as many."""
MAX_SUGGESTED = 1000
"""The number of scalars among which a mistyped name is searched."""
WORST_SHARE = 0.5
"""The share of the ranked scalars that are chosen because they look worst."""


class Scalars(NamedTuple):
    """What is known of the scalars of a run."""

    total: int
    """The number of all scalars of the position."""
    numbers: Int[np.ndarray, " k"]
    """Those with full statistics, rising."""
    statistics: Statistics
    """Their statistics."""
    screened: Screened
    """What one pass found for all."""
    functions: tuple[str, ...]
    """The names of functions of the whole position."""
    of_functions: Statistics
    """The statistics of these."""
    stride: int
    """The statistics of scalars are of one in so many draws."""
    stride_of_functions: int
    """The pass, and the statistics of functions, are of one in so many draws."""

    @property
    def all_ranked(self) -> bool:
        """Whether every scalar has full statistics."""
        return len(self.numbers) == self.total

    @property
    def looked_at(self) -> int:
        """The number of scalars and functions with full statistics."""
        return len(self.numbers) + len(self.functions)


def all_scalars(run: "Run") -> Scalars:
    """Look at all scalars of a run with draws."""
    total, rows = dimension(run.draw_shapes()), rows_of(run)
    draws = run.num_chains * length(rows.whole)
    most = max(MIN_RANKED_SCALARS, MAX_RANKED // max(draws, 1))
    scan = scanned(run, project=total > most)
    numbers = np.arange(total) if total <= most else _chosen(scan.screened, most)
    names, values = _functions(run, scan.summed, scan.projections)
    return Scalars(
        total,
        numbers,
        statistics(gathered(run, numbers, rows.whole), _weights(run, rows.whole)),
        scan.screened,
        names,
        statistics(values, _weights(run, scan.summed)),
        rows.read,
        rows.read * rows.thin,
    )


def statistics_of(run: "Run", numbers: Int[np.ndarray, " k"]) -> Statistics:
    """Full statistics of scalars by their rising numbers, with as much work as that takes."""
    rows = slice(0, run.num_draws, 1)
    weights = _weights(run, rows)
    width = max(1, MAX_RANKED // max(run.num_chains * run.num_draws, 1))
    groups = [numbers[i : i + width] for i in range(0, len(numbers), width)]
    return joined([statistics(gathered(run, group, rows), weights) for group in groups])


def _weights(run: "Run", rows: slice) -> np.ndarray | None:
    return np.exp(run.log_weights)[:, rows] if run.keep.all_temperatures else None


def _chosen(screened: Screened, most: int) -> Int[np.ndarray, " k"]:
    """The worst scalars by one pass, and evenly spaced ones."""
    rhat = np.where(np.isnan(screened.rhat), np.inf, screened.rhat)
    worst = np.argsort(-rhat, kind="stable")[: int(WORST_SHARE * most)]
    others = np.linspace(0, len(rhat) - 1, most - len(worst)).astype(int)
    return np.unique(np.concatenate([worst, others]))


def _functions(
    run: "Run", rows: slice, projections: np.ndarray
) -> tuple[tuple[str, ...], np.ndarray]:
    """The energy where chains share one, and the random projections: names and values."""
    names, values = [], [projections]
    if projections.shape[2]:
        names = [f"projection {k + 1}" for k in range(PROJECTIONS)]
    energy = run.stats.get("energy")
    if energy is not None and _is_shared(run):
        energy = np.asarray(energy, float)[:, rows, None]
        # With weights, a draw without a finite energy has none.
        if np.isfinite(energy).all() and np.ptp(energy) > 0:
            names, values = ["energy", *names], [energy, *values]
    return tuple(names), np.concatenate(values, axis=2)


def _is_shared(run: "Run") -> bool:
    """Whether the energy of all chains is the same function, as far as is known."""
    if not run.program_is_known:
        return True
    return run.potential.traits.num_chains is None


def scalars_named(run: "Run", numbers: Int[np.ndarray, " k"]) -> list[str]:
    """The names of scalars by their numbers."""
    shapes = run.draw_shapes()
    leaves, names = jax.tree.leaves(shapes), leaf_names(shapes)
    firsts = _firsts(leaves)
    which = np.searchsorted(firsts, numbers, side="right") - 1
    found = []
    for number, leaf in zip(numbers, which, strict=True):
        index = np.unravel_index(number - firsts[leaf], leaves[leaf].shape)
        label = f"[{','.join(map(str, index))}]" if len(index) else ""
        found.append(names[leaf] + label)
    return found


def scalar_numbers(run: "Run", name: str) -> Int[np.ndarray, " k"]:
    """The number of the scalar with this name, or those of all scalars of the leaf."""
    shapes = run.draw_shapes()
    leaves, names = jax.tree.leaves(shapes), leaf_names(shapes)
    firsts = _firsts(leaves)
    for leaf, first, own in zip(leaves, firsts, names, strict=False):
        if name == own:
            return np.arange(first, first + dimension(leaf))
        place = _place_in(name.removeprefix(own), leaf.shape) if name.startswith(own) else None
        if place is not None:
            return np.array([first + place])
    total = dimension(shapes)
    known = scalars_named(run, np.arange(min(total, MAX_SUGGESTED)))
    near = checks.nearest(name, [*known, *names])
    hint = f"; the nearest is {near!r}" if near else ""
    raise ValueError(
        f"the run has no parameter {name!r}{hint}. It has {total:,}, the first is {known[0]!r}"
    )


def _firsts(leaves: list[Any]) -> Int[np.ndarray, " k"]:
    """The number of the first scalar of each leaf, and the number of all."""
    return np.cumsum([0, *(dimension(leaf) for leaf in leaves)])


def _place_in(label: str, shape: tuple[int, ...]) -> int | None:
    """The place in a flat array of an index such as ``[3,4]``, or None if it is none."""
    if not re.fullmatch(r"\[\d+(,\d+)*\]", label):
        return None
    index = [int(part) for part in label[1:-1].split(",")]
    if len(index) != len(shape) or any(i >= n for i, n in zip(index, shape, strict=True)):
        return None
    return int(np.ravel_multi_index(index, shape))
