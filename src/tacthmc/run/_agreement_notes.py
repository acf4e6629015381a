"""What a summary says about scalars: lost, never moved, standing still, different in chains."""

import numpy as np

from tacthmc.run._parameters import MAX_SHOWN_PARAMETERS, Judged

MAX_NAMED = 3
"""The largest number of scalars that a note names."""


def agreement_notes(found: Judged) -> list[str]:
    """A warning for each thing that is wrong with some scalars, the worst first."""
    return [*_lost(found), *_constant(found), *_still(found), *disagreement(found)]


def _lost(found: Judged) -> list[str]:
    names = _named(found, found.lost, int(found.scalars.screened.lost.sum()))
    return [f"! draws of {names} are not finite: nothing is known of them"] if names else []


def _constant(found: Judged) -> list[str]:
    names = _named(found, found.constant, _count(found, found.scalars.screened.constant))
    if not names:
        return []
    return [f"! {names} never moved: all draws are the same, so this is no sample of the posterior"]


def _still(found: Judged) -> list[str]:
    notes = []
    everywhere = found.scalars.screened.still
    for chain in np.unique(found.still[found.still >= 0]).tolist():
        names = _named(found, found.still == chain, int((everywhere == chain).sum()))
        notes.append(
            f"! chain {chain} stood still in {names} for at least half of its draws, while others"
            " moved"
        )
    return notes


def disagreement(found: Judged) -> list[str]:
    """The warning that R-hat is larger than it can be by chance."""
    wrong = found.excess > 1
    if not wrong.any():
        return []
    worst = int(np.nanargmax(found.excess))
    count, limit = int(wrong.sum()), found.limits[worst]
    more = f", and {count - 1:,} more exceed their limits" if count > 1 else ""
    at_most = f" (by chance at most {limit:.3f}{more})"
    return [
        f"! R-hat reaches {found.rhat[worst]:.3f} in {_place(found, worst)}{at_most}: chains"
        " disagree, run longer"
    ]


def looked_at(found: Judged) -> list[str]:
    """Which parameters a table leaves out, and what R-hat and ESS were computed of."""
    scalars, lines = found.scalars, []
    if scalars.total > MAX_SHOWN_PARAMETERS:
        left = scalars.total - MAX_SHOWN_PARAMETERS
        lines.append(
            f"{MAX_SHOWN_PARAMETERS} of {scalars.total:,} parameters, those with the worst R-hat"
            f" first; {left:,} more are left out"
        )
    if not scalars.all_ranked:
        lines.append(
            f"R-hat and ESS by ranks of {len(scalars.numbers):,} parameters: the worst by the"
            " moments of all, and evenly spaced ones"
        )
        functions = "the energy and " if "energy" in scalars.functions else ""
        lines.append(f"and of functions of all parameters: {functions}random projections")
    if scalars.stride_of_functions > 1:
        ranks = f"one in {scalars.stride}" if scalars.stride > 1 else "all"
        lines.append(
            f"moments and functions are of one draw in {scalars.stride_of_functions}, ranks of"
            f" {ranks}"
        )
    return lines


def _count(found: Judged, everywhere: np.ndarray) -> int:
    """The number in all scalars, if any of the ranked ones counts."""
    return int(everywhere.sum()) if found.constant.any() else 0


def _named(found: Judged, which: np.ndarray, count: int) -> str:
    """The names of some scalars, and how many there are more."""
    places = np.flatnonzero(which)
    if not places.size:
        return ""
    names = [found.names[place] for place in places[:MAX_NAMED]]
    rest = max(count, len(places)) - len(names)
    if rest:
        return f"{', '.join(names)} and {rest:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _place(found: Judged, place: int) -> str:
    name = found.names[place]
    is_function = place >= len(found.scalars.numbers)
    return f"the {name}" if is_function and name == "energy" else name
