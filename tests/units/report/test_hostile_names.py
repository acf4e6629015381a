"""Names that are markup or scripts: shown as they are, and nothing of them runs."""

import base64
import hashlib
import html
import re
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import pytest

import tacthmc
from tests.units.report.opened_page import Page

pytestmark = pytest.mark.usefixtures("quick_compilation")

NAMES = (
    "</script><script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    '"><svg onload=window.ran=1>',
    '<a href="javascript:window.ran=1">b</a>',
    "<b>bold</b> & <!-- \u2028 '%{x}' $\\alpha$",
)
"""What a user may call a parameter, a run, a title or a folder."""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Two runs side by side with every name that a user can give, stored in such a folder."""
    folder = tmp_path_factory.mktemp("runs")
    target = tacthmc.potential(lambda p: 0.5 * sum(jnp.sum(x**2) for x in p.values()))
    start = {name.replace("/", "⁄"): jnp.zeros(1) for name in NAMES}
    path = folder / NAMES[1]
    key, sampler = jax.random.key(0), tacthmc.sgnht(0.05)
    run = tacthmc.sample(key, sampler, target, start, 2_000, 2, store=path)
    runs = {NAMES[0]: tacthmc.load(path), NAMES[3]: run}
    names = [f"{name}[0]" for name in start]
    alone = tacthmc.write_report(tacthmc.load(path), folder / "alone.html", parameters=names)
    several = tacthmc.write_report(runs, folder / "both.html", title=NAMES[2], parameters=names)
    return alone, several, names


class Elements(HTMLParser):
    """The names of a page's elements, and of their attributes."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.attributes, self.links = set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name == "href"]


def test_the_page_is_made_of_the_librarys_own_elements(written):
    for path in written[:2]:
        text = path.read_text(encoding="utf-8")
        found = Elements(text)
        assert not found.elements & {"img", "svg", "iframe", "object", "embed", "base"}
        assert not [name for name in found.attributes if name.startswith("on") or name == "style"]
        assert all(link == "data:," or re.fullmatch(r"#run\d", link) for link in found.links)
        assert html.escape(written[2][1]) in text


def test_the_policy_names_the_scripts_by_hash(written):
    text = written[1].read_text(encoding="utf-8")
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    policy = html.unescape(found[1])
    assert "unsafe" not in policy
    assert text.index("Content-Security-Policy") < text.index("<script")
    for element, rule in (("script", "script-src"), ("style", "style-src")):
        named = re.search(rf"{rule} ([^;]*)", policy)[1].split()
        inline = re.findall(rf"<{element}(?: id=\"\w*\")?>(.*?)</{element}>", text, re.DOTALL)
        hashes = {base64.b64encode(hashlib.sha256(x.encode()).digest()).decode() for x in inline}
        assert {f"'sha256-{one}'" for one in hashes} <= set(named)
        # Nothing else is allowed: two scripts; the page's style, and Plotly's empty one.
        assert len(named) == 2


def test_names_are_shown_and_nothing_runs(browser, written):
    with Page(browser, written[1]) as page:
        assert page.complaints == []
        assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
        assert page.do("() => window.ran") is None
        shown = page.do("() => document.body.innerText + document.body.textContent")
        for name in written[2][:4]:
            assert name in shown
        # In the pictures, too, where Plotly would take tags for markup.
        drawn = page.do("() => [...document.querySelectorAll('svg text')].map(e => e.textContent)")
        assert any(written[2][1] in text for text in drawn)
        made = "img, iframe, [onload], a[href]:not([href^='#']), .plot b, .plot tspan[style]"
        assert page.do("(q) => [...document.querySelectorAll(q)].map(e => e.outerHTML)", made) == []


def test_a_script_that_got_into_the_page_would_not_run(browser, written, tmp_path):
    """As if the escaping had failed."""
    attack = "".join(
        (
            "<script>window.ran=1</script>",
            "<img src=x onerror='window.ran=1'>",
            "<script src='data:text/javascript,window.ran=1'></script>",
            "<a id=there href='javascript:window.ran=1'>x</a>",
            "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
            "<base href='http://127.0.0.1:9/'>",
        )
    )
    text = written[0].read_text(encoding="utf-8").replace("<main>", f"<main>{attack}", 1)
    path = tmp_path / "attacked.html"
    path.write_text(text, encoding="utf-8")
    with Page(browser, path) as page:
        page.page.click("#there")
        page.page.wait_for_timeout(300)
        assert page.do("() => window.ran") is None
        assert any("Content Security Policy" in complaint for complaint in page.complaints)
        assert page.do("() => document.querySelectorAll('svg.main-svg').length") > 0
