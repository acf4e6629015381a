"""Tables of HTML."""

import html
from collections.abc import Sequence


def text(value: object) -> str:
    """Any value as text of a page, escaped.

    >>> text("<b>")
    '&lt;b&gt;'
    """
    return html.escape(str(value))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table with a row of titles, unless ``head`` is empty.

    >>> table((), [("a", "<1>")])
    '<table><tbody><tr><td>a</td><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    top = ""
    if head:
        top = "<thead><tr>" + "".join(f"<th>{text(c)}</th>" for c in head) + "</tr></thead>"
    lines = ("<tr>" + "".join(f"<td>{text(c)}</td>" for c in row) + "</tr>" for row in rows)
    opening = f'<table class="{kind}">' if kind else "<table>"
    return f"{opening}{top}<tbody>{''.join(lines)}</tbody></table>"
