"""The share of each mode with its error, and the mean and width of the draws in it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from tacthmc.report._shown import Shown
from tacthmc.run._by_mode import expected_shares, known_modes, mode_labels, share_error

MAX_ROWS = 12
"""The largest number of modes in the table."""


class ModeTable(NamedTuple):
    """A row for each mode, the heaviest first."""

    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    names: list[str]
    """The parameters whose mean and width are shown."""


def mode_table(shown: Shown) -> ModeTable | None:
    """The modes of the sampler's list, or those that the draws show; None if there is one."""
    labels, expected = _labels(shown) if shown.num_draws else (None, None)
    if labels is None:
        return None
    shares = np.bincount(labels.ravel(), minlength=0 if expected is None else len(expected))
    order = np.argsort(-shares, kind="stable")
    if len(order) < 2:
        return None
    theory = () if expected is None else ("by the warm-up",)
    rows = []
    for rank, mode in enumerate(order[:MAX_ROWS].tolist()):
        inside = labels == mode
        own = None if expected is None else float(expected[mode])
        share = f"{inside.mean():.4f} ± {share_error(inside, own):.2g}"
        theirs = () if own is None else (f"{own:.4f}",)
        means = (_mean_and_sd(values, inside) for values in shown.draws.values())
        rows.append((f"mode {rank + 1}", share, *theirs, *means))
    return ModeTable(("", "share", *theory, *shown.names), rows, shown.names)


def _labels(shown: Shown) -> tuple[Int[np.ndarray, "chains draws"] | None, np.ndarray | None]:
    """The mode of each draw, and the shares that the warm-up expects of a list of modes."""
    known = known_modes(shown.run)
    if known is None or known.count < 2 or shown.run.keep.all_temperatures:
        return shown.mode_of, None
    return mode_labels(shown.run, known), expected_shares(shown.run, known)


def _mean_and_sd(values: np.ndarray, inside: np.ndarray) -> str:
    mine = values[inside]
    return f"{mine.mean():.4g} ± {mine.std():.3g}" if mine.size else ""
