"""What a summary says about the width of draws: a table, and warnings about wrong ones."""

from typing import TYPE_CHECKING, NamedTuple

from tacthmc.diagnostics._width import Width
from tacthmc.dynamics import AutomaticThermostat, DiagonalThermostat, Langevin
from tacthmc.potentials._exact import has_exact_energies
from tacthmc.run._width import Widths

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_NAMED = 3
"""The largest number of leaves, coordinates or modes that a warning names."""
MIN_TEMPERATURE = 0.05
"""The temperature below which the draws of a coordinate have not spread at all."""


class WidthNotes(NamedTuple):
    """Lines for the table of a summary, and warnings."""

    lines: list[str]
    notes: list[str]


def width_notes(run: "Run") -> WidthNotes:
    """The widths of a run, and a warning about those that are wrong."""
    if not run.num_draws:
        return WidthNotes([], [])
    found = run.width
    if not found.checked:
        notes = [_edge_note(found)] if found.not_finite else []
        return WidthNotes([str(found)], notes)
    lines = ["configurational temperature (1 where draws are as wide as the posterior)"]
    lines += str(found).splitlines()
    notes = [_width_note(run, found)] if found.wrong else []
    if found.forced:
        notes.append(
            f"! the mean force on {found.forced} is not zero: its draws are about"
            f" {found.force:.2g} standard deviations away from their place. Drop more of the start"
            " and run longer; if the density ends at an edge, transform that parameter"
        )
    return WidthNotes(lines, notes)


def _edge_note(found: Widths) -> str:
    return (
        f"! the gradient is not finite at {found.not_finite} of {found.num_draws} kept draws, so"
        " the density has an edge there: transform the parameter so that it ranges over all"
        " numbers, such as its logarithm"
    )


def _width_note(run: "Run", found: Widths) -> str:
    """One warning for all wrong widths, about whole leaves where they are wrong."""
    leaves = [one for one in found.wrong if one in found.leaves]
    modes = [one for one in found.wrong if one in found.modes]
    chosen = leaves or modes or found.wrong
    named = sorted(chosen, key=lambda one: -abs(one.temperature - 1) / max(one.error, 1e-9))
    more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    said = "; ".join(_said(one) for one in named[:MAX_NAMED])
    return f"! {said}{more}: {_advice(run, named)}"


def _said(one: Width) -> str:
    measured = f"configurational temperature {one.temperature:.2f} ± {one.error:.2f}"
    if one.temperature < MIN_TEMPERATURE:
        return f"the draws of {one.name} have hardly spread ({measured})"
    if one.ratio > 1:
        return f"the draws of {one.name} are about {one.ratio:.2f} times too wide ({measured})"
    return f"the draws of {one.name} have only about {one.ratio:.2f} of their width ({measured})"


def _advice(run: "Run", named: list[Width]) -> str:
    """What to do, by the direction of the error and the kind of run."""
    if has_exact_energies(run.potential):
        if max(one.temperature for one in named) > 1:
            return "steps are too long somewhere, so take a smaller step_size"
        return "take a smaller step_size, or run longer if chains have not spread yet"
    shared = isinstance(run.sampler, Langevin) and not isinstance(
        run.sampler.thermostat, (AutomaticThermostat, DiagonalThermostat)
    )
    each = ", and thermostat=DiagonalThermostat()" if shared else ""
    return (
        "the noise of batches acts as heat or as friction. Take a smaller step_size or larger"
        f" batches{each}; draw batches with replacement"
    )
