"""A summary as HTML for notebooks; every name is escaped."""

from typing import TYPE_CHECKING

from tacthmc._notebook import table, text
from tacthmc.run._summary_text import COLUMNS, LAW_COLUMNS, cells, law_cells, xi_lines

if TYPE_CHECKING:
    from tacthmc.run._summary import Summary


def summary_html(summary: "Summary") -> str:
    """The verdict, the tables and the notes."""
    head = summary.headline
    rows = [cells(row) for row in (*summary.parameters, *summary.functions)]
    parts = [
        f"<p>{text(summary.title)}</p>",
        f"<p><b>{text(head.title)}.</b> {text(head.text)}</p>" if summary.findings else "",
        table(COLUMNS, rows) if rows else "",
        _lines(summary.looked),
        _lines(summary.mode_lines),
        _lines(summary.width_lines),
        _lines(summary.replica_lines),
        _lines(xi_lines(summary)),
        table(LAW_COLUMNS, list(map(law_cells, summary.thermostats)))
        if summary.thermostats
        else "",
        _lines(summary.notes),
    ]
    return "".join(part for part in parts if part)


def _lines(lines: list[str] | tuple[str, ...]) -> str:
    return f"<p>{'<br>'.join(map(text, lines))}</p>" if lines else ""
