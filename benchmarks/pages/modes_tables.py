"""The tables of ``docs/modes.md``, from ``modes.json``."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from benchmarks.modes.rivals import OURS, RIVALS
from benchmarks.modes.targets import TARGETS
from benchmarks.record import RECORDS, read
from tacthmc.report import Table

RECORD = "modes.json"
WITH_EVIDENCE = (OURS, "smc", "parallel-tempering", "nested")
"""The contestants that estimate log Z."""

Scores = dict[str, dict[str, dict[str, Any]]]
"""Summaries by target and contestant."""


def scores() -> Scores:
    """What the record says at its largest budget, in the order of the targets."""
    found = read(RECORD)["scores"]
    budget = max(one["budget"] for one in found)
    by_target: Scores = {name: {} for name in TARGETS}
    for one in found:
        if one["budget"] == budget:
            by_target[one["target"]][one["rival"]] = one
    return {name: some for name, some in by_target.items() if some}


def recorded(make: Callable[[Scores], Table]) -> Callable[[], Table]:
    """A table of the record, or one that says that there is none."""

    @wraps(make)
    def table() -> Table:
        if not (RECORDS / RECORD).exists():
            return Table(("result",), (("not measured yet",),))
        return make(scores())

    return table


def number(value: float) -> str:
    """Two or three digits, as a count has them.

    >>> [number(x) for x in (12_345.6, 123.4, 1.234, 0.0123)]
    ['12,300', '123', '1.2', '0.012']
    """
    if value >= 1_000:
        digits = len(f"{value:.0f}") - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def worth(one: dict[str, Any]) -> str:
    """Effective draws with their interval."""
    low, high = one["interval"]
    return f"{number(one['effective'])} ({number(low)} to {number(high)})"


def mark(one: dict[str, Any]) -> str:
    """Why a contestant's best setting does not count; empty if it does."""
    if one["failed"] == 1:
        return "fails"
    if one["is_hot"]:
        return f"T = {number(one['temperature'])}"
    return "" if one["crosses"] else "never crosses"


def measured(some: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The contestants that ran."""
    return {name: one for name, one in some.items() if "skipped" not in one}


def best_rival(some: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """The best of those that count."""
    others = [one for name, one in measured(some).items() if name != OURS and one["counts"]]
    return max(others, key=lambda one: one["effective"], default=None)


@recorded
def against_the_best(found: Scores) -> Table:
    """Each target: ours, the best of the others, and the ratio with its range."""
    rows = []
    for name, some in found.items():
        if OURS not in measured(some):
            continue
        ours, rival = some[OURS], best_rival(some)
        facts = (f"{name}: {ours['about']}", f"{ours['dimension']:,}")
        mine = worth(ours) + (f", {mark(ours)}" if mark(ours) else "")
        if rival is None:
            tried = len(measured(some)) > 1
            why = "none that counts" if tried else "not measured yet"
            rows.append((*facts, mine, why, "–", "–"))
            continue
        low, high = rival["interval"]
        ratio = ours["effective"] / rival["effective"]
        reach = f"{number(ours['interval'][0] / high)} to {number(ours['interval'][1] / low)}"
        tried = len(measured(some)) - 1
        other = f"{RIVALS[rival['rival']].name}, {rival['setting']} (of {tried} measured)"
        rows.append((*facts, mine, other, worth(rival), f"{number(ratio)} ({reach})"))
    return Table(
        ("target", "D", "`tact()`", "the best other", "that has", "`tact()` over that"),
        tuple(rows),
    )


@recorded
def everybody(found: Scores) -> Table:
    """Each target and contestant: effective draws, or why they do not count; "…" is to come."""
    names = list(RIVALS)

    def cell(one: dict[str, Any] | None) -> str:
        if one is None:
            return "…"
        if "skipped" in one:
            return "–"
        reason = mark(one)
        return f"{number(one['effective'])}, {reason}" if reason else number(one["effective"])

    rows = [(name, *(cell(some.get(rival)) for rival in names)) for name, some in found.items()]
    return Table(("target", *(RIVALS[name].name for name in names)), tuple(rows))


def optional(value: float | None, form: str = ".3f") -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else format(value, form)


@recorded
def honesty(found: Scores) -> Table:
    """Whether ``tact()`` says how wrong it is."""
    rows = [
        (
            name,
            f"{ours['gradients']:,.0f}",
            optional(ours["total_variation"]),
            optional(ours["error"], ".3g"),
            optional(ours["honesty"], ".2f"),
            optional(ours["temperature"], ".2f"),
            optional(ours["coverage"], ".2f"),
            optional(ours["warned"], ".0%"),
            optional(ours["failed"], ".0%"),
        )
        for name, some in found.items()
        if (ours := measured(some).get(OURS)) is not None
    ]
    heads = (
        "target",
        "gradients",
        "total variation of modes",
        "error",
        "error over stated error",
        "temperature inside of modes",
        "modes that a chain visits",
        "runs with a warning",
        "runs that failed",
    )
    return Table(heads, tuple(rows))


@recorded
def evidence(found: Scores) -> Table:
    """log Z by those that estimate it, where it is known."""

    def cell(one: dict[str, Any] | None) -> str:
        if one is None or one.get("log_z") is None:
            return "–"
        mean, sd = one["log_z"]
        # Without the minus sign of a number that rounds to zero.
        return f"{round(mean, 2) + 0.0:.2f} ± {sd:.2f}"

    rows = []
    for name, some in found.items():
        truth = next(iter(some.values()))["log_z_truth"]
        cells = [cell(some.get(rival)) for rival in WITH_EVIDENCE]
        if truth is not None and set(cells) != {"–"}:
            rows.append((name, f"{truth:.2f}", *cells))
    return Table(("target", "log Z", *(RIVALS[name].name for name in WITH_EVIDENCE)), tuple(rows))


def contestants() -> Table:
    """Who takes part, in how many settings."""
    rows = [
        (rival.name, rival.about, f"{len(rival.settings)}" if name != OURS else "none")
        for name, rival in RIVALS.items()
    ]
    return Table(("contestant", "what it is", "settings"), tuple(rows))


TABLES: dict[str, Callable[[], Table]] = {
    "modes-contestants": contestants,
    "modes-against-the-best": against_the_best,
    "modes-everybody": everybody,
    "modes-honesty": honesty,
    "modes-evidence": evidence,
}
