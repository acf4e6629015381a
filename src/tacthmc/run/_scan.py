"""One pass over all draws of all scalars: moments, what stands still, and random projections.

Draws are read in blocks of rows of one leaf at a time, from memory or from disk. The pass holds a
few numbers for each scalar of the largest leaf, which is as much as a few draws of it. For very
many values it takes every second, third or further draw.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from tacthmc._positions import dimension
from tacthmc.diagnostics._moments import Moments, Screened

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_READ = 500_000_000
"""The number of values beyond which not every draw is read, about a second of work."""
MAX_SUMMED = 50_000_000
"""The number of values beyond which not every draw that is read enters the moments."""
MIN_DRAWS = 64
"""The number of draws of a chain to which they are thinned at most."""
BLOCK = 1 << 22
"""The number of values that are read at a time, if a single draw has not more."""
PILOT_DRAWS, PILOT_CHAINS = 8, 8
"""The number of draws and chains that give the place and the scale of each scalar."""
PROJECTIONS = 8
"""The number of random projections."""
PROJECTION_SEED = 20_200
"""Projections are the same for every run."""


class Scan(NamedTuple):
    """What the pass found for each scalar, in the order of the leaves."""

    screened: Screened
    projections: Float[np.ndarray, "chains draws p"]
    """Sums of all scalars with random signs, each in units of its standard deviation."""
    summed: slice
    """The draws of each chain that moments and projections are of."""


class Rows(NamedTuple):
    """Which draws of each chain are looked at: all, or evenly spaced ones."""

    draws: int
    """The number of draws of a chain."""
    read: int
    """One in so many draws is read."""
    thin: int
    """One in so many draws that are read enters the moments."""

    @property
    def whole(self) -> slice:
        """The draws that are read."""
        return slice(0, self.draws, self.read)

    @property
    def summed(self) -> slice:
        """The draws that enter the moments."""
        return slice(0, self.draws, self.read * self.thin)


def rows_of(run: "Run") -> Rows:
    """All draws of the rectangle, or evenly spaced ones if there are very many values."""
    values = run.num_draws * run.num_chains * dimension(run.draw_shapes())
    most = max(1, run.num_draws // MIN_DRAWS)
    read = min(max(1, -(-values // MAX_READ)), most)
    thin = min(max(1, -(-values // read // MAX_SUMMED)), max(1, most // read))
    return Rows(run.num_draws, read, thin)


def scanned(run: "Run", project: bool) -> Scan:
    """Pass over all scalars of a run that has draws, and ``project`` them if asked to."""
    rows = rows_of(run)
    count = length(rows.summed)
    weights = np.ones((run.num_chains, count))
    if run.keep.all_temperatures:
        weights = np.exp(run.log_weights)[:, rows.summed]
    sums = np.zeros((run.num_chains, count, PROJECTIONS if project else 0))
    shapes = jax.tree.leaves(run.draw_shapes())
    parts = [_leaf(run, number, rows, weights, sums) for number in range(len(shapes))]
    screened = Screened(*map(np.concatenate, zip(*parts, strict=True)))
    return Scan(screened, sums, rows.summed)


def length(rows: slice) -> int:
    """The number of draws in a slice that has an end."""
    return len(range(*rows.indices(rows.stop)))


def _leaf(run: "Run", number: int, rows: Rows, weights: np.ndarray, sums: np.ndarray) -> Screened:
    """The moments of one leaf; adds its part to the projections in ``sums``."""
    center, scale = _pilot(run, number)
    moments, count = Moments(center, scale), weights.shape[1]
    random = np.random.default_rng([PROJECTION_SEED, number])
    signs = 2 * random.integers(0, 2, (len(center), sums.shape[2]), np.int8) - 1
    middle = count - count // 2
    for chain in range(run.num_chains):
        # Of an odd number of draws the one in the middle belongs to the first half.
        for begin, end in ((0, middle), (middle, count)):
            for at, values in _blocks(run, number, chain, rows, begin, end):
                moments.bounds(values)
                some = values[:: rows.thin]
                away = moments.add(some, weights[chain, at : at + len(some)])
                if sums.shape[2]:
                    # A lost value would be lost in all projections. It has a warning of its own.
                    away[~np.isfinite(away)] = 0
                    sums[chain, at : at + len(some)] += away @ signs.astype(away.dtype)
            moments.end_half(chain)
    return moments.screened()


def _blocks(
    run: "Run", number: int, chain: int, rows: Rows, begin: int, end: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of draws as rows, from ``begin`` to ``end`` of those that are summed, with places."""
    size = max(1, dimension(jax.tree.leaves(run.draw_shapes())[number]))
    step, stride = max(1, BLOCK // size // rows.thin), rows.read * rows.thin
    for at in range(begin, end, step):
        stop = min(min(at + step, end) * stride, rows.draws)
        yield at, _flat(run.leaf_draws(number, chain, slice(at * stride, stop, rows.read)))


def _pilot(run: "Run", number: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean and standard deviation of each scalar in a few draws."""
    some = slice(0, run.num_draws, max(1, run.num_draws // PILOT_DRAWS))
    chains = np.unique(np.linspace(0, run.num_chains - 1, PILOT_CHAINS).astype(int))
    drawn = [_flat(run.leaf_draws(number, int(chain), some)) for chain in chains]
    few = np.concatenate(drawn).astype(float)
    with np.errstate(invalid="ignore", over="ignore"):
        center, scale = few.mean(axis=0), few.std(axis=0)
    usable = np.isfinite(scale) & (scale > 0)
    return np.where(np.isfinite(center), center, 0.0), np.where(usable, scale, 1.0)


def gathered(
    run: "Run", numbers: Int[np.ndarray, " k"], rows: slice
) -> Float[np.ndarray, "chains draws k"]:
    """Some scalars, by their rising numbers among all of the position."""
    if not run.num_draws or not len(numbers):
        return np.zeros((run.num_chains, run.num_draws, len(numbers)))
    found, first = [], 0
    for number, leaf in enumerate(jax.tree.leaves(run.draw_shapes())):
        size = dimension(leaf)
        mine = numbers[(numbers >= first) & (numbers < first + size)] - first
        first += size
        if len(mine):
            chains = [_columns(run, number, c, rows, mine) for c in range(run.num_chains)]
            found.append(np.stack(chains))
    return np.concatenate(found, axis=2)


def _columns(
    run: "Run", number: int, chain: int, rows: slice, columns: np.ndarray
) -> Float[np.ndarray, "draws k"]:
    plain = Rows(rows.stop, rows.step, 1)
    blocks = _blocks(run, number, chain, plain, 0, length(rows))
    return np.concatenate([values[:, columns] for _, values in blocks])


def _flat(values: np.ndarray) -> Float[np.ndarray, "rows k"]:
    return np.asarray(values).reshape(len(values), -1)
