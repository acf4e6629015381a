"""The report in a real browser, and its verdicts on runs that went well and badly."""

import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.report._figures import all_plots
from tacthmc.report._shown import Shown
from tests.units.report.opened_page import Page

pytestmark = pytest.mark.usefixtures("quick_compilation")

LIMIT = 8_000_000


@pytest.fixture(scope="module")
def report(tempered, tmp_path_factory):
    return tacthmc.write_report(tempered, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def page(browser, report):
    with Page(browser, report, viewport={"width": 1000, "height": 900}) as page:
        yield page


def test_it_loads_without_complaint_or_network(page, report):
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert report.stat().st_size < LIMIT


def test_every_plot_renders(page, tempered):
    expected = {plot.key for plot in all_plots(Shown("", tempered))}
    assert expected == {
        "xi",
        "temperature",
        "marginals",
        "course",
        "pairs",
        "correlation",
        "thermostats",
        "laws",
        "free-energy",
        "xi-histogram",
        "energy",
    }
    drawn = page.do(
        """() => Object.fromEntries([...document.querySelectorAll(".plot")].map(e => [e.id, {
            traces: e.data.length,
            marks: e.querySelectorAll("path.js-line, path.point").length,
            wide: e.querySelector("svg.main-svg").getBoundingClientRect().width,
        }]))"""
    )
    assert set(drawn) == expected
    for key, plot in drawn.items():
        assert plot["marks"] >= plot["traces"] > 0, key
        assert plot["wide"] > 500, key


def test_hovering_shows_a_value(page):
    plot = page.page.locator("#correlation")
    plot.scroll_into_view_if_needed()
    box = plot.locator(".nsewdrag").bounding_box()
    # The curve's own place: near the left, where ρ is high, moved along until it is met.
    labels = 0
    for share in np.linspace(0.02, 0.6, 30):
        page.page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.92 * box["height"])
        page.page.wait_for_timeout(60)
        labels = max(labels, plot.locator(".hoverlayer .hovertext").count())
    assert labels > 0


def test_zooming_and_back(page):
    plot = page.page.locator("#free-energy")
    plot.scroll_into_view_if_needed()
    box = plot.locator(".nsewdrag").bounding_box()
    read = "() => document.getElementById('free-energy').layout.xaxis.range.map(Number)"
    before = page.do(read)
    mouse = page.page.mouse
    mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    mouse.down()
    mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.7 * box["height"], steps=8)
    mouse.up()
    page.page.wait_for_timeout(300)
    zoomed = page.do(read)
    assert zoomed[1] - zoomed[0] < 0.5 * (before[1] - before[0])
    mouse.dblclick(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
    page.page.wait_for_timeout(600)
    assert np.allclose(page.do(read), before, rtol=0.05)


def test_it_fits_a_phone_and_the_dark(browser, report):
    phone = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}
    with Page(browser, report, color_scheme="dark", **phone) as page:
        assert page.do("() => document.documentElement.scrollWidth") <= 390
        back, text = page.do(
            "() => ['backgroundColor', 'color'].map(p => getComputedStyle(document.body)[p])"
        )
        assert max(map(int, re.findall(r"\d+", back)[:3])) < 60
        assert min(map(int, re.findall(r"\d+", text)[:3])) > 180
        written = page.do("() => document.getElementById('xi').layout.font.color")
        assert written == "#e6e9ee"
        # The other way round while the page is open.
        page.page.emulate_media(color_scheme="light")
        page.page.wait_for_timeout(500)
        assert page.do("() => document.getElementById('xi').layout.font.color") == "#1c2026"
        assert page.complaints == []


def test_a_million_draws(browser, tmp_path):
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    key, sampler, keep = jax.random.key(0), tacthmc.sgnht(0.2), tacthmc.Keep(every=1, after=0)
    run = tacthmc.sample(key, sampler, target, jnp.zeros(2), 250_000, 4, keep=keep)
    assert run.counts.sum() == 1_000_000
    path = tacthmc.write_report(run, tmp_path)
    assert path.stat().st_size < LIMIT
    assert "one draw in 125 is shown" in path.read_text()
    with Page(browser, path) as page:
        assert page.complaints == []
        assert page.do("() => document.querySelectorAll('.plot').length") >= 6


GAUSSIAN = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A stored run's folder, and what a report found there before the first commit of rows."""
    path, early = tmp_path_factory.mktemp("stored") / "run", []

    def look(snapshot):
        if not early:
            shown = Shown("", tacthmc.load(path))
            early.append((all_plots(shown), shown.summary.headline.title))

    key, sampler, start = jax.random.key(0), tacthmc.tact(0.05), jnp.zeros(20)
    tacthmc.sample(key, sampler, GAUSSIAN, start, 4_000, 2, store=path, callbacks=[look])
    return path, early[0]


@pytest.fixture
def stored(finished, tmp_path):
    """A copy of the folder that may be damaged."""
    return shutil.copytree(finished[0], tmp_path / "copy")


@pytest.mark.parametrize("lost", ["program.pkl", "checkpoints"])
def test_a_folder_that_lost_a_part_is_still_shown(stored, lost):
    for part in (stored / lost, stored / "copies" / lost):
        part.unlink() if part.is_file() else shutil.rmtree(part, ignore_errors=True)
    text = tacthmc.write_report(tacthmc.load(stored), stored).read_text()
    assert 'id="xi"' in text
    # The bias is in the checkpoints, and nothing of a report is in the program.
    assert ('id="free-energy"' in text) == (lost == "program.pkl")


def test_a_parameter_beyond_the_table_is_in_it_if_asked_for(stored):
    run = tacthmc.load(stored)
    shown = {row.name for row in run.summary().parameters}
    one, other = sorted({f"theta[{k}]" for k in range(20)} - shown)[:2]
    text = tacthmc.write_report(run, stored, parameters=[one]).read_text()
    assert f"<td>{one}</td>" in text
    assert f"<td>{other}</td>" not in text


def test_a_run_that_has_only_just_begun(finished):
    assert finished[1] == ([], "Usable with care")


def test_runs_of_different_parameters_side_by_side(tempered, tmp_path):
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x["w"] ** 2))
    start = {"w": jnp.zeros(1)}
    other = tacthmc.sample(jax.random.key(1), tacthmc.sgnht(0.1), target, start, 5_000, 2)
    path = tacthmc.write_report({"one": tempered, "two": other}, tmp_path / "both.html")
    text = path.read_text()
    assert "all-comparison" not in text
    assert "theta[0], w[0]" in text


def test_a_chain_that_is_no_longer_finite(tmp_path):
    target = tacthmc.potential(lambda x: jnp.sum(x**4))
    key, sampler, keep = jax.random.key(0), tacthmc.sghmc(3.0), tacthmc.Keep(every=1)
    with pytest.warns(tacthmc.DivergedWarning):
        run = tacthmc.sample(key, sampler, target, jnp.ones(2), 500, 2, keep=keep)
    text = tacthmc.write_report(run, tmp_path).read_text()
    assert "stopped being finite" in text


def test_weighted_draws_are_shown_as_the_posterior(tmp_path):
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    key, sampler, keep = jax.random.key(0), tacthmc.tact(0.05), tacthmc.Keep(temperatures="all")
    run = tacthmc.sample(key, sampler, target, jnp.zeros(1), 100_000, 2, keep=keep)
    draws = Shown("", run).draws["theta[0]"]
    assert abs(draws.std() - 1) < 0.15
    assert np.asarray(run.draws).std() > 1.3
    assert tacthmc.write_report(run, tmp_path).exists()


def test_runs_side_by_side(tempered, tmp_path):
    other = tacthmc.sample(
        jax.random.key(1), tacthmc.sgnht(0.05), tempered.potential, jnp.zeros(2), 20_000, 3
    )
    path = tacthmc.write_report({"tempered": tempered, "not": other}, tmp_path / "both.html")
    text = path.read_text()
    found = re.findall(r'<script type="application/json" id="([^"]+)-data">(.*?)</script>', text)
    keys = [key for key, _ in found]
    assert keys[0] == "all-comparison"
    assert "run0-xi" in keys
    assert "run1-xi" not in keys
    assert all(json.loads(spec)["data"] for _, spec in found)


def test_bad_arguments():
    with pytest.raises(ValueError, match="at least one run"):
        tacthmc.write_report({}, "nowhere.html")
