"""What a summary says about the law of the draws: is it that of the posterior?"""

from typing import TYPE_CHECKING

from tacthmc.run._crossing_notes import crossing_notes
from tacthmc.run._model_notes import model_notes
from tacthmc.run._width_notes import WidthNotes, width_notes

if TYPE_CHECKING:
    from tacthmc.run._result import Run


def law_notes(run: "Run") -> WidthNotes:
    """The widths of the draws, and warnings about widths, modes and the model."""
    found = run.measured("widths and the model", lambda: _of_potential(run))
    lines, notes = found or ([], [])
    return WidthNotes(list(lines), list(notes) + crossing_notes(run))


def _of_potential(run: "Run") -> tuple[list[str], list[str]]:
    """What takes gradients or likelihoods at draws."""
    widths = width_notes(run)
    return widths.lines, widths.notes + model_notes(run)
