"""The content security policy of a report: nothing runs and nothing is loaded but the page's own.

A report shows names that anybody may have chosen. They are escaped where they stand. If that should
ever fail, the browser still runs no script but the two whose hashes the page names, and asks no
network for anything.
"""

import base64
import hashlib
import html
import re
from collections.abc import Sequence

EMPTY = ""
"""Plotly makes style elements without content, and adds rules to them by script."""


def policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """The policy of a page with these inline scripts and styles.

    >>> policy(["alert(1)"], []).split("; ")[1]
    "script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
    """
    rules = {
        "default-src": ["'none'"],
        "script-src": [source_of(text) for text in scripts],
        "style-src": [source_of(text) for text in (*styles, EMPTY)],
        # Plotly draws the picture that it saves from a blob.
        "img-src": ["data:", "blob:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    return "; ".join(" ".join([name, *values]) for name, values in rules.items())


def meta(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """The element that sets the policy. It has to come before the scripts."""
    content = html.escape(policy(scripts, styles))
    return f'<meta http-equiv="Content-Security-Policy" content="{content}">'


def without_own_styles(plotly: str) -> str:
    """Empty elements in the place of styles that Plotly adds for maps, which no report has.

    Plotly looks whether they are there already, and they would not be in the policy.

    >>> without_own_styles('if(!document.getElementById("' + 64 * "0" + '"))')[:14]
    '<style id="000'
    """
    names = re.findall(r'if\(!document\.getElementById\("([0-9a-f]{64})"\)', plotly)
    return "".join(f'<style id="{name}"></style>' for name in dict.fromkeys(names))


def source_of(text: str) -> str:
    """The hash of an inline element's text, as a policy names it."""
    # A browser reads every end of line as one newline, and hashes what it has read.
    read = text.replace("\r\n", "\n").replace("\r", "\n")
    digest = base64.b64encode(hashlib.sha256(read.encode()).digest()).decode()
    return f"'sha256-{digest}'"
