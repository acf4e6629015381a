"""A calibration in the report: its verdict and its rank plot."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.calibration import Calibration
from tacthmc.report._calibration_section import calibration_finding, rank_plot

pytestmark = pytest.mark.usefixtures("quick_compilation")

EVEN = (np.arange(300) + 0.5) / 300
RIGHT = Calibration(("a", "<b>"), np.stack([EVEN, EVEN[::-1]], 1), np.full(300, 50), distance=2)
WRONG = Calibration(("a", "<b>"), np.stack([EVEN, EVEN**2], 1), np.full(300, 50), distance=2)


def test_the_page_has_the_verdict_the_checks_and_the_plot(tmp_path):
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    sampler, start = tacthmc.sgnht(0.1), jnp.zeros(2)
    run = tacthmc.sample(jax.random.key(0), sampler, target, start, 2_000, 2, progress=False)
    text = tacthmc.write_report(run, tmp_path, calibration=WRONG).read_text()
    assert "Calibration by simulation: wrong" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in re.sub("<b><span", "", text.partition("<main>")[2].partition("</main>")[0])
    spec = json.loads(re.search(r'id="ranks-data">(.*?)</script>', text).group(1))
    assert [trace["name"] for trace in spec["data"] if trace.get("showlegend")] == ["&lt;b&gt;"]
    assert "Calibration" not in tacthmc.write_report(run, tmp_path).read_text()


@pytest.mark.parametrize(
    ("calibration", "level"),
    [
        (RIGHT, "good"),
        (WRONG, "bad"),
        (Calibration(("a",), EVEN[:, None], np.full(300, 5), distance=9), "look"),
        (
            Calibration(("a",), EVEN[:, None], np.full(300, 50), distance=2, remaining=(0.97,)),
            "look",
        ),
    ],
)
def test_findings(calibration, level):
    assert calibration_finding(calibration).level == level


def test_the_plot_shows_the_worst_of_many():
    names = tuple(f"x[{i}]" for i in range(60))
    ranks = np.repeat(EVEN[:, None], 60, axis=1)
    ranks[:, 59] = EVEN**1.5
    plot = rank_plot(Calibration(names, ranks, np.full(300, 50), distance=2))
    assert plot.data[2]["name"] == "x[59]"
    assert len(plot.data) == 52
    assert plot.note.startswith("10 quantities")
