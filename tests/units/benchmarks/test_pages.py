"""Every table and every number of the pages is that of the records."""

import re

import pytest

from benchmarks import __main__ as runner
from benchmarks.catalog import BENCHMARKS, OTHER_RECORDS
from benchmarks.pages import PAGES, PageError, expected, fill
from benchmarks.record import RECORDS

ROOT = fill.ROOT


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_as_the_records_have_it(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for shown, recorded in zip(text.splitlines(), expected(text).splitlines(), strict=True):
        assert shown == recorded, "python -m benchmarks pages fills it in"


def test_pages_have_tables_and_numbers():
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    tables = [name for text in texts for name in re.findall(r"<!-- table: ([\w-]+) -->", text)]
    # Every table that can be made is shown somewhere.
    assert set(fill.TABLES) <= set(tables)
    assert sum(len(fill.NUMBER.findall(text)) for text in texts) >= 5


TABLE = "<!-- table: speed-growth -->\n"


@pytest.mark.parametrize(
    "text",
    [
        TABLE + "| no end |\n",
        TABLE + TABLE + "<!-- end -->",
        "no number <!-- results/fig3/results.json: 1 -->",
        "3\n<!-- results/fig3/results.json:1 -->",
    ],
)
def test_a_broken_comment_is_told(text):
    with pytest.raises(PageError, match="broken"):
        expected(text)


@pytest.mark.parametrize(
    ("shown", "value", "written"),
    [
        ("7", "3.14159", "3"),
        ("7.00", "3.14159", "3.14"),
        ("9,000", "12345.6", "12,346"),
        ("−0.5", "-2.25", "−2.2"),
        ("-0.5", "-2.35", "-2.4"),
        ("0.5", "-2.25", "−2.2"),
        ("(7", "np.mean([2, 4])", "(3"),
        ("7%", "100 * len(r) / len(r)", "100%"),
        ("**7**", "8", "**8**"),
    ],
)
def test_a_number_keeps_its_form(shown, value, written):
    comment = f"<!-- results/fig3/results.json: {value} -->"
    assert expected(f"about {shown} {comment}, and 5 more") == (
        f"about {written} {comment}, and 5 more"
    )


@pytest.fixture
def one_page(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("It is 7 <!-- results/fig3/results.json: 2 + 1 --> today.\n", encoding="utf-8")
    (tmp_path / "results" / "fig3").mkdir(parents=True)
    (tmp_path / "results" / "fig3" / "results.json").write_text("{}")
    monkeypatch.setattr(fill, "ROOT", tmp_path)
    monkeypatch.setattr(fill, "PAGES", ("page.md", "not there.md"))
    fill._read.cache_clear()
    yield page
    fill._read.cache_clear()


def test_the_command_fills_in_what_differs(one_page, capsys, monkeypatch):
    monkeypatch.setattr(runner.tacthmc, "configure_cpu", lambda: None)
    assert runner.main(["pages", "--check"]) == 1
    assert "7" in one_page.read_text(encoding="utf-8")
    assert "1 pages are not" in capsys.readouterr().err
    assert runner.main(["pages"]) == 0
    assert one_page.read_text(encoding="utf-8").startswith("It is 3 <!--")
    assert capsys.readouterr().out == "page.md\n"
    assert runner.main(["pages", "--check"]) == 0


def test_the_command_names_a_broken_page(one_page, capsys, monkeypatch):
    monkeypatch.setattr(runner.tacthmc, "configure_cpu", lambda: None)
    one_page.write_text("It is so <!-- results/fig3/results.json: 1 -->", encoding="utf-8")
    assert runner.main(["pages"]) == 1
    assert "page.md: 1 of 1 number comments are broken" in capsys.readouterr().err


def test_every_record_has_its_benchmark():
    known = {name for one in BENCHMARKS.values() for name in one.records} | set(OTHER_RECORDS)
    assert {path.name for path in RECORDS.glob("*.json")} == known


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http://", "https://", "mailto:")):
            file, _, place = target.partition("#")
            path = ((ROOT / page).parent / file).resolve() if file else ROOT / page
            assert path.exists(), target
            if place and path.suffix == ".md":
                assert place in anchors(path.read_text(encoding="utf-8")), target


def anchors(text):
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in plain}
