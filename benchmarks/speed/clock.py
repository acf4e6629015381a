"""Contestants that are timed in turns, so that a disturbance of the machine meets all of them."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacthmc.paper.figures.study import Numbers, Say


class Skipped(Exception):  # noqa: N818 - no error: something optional is not here
    """Why a contestant cannot take part, and what would change that."""


@dataclass(frozen=True)
class Lap:
    """One timed run: its seconds, and its chain-steps."""

    seconds: float
    work: float | int


@dataclass(frozen=True)
class Ready:
    """A contestant that is compiled and warm."""

    go: Callable[[], Lap]
    compile_seconds: float | None = None
    facts: Numbers = field(default_factory=dict)
    """What a reader of its result should know: the number of steps, how the loop is written."""


@dataclass(frozen=True)
class Contestant:
    """A name, and how to get ready; raises :class:`Skipped` where it cannot."""

    name: str
    prepare: Callable[[], Ready]


Absent = dict[str, str]
"""Why a contestant does not take part."""


def made_ready(
    contestants: Sequence[Contestant], say: Say
) -> tuple[dict[str, Ready], dict[str, Absent]]:
    """Those that can take part, and the reasons of those that cannot."""
    ready: dict[str, Ready] = {}
    absent: dict[str, Absent] = {}
    for contestant in contestants:
        try:
            ready[contestant.name] = contestant.prepare()
        except Exception as error:
            absent[contestant.name] = _reason(error)
            say(f"{contestant.name}: {_text(absent[contestant.name])}")
    return ready, absent


def by_turns(ready: Mapping[str, Ready], repeats: int, say: Say) -> dict[str, Numbers]:
    """Run everybody once per round; chain-steps per second of each: median, least and most.

    >>> fast = Ready(lambda: Lap(seconds=0.5, work=100))
    >>> by_turns({"fast": fast}, 3, lambda text: None)["fast"]["rate"]
    {'median': 200.0, 'min': 200.0, 'max': 200.0}
    """
    laps: dict[str, list[Lap]] = {name: [] for name in ready}
    failed: dict[str, Absent] = {}
    for number in range(repeats):
        for name in [name for name in ready if name not in failed]:
            try:
                laps[name].append(ready[name].go())
            except Exception as error:
                failed[name] = _reason(error)
                say(f"{name}: {_text(failed[name])}")
        say(f"round {number + 1} of {repeats}")
    return {
        name: failed[name] if name in failed else _result(ready[name], laps[name]) for name in ready
    }


def _result(ready: Ready, laps: Sequence[Lap]) -> Numbers:
    rates = [lap.work / lap.seconds for lap in laps]
    return {
        "rate": spread(rates),
        "rates": rates,
        "seconds": [lap.seconds for lap in laps],
        "compile_seconds": ready.compile_seconds,
        **ready.facts,
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and most.

    >>> spread([3.0, 1.0, 2.0])
    {'median': 2.0, 'min': 1.0, 'max': 3.0}
    """
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratio(results: Mapping[str, Numbers], ours: str, peer: str) -> Numbers:
    """How many times the peer's rate ours is, of the medians, and round by round.

    >>> runs = {"a": {"rate": {"median": 4.0}, "rates": [4.0]},
    ...         "b": {"rate": {"median": 2.0}, "rates": [2.0]}}
    >>> ratio(runs, "a", "b")["ratio"]
    2.0
    """
    for name in (ours, peer):
        if "rate" not in results.get(name, {}):
            why = _text(results[name]) if name in results else "not measured"
            return {"ours": ours, "peer": peer, "skipped": f"{name}: {why}"}
    both = results[ours], results[peer]
    rounds = [a / b for a, b in zip(both[0]["rates"], both[1]["rates"], strict=True)]
    return {
        "ours": ours,
        "peer": peer,
        "ratio": both[0]["rate"]["median"] / both[1]["rate"]["median"],
        "by_round": spread(rounds),
    }


def enough(go: Callable[[int], float], seconds: float, unit: int) -> int:
    """The number of steps, a multiple of ``unit``, for which ``go`` takes about ``seconds``.

    >>> enough(lambda steps: steps / 1000, seconds=2.0, unit=50)
    2000
    """
    steps = unit
    while True:
        took = max(go(steps), 1e-6)
        wanted = seconds / took * steps
        # Fixed costs dominate short runs, so a short run only says how long the next one is.
        if wanted <= 4 * steps:
            return max(1, round(wanted / unit)) * unit
        steps = int(min(wanted / 2, 16 * steps) // unit) * unit


def _reason(error: Exception) -> Absent:
    if isinstance(error, Skipped):
        return {"skipped": str(error)}
    return {"failed": f"{type(error).__name__}: {error}"}


def _text(absent: Mapping[str, Any]) -> str:
    kind = "skipped" if "skipped" in absent else "failed"
    return f"{kind}, {absent[kind]}"
