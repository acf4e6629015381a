"""What a summary says about modes that only the draws show, without a list of modes."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from tacthmc._positions import scalar_names
from tacthmc.diagnostics._modes import Modes, find_modes
from tacthmc.run._by_mode import MAX_FOUND_SCALARS, known_modes
from tacthmc.run._mode_notes import MIN_ENTRIES, MIN_NOTABLE_SHARE

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MIN_SEARCHED_DRAWS = 400
"""The number of draws of all chains from which valleys between them mean something."""


def crossing_notes(run: "Run") -> list[str]:
    """A warning if draws are in several modes between which chains hardly moved."""
    if known_modes(run) is not None or run.keep.all_temperatures:
        return []
    if run.num_draws * run.num_chains < MIN_SEARCHED_DRAWS:
        return []
    scalars = scalar_names(run.draw_shapes(), MAX_FOUND_SCALARS)
    values = np.stack([run.draws_of(leaf, index) for leaf, index, _ in scalars], axis=2)
    if not np.isfinite(values).all():
        return []
    found = find_modes(values.reshape(-1, len(scalars)))
    if found is None or len(found.shares) == 1:
        return []
    names = ", ".join(name for _, _, name in scalars)
    return _rarely_crossed(found, found.labels.reshape(values.shape[:2]), names)


def _rarely_crossed(found: Modes, labels: Int[np.ndarray, "chains draws"], names: str) -> list[str]:
    """A warning about the heaviest mode that was hardly entered or left."""
    for k, share in enumerate(found.shares):
        inside = labels == k
        entries = int(np.sum(inside[:, 1:] & ~inside[:, :-1]))
        exits = int(np.sum(inside[:, :-1] & ~inside[:, 1:]))
        if min(share, 1 - share) >= MIN_NOTABLE_SHARE and min(entries, exits) < MIN_ENTRIES:
            place = ", ".join(f"{x:.3g}" for x in found.peaks[k])
            return [
                f"! draws are in {len(found.shares)} modes of {names}, and the one at [{place}] was"
                f" entered {entries} and left {exits} times: its share of {share:.1%} is hardly"
                " known. Use tact() without numbers, heat, or run longer"
            ]
    return []
