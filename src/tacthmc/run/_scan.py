"""One pass over all draws of all scalars: moments, what stands still, and random projections.

Draws are read in blocks of rows of one leaf at a time, from memory or from disk. The pass holds a
few numbers for each scalar of the largest leaf, which is as much as a few draws of it. For very many
values it takes every second, fourth or further draw.
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

MAX_VALUES = 200_000_000
"""The number of values beyond which draws are thinned, a few seconds of work."""
MIN_DRAWS = 64
"""The number of draws of a chain to which they are thinned at most."""
BLOCK = 1 << 20
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
    rows: slice
    """The draws of each chain that were looked at."""


def rows_of(run: "Run") -> slice:
    """All draws of the rectangle, or evenly spaced ones if there are very many values."""
    values = run.num_draws * run.num_chains * dimension(run.draw_shapes())
    stride = min(-(-values // MAX_VALUES), max(1, run.num_draws // MIN_DRAWS))
    return slice(0, run.num_draws, max(1, stride))


def scanned(run: "Run", project: bool) -> Scan:
    """Pass over all scalars of a run that has draws, and ``project`` them if asked to."""
    rows = rows_of(run)
    count = len(range(*rows.indices(rows.stop)))
    weights = np.ones((run.num_chains, count))
    if run.keep.all_temperatures:
        weights = np.exp(run.log_weights)[:, rows]
    sums = np.zeros((run.num_chains, count, PROJECTIONS if project else 0))
    shapes = jax.tree.leaves(run.draw_shapes())
    parts = [_leaf(run, number, rows, weights, sums) for number in range(len(shapes))]
    screened = Screened(*map(np.concatenate, zip(*parts, strict=True)))
    return Scan(screened, sums, rows)


def _leaf(run: "Run", number: int, rows: slice, weights: np.ndarray, sums: np.ndarray) -> Screened:
    """The moments of one leaf; adds its part to the projections in ``sums``."""
    center, scale = _pilot(run, number, rows)
    moments = Moments(center, scale)
    random = np.random.default_rng([PROJECTION_SEED, number])
    signs = random.choice(np.array([-1.0, 1.0]), (len(center), sums.shape[2]))
    half = weights.shape[1] // 2
    for chain in range(run.num_chains):
        # Of an odd number of draws the one in the middle belongs to the first half.
        for begin, end in ((0, weights.shape[1] - half), (weights.shape[1] - half, None)):
            stop = weights.shape[1] if end is None else end
            for at, values in _blocks(run, number, chain, rows, begin, stop):
                away = moments.add(values, weights[chain, at : at + len(values)])
                if sums.shape[2]:
                    # A lost value would be lost in all projections. It has a warning of its own.
                    sums[chain, at : at + len(values)] += np.nan_to_num(away) @ signs
            moments.end_half(chain)
    return moments.screened()


def _blocks(
    run: "Run", number: int, chain: int, rows: slice, begin: int, stop: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of the draws from ``begin`` to ``stop`` of those in ``rows``, flat, with places."""
    size = max(1, dimension(jax.tree.leaves(run.draw_shapes())[number]))
    step = max(1, BLOCK // size)
    for at in range(begin, stop, step):
        until = min(at + step, stop)
        stride = rows.step
        place = slice(at * stride, (until - 1) * stride + 1, stride)
        yield at, _flat(run.leaf_draws(number, chain, place))


def _pilot(run: "Run", number: int, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """The mean and standard deviation of each scalar in a few draws."""
    stride = max(1, rows.stop // PILOT_DRAWS)
    chains = np.unique(np.linspace(0, run.num_chains - 1, PILOT_CHAINS).astype(int))
    some = [_flat(run.leaf_draws(number, int(c), slice(0, rows.stop, stride))) for c in chains]
    few = np.concatenate(some).astype(float)
    with np.errstate(invalid="ignore", over="ignore"):
        center, scale = few.mean(axis=0), few.std(axis=0)
    usable = np.isfinite(scale) & (scale > 0)
    return np.where(np.isfinite(center), center, 0.0), np.where(usable, scale, 1.0)


def gathered(
    run: "Run", numbers: Int[np.ndarray, " k"], rows: slice
) -> Float[np.ndarray, "chains draws k"]:
    """Some scalars, by their rising numbers among all of the position."""
    if not run.num_draws:
        return np.zeros((run.num_chains, 0, len(numbers)))
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
    count = len(range(*rows.indices(rows.stop)))
    blocks = _blocks(run, number, chain, rows, 0, count)
    return np.concatenate([values[:, columns] for _, values in blocks])


def _flat(values: np.ndarray) -> Float[np.ndarray, "rows k"]:
    """Draws of a leaf as rows, at least in double precision's range of single precision."""
    return np.asarray(values).reshape(len(values), -1)
