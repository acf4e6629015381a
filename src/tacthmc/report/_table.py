"""A small table of text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of text under a headline, for a terminal or a page."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table in Markdown.

        >>> print(Table(("", "ESS"), (("TACT-HMC", "12"),)).markdown())
        | | ESS |
        |---|---|
        | TACT-HMC | 12 |
        """
        head = "|" + "|".join(f" {c} " if c else " " for c in self.columns) + "|"
        rule = "|" + "---|" * len(self.columns)
        return "\n".join([head, rule, *("| " + " | ".join(row) + " |" for row in self.rows)])
