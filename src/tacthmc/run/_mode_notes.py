"""What a summary says about modes: their shares, and modes that chains missed or rarely entered."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacthmc.dynamics import Langevin, Modes
from tacthmc.run._by_mode import expected_shares, known_modes, mode_labels, share_error
from tacthmc.run._evidence_notes import evidence_notes

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MIN_NOTABLE_SHARE = 0.01
"""The share of a mode from which it is worth a warning."""
SIGMAS = 4.0
"""The number of standard deviations of the entries into a mode that its share may be off by."""
MIN_ENTRIES = 10
"""The number of entries into a mode from which its share is known at all."""
MAX_SHOWN_MODES = 8
"""The largest number of modes in a summary."""
MAX_SHOWN_NUMBERS = 3
"""The number of coordinates that show where a mode is."""


class ModeNotes(NamedTuple):
    """Lines for the table of a summary, and warnings."""

    lines: list[str]
    notes: list[str]


def mode_notes(run: "Run") -> ModeNotes:
    """The shares of known modes, and warnings about them."""
    modes = known_modes(run)
    if modes is None or not run.num_draws:
        return ModeNotes([], [])
    if modes.count == 1:
        return ModeNotes(_jump_line(run), [])
    labels = mode_labels(run, modes)
    if not labels.shape[1]:
        return ModeNotes([], [])
    inside = [labels == k for k in range(modes.count)]
    expected = expected_shares(run, modes)
    shares = np.array([float(one.mean()) for one in inside])
    order = np.argsort(-np.maximum(shares, expected))
    errors = [share_error(inside[k], float(expected[k])) for k in order[:MAX_SHOWN_MODES]]
    shown = [f"{shares[k]:.3f} ± {error:.3f}" for k, error in zip(order, errors, strict=False)]
    more = f" and {modes.count - len(shown)} more" if modes.count > len(shown) else ""
    changes = np.sum(labels[:, 1:] != labels[:, :-1], axis=1)
    lines = [
        f"shares of {modes.count} modes: {', '.join(shown)}{more}",
        f"changes of mode per chain: {' '.join(map(str, changes))}",
    ]
    notes = []
    for k in order.tolist():
        note = _warning(k, float(shares[k]), float(expected[k]), inside[k], modes)
        notes += [note] if note else []
    return ModeNotes(lines + _jump_line(run), notes + evidence_notes(run, modes.count))


def place_of(modes: Modes, k: int) -> str:
    """Where mode ``k`` is, in its first few coordinates."""
    where = np.asarray(modes.centers[k])[:MAX_SHOWN_NUMBERS]
    dots = ", …" if modes.centers.shape[1] > MAX_SHOWN_NUMBERS else ""
    return f"the mode at [{', '.join(f'{x:.3g}' for x in where)}{dots}]"


def _warning(k: int, share: float, expected: float, inside: np.ndarray, modes: Modes) -> str | None:
    """A warning about a mode without draws, or one that chains hardly entered or left."""
    place = place_of(modes, k)
    if share == 0:
        if expected < MIN_NOTABLE_SHARE:
            return None
        return (
            f"! {place}, with an estimated share of {expected:.0%}, has no draw: run longer, or add"
            " it with its evidence (run.by_mode())"
        )
    entries = int(np.sum(inside[:, 1:] & ~inside[:, :-1]))
    exits = int(np.sum(inside[:, :-1] & ~inside[:, 1:]))
    fewest = min(entries, exits)
    # The share of a mode that has nearly all draws is well known, and so is that of a light one.
    largest = share * (1 + SIGMAS / np.sqrt(max(fewest, 1)))
    notable = any(min(x, 1 - x) >= MIN_NOTABLE_SHARE for x in (share, expected))
    if notable and largest >= MIN_NOTABLE_SHARE and fewest < MIN_ENTRIES:
        return (
            f"! {place} was entered {entries} and left {exits} times: its share of {share:.1%} is"
            " hardly known, run longer"
        )
    return None


def _jump_line(run: "Run") -> list[str]:
    """How many jumps were accepted."""
    sampler = run.sampler if run.sampler_is_known else None
    if not isinstance(sampler, Langevin) or sampler.jumps is None or run.keep.every is None:
        return []
    # Jumps are due in one of so many intervals, at unit temperature.
    intervals = -(-sampler.jumps.every // run.keep.every)
    jumped = run.after_warmup("jumped")
    tempered = "temperature" in run.trace
    cold = run.after_warmup("temperature") == 1 if tempered else np.ones_like(jumped)
    share = float(jumped.sum() / max(cold.sum(), 1)) * intervals
    return [f"accepted jumps: {min(share, 1.0):.0%}"]
