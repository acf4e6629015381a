"""Fill in the tables and numbers of README, docs, research and the benchmarks' own page."""

import json
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import catalog
from benchmarks.catalog import MAINTAINED, RESEARCH, SPEED, index
from benchmarks.pages import (
    calibration_tables,
    mobility_tables,
    modes_tables,
    narrow_modes_tables,
    no_numbers_tables,
    speed_tables,
    sweep_tables,
)
from benchmarks.record import RecordError
from tacthmc.paper.figures.catalog import STUDIES
from tacthmc.paper.figures.study import read_results
from tacthmc.report import Table

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "benchmarks/README.md",
    *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))),
    *(f"research/{page.name}" for page in sorted((ROOT / "research").glob("*.md"))),
)
"""The pages, by their paths in the checkout."""
TABLES: dict[str, Callable[[], Table]] = {
    **calibration_tables.TABLES,
    **speed_tables.TABLES,
    **mobility_tables.TABLES,
    **modes_tables.TABLES,
    **narrow_modes_tables.TABLES,
    **no_numbers_tables.TABLES,
    **sweep_tables.TABLES,
    **{
        f"benchmarks-{name}": partial(lambda members: Table(*index(members)), members)
        for name, members in (
            ("speed", SPEED),
            ("maintained", MAINTAINED),
            ("research", RESEARCH),
            ("pages", catalog.PAGES),
        )
    },
}
BLOCK = re.compile(r"<!-- table: ([\w-]+) -->\n(?:(?!<!-- )[^\n]*\n)*<!-- end -->")
NUMBER = re.compile(
    r"(?P<number>(?<![\d.,])[-−]?\d[\d,]*(?:\.\d+)?)(?P<between>[^\s\d]*\s?)"
    r"<!-- (?P<file>\S+\.json): (?P<expression>.+?) -->"
)
"""A number, what follows it up to the comment, and the comment's parts."""


class PageError(RecordError):
    """What is wrong with a page's comments."""


def filled(match: re.Match[str]) -> str:
    """A block with the table that the records give."""
    name = match.group(1)
    if name in TABLES:
        table = TABLES[name]()
    else:
        numbers = read_results(ROOT / "results" / name / "results.json")["numbers"]
        table = STUDIES[name].table(numbers)
    return f"<!-- table: {name} -->\n{table.markdown()}\n<!-- end -->"


def expected(text: str) -> str:
    """A page's text with every table and every number that the records give.

    >>> expected("There are 7 <!-- results/fig3/results.json: 2 + 1 --> of them.")
    'There are 3 <!-- results/fig3/results.json: 2 + 1 --> of them.'
    """
    _check(text)
    return NUMBER.sub(_number, BLOCK.sub(filled, text))


def _check(text: str) -> None:
    """Refuse a comment that :func:`expected` would leave alone."""
    for kind, pattern, begun in (
        ("table", BLOCK, r"<!-- table:"),
        ("number", NUMBER, r"<!-- \S+\.json:"),
    ):
        found, all_of_them = len(pattern.findall(text)), len(re.findall(begun, text))
        if found != all_of_them:
            raise PageError(f"{all_of_them - found} of {all_of_them} {kind} comments are broken")


def _number(match: re.Match[str]) -> str:
    """The number with as many digits after the point as it had, and commas if it had any."""
    names = {"r": _read(match["file"]), "np": np}
    # The expressions stand in this repository's own pages.
    value = eval(match["expression"], names)
    shown = match["number"]
    digits, comma = len(shown.partition(".")[2]), "," if "," in shown else ""
    minus = "−" if "−" in shown or "-" not in shown else "-"
    number = f"{value:{comma}.{digits}f}".replace("-", minus)
    comment = f"<!-- {match['file']}: {match['expression']} -->"
    return f"{number}{match['between']}{comment}"


@cache
def _read(file: str) -> Any:
    return json.loads((ROOT / file).read_text(encoding="utf-8"))


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="only say which pages differ")


def main(args: Namespace) -> None:
    """Fill in every page, and name those that changed."""
    changed = []
    for page in PAGES:
        path = ROOT / page
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        try:
            new = expected(text)
        except PageError as error:
            raise PageError(f"{page}: {error}") from error
        if new != text:
            changed.append(page)
            if not args.check:
                path.write_text(new, encoding="utf-8")
    print("\n".join(changed) or "every page is as the records have it")
    if args.check and changed:
        raise PageError(f"{len(changed)} pages are not as the records have them")
