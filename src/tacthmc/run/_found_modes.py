"""The modes that valleys divide in the draws of a few scalars, chosen among all of them."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tacthmc.diagnostics._modes import find_modes
from tacthmc.run._parameters import Judged
from tacthmc.run._scalars import scalars_named
from tacthmc.run._scan import gathered

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_CLOSE, MAX_WORST, MAX_BIMODAL = 4, 1, 2
"""The number of scalars that are looked at closely, and of these the most that are there because
they are worst, and because they look as if they had two peaks."""
MIN_BIMODALITY = 5 / 9
"""Sarle's coefficient of a uniform law; two peaks have more."""
MAX_SEARCHED_DRAWS = 100_000
"""The number of draws beyond which modes are searched among every second, fourth or further one."""


class FoundModes(NamedTuple):
    """The modes of a run by its draws alone."""

    names: list[str]
    """The scalars in which they were searched."""
    shares: Float[np.ndarray, " modes"]
    labels: Int[np.ndarray, "chains draws"]
    """The mode of each draw that was looked at."""


def close_scalars(found: Judged) -> Int[np.ndarray, " k"]:
    """The numbers of the scalars worth a close look: suspicious ones, and the first ones."""
    total, screened = found.scalars.total, found.scalars.screened
    places = found.order
    worst = [p for p in places[:MAX_WORST] if found.excess[p] > 1]
    usable = ~(screened.constant | screened.lost)
    bimodality = np.where(usable, screened.bimodality, 0.0)
    peaked = np.argsort(-bimodality, kind="stable")[:MAX_BIMODAL]
    chosen = [
        *found.scalars.numbers[worst],
        *(k for k in peaked if bimodality[k] > MIN_BIMODALITY),
        *np.flatnonzero(usable)[:MAX_CLOSE],
        *range(min(total, MAX_CLOSE)),
    ]
    return np.sort(np.array(list(dict.fromkeys(map(int, chosen)))[:MAX_CLOSE]))


def found_modes(run: "Run", judged: Judged) -> FoundModes | None:
    """The modes of a run with draws, or None if there are too few different ones."""
    numbers = close_scalars(judged)
    values = close_draws(run, numbers, MAX_SEARCHED_DRAWS)
    if values.shape[1] < 2 or not np.all(np.isfinite(values)):
        return None
    modes = find_modes(values.reshape(-1, values.shape[2]))
    if modes is None:
        return None
    labels = modes.labels.reshape(values.shape[:2])
    return FoundModes(scalars_named(run, numbers), modes.shares, labels)


def close_draws(
    run: "Run", numbers: Int[np.ndarray, " k"], most: int
) -> Float[np.ndarray, "chains draws k"]:
    """The draws of a few scalars, evenly thinned to ``most`` of all chains.

    Draws of all temperatures are resampled by their weights.
    """
    stride = max(1, -(-run.num_draws * run.num_chains // max(most, 1)))
    values = np.asarray(gathered(run, numbers, slice(0, run.num_draws, 1)), float)
    if run.keep.all_temperatures:
        places = resampled(np.exp(run.log_weights))
        values = np.take_along_axis(values, places[:, :, None], 1)
    return values[:, ::stride]


def resampled(weights: Float[np.ndarray, "chains draws"]) -> Int[np.ndarray, "chains draws"]:
    """Places of draws that are repeated or left out by their weights, chain by chain."""
    rows = []
    for chain in weights:
        # Systematic resampling has the least noise, and needs no random numbers. Each chain
        # keeps its number of draws, so that chains can be compared.
        total = np.cumsum(chain) / max(chain.sum(), 1e-300)
        at = (np.arange(len(chain)) + 0.5) / max(len(chain), 1)
        rows.append(np.minimum(np.searchsorted(total, at), len(chain) - 1))
    return np.stack(rows)
