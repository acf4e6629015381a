"""A case: its sizes, its measurement, and the tables of its numbers."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tacthmc.paper.figures.study import Numbers, Say, rounded
from tacthmc.report import Table


@dataclass(frozen=True)
class Case:
    """A question about speed in two sizes; configs have ``repeats`` and ``seed``."""

    name: str
    about: str
    quick: Any
    full: Any
    measure: Callable[[Any, Say], Numbers]
    """From a config to plain numbers; the second argument prints progress."""
    tables: Callable[[Numbers], Sequence[tuple[str, Table]]]
    """From numbers to titled tables."""

    def results(self, quick: bool, repeats: int | None, seed: int, say: Say) -> Numbers:
        """Measure, and put the config beside the numbers."""
        config = replace(self.quick if quick else self.full, seed=seed)
        if repeats is not None:
            config = replace(config, repeats=repeats)
        numbers = self.measure(config, say)
        # As JSON has them, so that the tables show what is written.
        return rounded({"about": self.about, "config": asdict(config), **numbers})


def shown(result: Numbers, digits: int = 3) -> tuple[str, str]:
    """A contestant's median rate and its range, or why there is none.

    >>> shown({"rate": {"median": 1234567.0, "min": 1e6, "max": 2e6}})
    ('1,230,000', '1,000,000 – 2,000,000')
    >>> shown({"skipped": "torch is not installed"})
    ('–', 'skipped: torch is not installed')
    """
    if "rate" not in result:
        kind = "skipped" if "skipped" in result else "failed"
        return "–", f"{kind}: {result[kind]}"
    rate = result["rate"]
    return number(rate["median"], digits), " – ".join(
        number(rate[end], digits) for end in ("min", "max")
    )


def number(value: float | int, digits: int = 3) -> str:
    """A number with ``digits`` significant digits, without an exponent.

    >>> number(1234567.0), number(0.0123456)
    ('1,230,000', '0.0123')
    """
    short = float(f"{value:.{digits}g}")
    return f"{short:,.0f}" if abs(short) >= 10 ** (digits - 1) else f"{short:.{digits}g}"
