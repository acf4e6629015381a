"""Fill the tables of README and docs in from ``results``: ``python -m benchmarks.pages``."""

import re
from pathlib import Path

from benchmarks import mobility_tables, no_numbers_tables, speed_tables, sweep_tables
from tacthmc.paper.figures.catalog import STUDIES
from tacthmc.paper.figures.study import read_results

TABLES = (
    speed_tables.TABLES | mobility_tables.TABLES | no_numbers_tables.TABLES | sweep_tables.TABLES
)
ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"<!-- table: ([\w-]+) -->\n(?:(?!<!-- )[^\n]*\n)*<!-- end -->")


def filled(match: re.Match[str]) -> str:
    """A block with the table as the results have it."""
    name = match.group(1)
    if name in TABLES:
        return f"<!-- table: {name} -->\n{TABLES[name]().markdown()}\n<!-- end -->"
    numbers = read_results(ROOT / "results" / name / "results.json")["numbers"]
    return f"<!-- table: {name} -->\n{STUDIES[name].table(numbers).markdown()}\n<!-- end -->"


def main() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text()
        new = BLOCK.sub(filled, text)
        if new != text:
            page.write_text(new)
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
