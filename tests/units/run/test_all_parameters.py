"""Everything that is wrong with a parameter is seen, wherever it is; right runs stay green."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.run import _scalars as scalars
from tacthmc.run import _scan as scan
from tests.units.run.edited import chains, with_draws

pytestmark = pytest.mark.usefixtures("quick_compilation")


def warnings_of(run):
    return [note for note in run.summary().notes if note.startswith("!")]


@pytest.mark.parametrize("dimension", [1, pytest.param(1000, marks=pytest.mark.slow)])
def test_right_draws_are_good(dimension):
    summary = with_draws(chains(dimension)).summary()
    assert summary.headline.level == "good", summary.headline
    assert not any(note.startswith("!") for note in summary.notes)
    assert len(summary.parameters) == min(dimension, 16)
    assert len(summary.to_dataframe()) == dimension


def shifted(values):
    values[2] += 3.0


def widened(values):
    values[1] *= 2.5


def lost(values):
    values[0, 100] = np.nan


def infinite(values):
    values[3, 100] = np.inf


def constant(values):
    values[:] = 0.25


def frozen(values):
    values[3] = 0.25


def frozen_late(values):
    values[3, 240:] = values[3, 240]


def parted(values):
    values[:] = np.arange(4)[:, None]


NAMES = ["mean", "sd", "5%", "50%", "95%", "mcse", "ess_bulk", "ess_tail", "rhat"]

WRONG = {
    shifted: "chains disagree",
    widened: "chains disagree",
    lost: "not finite",
    infinite: "not finite",
    constant: "never moved",
    frozen: "chain 3 stood still",
    frozen_late: "chain 3 stood still",
    parted: "chains disagree",
}


@pytest.mark.parametrize(
    ("wrong", "place"), [*((wrong, 30) for wrong in WRONG), (shifted, 0), (shifted, 16), (lost, 39)]
)
def test_one_wrong_parameter_is_named_wherever_it_is(wrong, place):
    values = chains(40)
    wrong(values[:, :, place])
    run = with_draws(values)
    summary, name = run.summary(), f"theta[{place}]"
    assert summary.parameters[0].name == name
    assert any(WRONG[wrong] in note and name in note for note in warnings_of(run))
    assert summary.headline.level == "bad"
    assert summary.failed == (wrong in (lost, infinite, constant))
    assert name in str(summary)


def test_a_chain_that_stops_is_told_once():
    values = chains(40)
    values[1, 200:] = values[1, 200]
    still = [note for note in warnings_of(with_draws(values)) if "stood still" in note]
    assert len(still) == 1
    assert "37 more" in still[0]


@pytest.fixture
def small(monkeypatch):
    """Limits so low that a few thousand parameters are very many."""
    monkeypatch.setattr(scalars, "MAX_RANKED", 100_000)
    monkeypatch.setattr(scan, "MAX_SUMMED", 500_000)
    monkeypatch.setattr(scan, "MAX_READ", 1_000_000)
    monkeypatch.setattr(scan, "BLOCK", 10_000)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "wrong",
    [
        *(None, shifted, lost),
        *(pytest.param(w, marks=pytest.mark.slow) for w in (widened, constant, frozen_late)),
    ],
)
def test_of_very_many_parameters_the_worst_are_found(wrong):
    start = {"a": jnp.zeros((3, 100)), "b": jnp.zeros(699), "c": jnp.zeros(())}
    values = chains(1000)
    if wrong is not None:
        wrong(values[:, :, 777])
    run = with_draws(values, start)
    summary = run.summary()
    assert not summary.judged.scalars.all_ranked
    assert "projection 3" in [row.name for row in summary.functions]
    assert "R-hat and ESS by ranks of" in str(summary)
    assert "one draw in" in str(summary)
    if wrong is None:
        assert summary.headline.level == "good", summary.headline
    else:
        assert summary.parameters[0].name == "b[477]"
        assert any("b[477]" in note for note in warnings_of(run))
        assert summary.headline.level == "bad"


@pytest.mark.usefixtures("small")
def test_a_common_shift_shows_in_the_projections():
    """No single parameter is far off, but all together are."""
    values = chains(1000, seed=1)
    signs = np.random.default_rng([scan.PROJECTION_SEED, 0]).integers(0, 2, (1000, 8), np.int8)
    values[2] += 0.12 * (2 * signs[:, 3] - 1)
    summary = with_draws(values).summary()
    projection = next(row for row in summary.functions if row.name == "projection 4")
    assert projection.rhat > 1.1
    assert summary.headline.level == "bad"


def test_a_stored_run_is_judged_like_one_in_memory(tmp_path, monkeypatch):
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x["w"] ** 2) + 0.5 * x["b"] ** 2)
    start, key = {"w": jnp.zeros((5, 40)), "b": jnp.zeros(())}, jax.random.key(3)

    def run(store):
        return tacthmc.sample(
            key, tacthmc.sgnht(0.1), target, start, 4_000, 2, store=store, progress=False
        )

    memory, stored = run(None), run(tmp_path / "run")
    for read in (stored, tacthmc.load(tmp_path / "run")):
        assert read.summary().parameters == memory.summary().parameters
        assert read.summary().notes == memory.summary().notes
    monkeypatch.setattr(scalars, "MAX_RANKED", 10_000)
    monkeypatch.setattr(scan, "MAX_SUMMED", 20_000)
    monkeypatch.setattr(scan, "BLOCK", 500)
    streamed, again = tacthmc.load(tmp_path / "run"), run(None)
    assert streamed.summary().parameters == again.summary().parameters
    assert streamed.summary().functions == again.summary().functions
    assert len(streamed.summary().to_dataframe()) == 201


def test_a_table_fits_a_terminal():
    start = {
        "a_rather_long_name_of_a_layer.kernel_of_attention": jnp.zeros((3, 4)),
        "b": jnp.ones(()),
    }
    values = chains(13)
    values[..., 3] = values[..., 3] * 1e-5 - 1e-4
    values[..., 4] *= 1e12
    text = str(with_draws(values, start).summary())
    tables = [line for line in text.splitlines() if not line.startswith("!")]
    assert max(map(len, tables)) <= 100
    assert "a_ra…ention[0,3]" in text or "…" in text


def test_a_summary_is_computed_once_and_names_are_escaped():
    start = {"<script>alert(1)</script>": jnp.zeros(2)}
    run = with_draws(chains(2), start)
    summary = run.summary()
    assert run.summary() is summary
    shown = [summary, run, run.sampler, run.potential]
    for page in (one._repr_html_() for one in shown):
        assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;_script&gt;[1]" in summary._repr_html_()
    frame = summary.to_dataframe()
    assert list(frame.columns) == NAMES
    assert frame.loc["<script>alert(1)<_script>[1]", "mean"] == summary.parameters[1].mean


def test_a_report_shows_leaves_modes_and_the_same_notes(tmp_path):
    values = chains(40, draws=600)
    values[..., 30] = 0.4 * values[..., 30] + np.where(values[..., 31] > 0.3, 2.0, -2.0)
    start = {"a": jnp.zeros(25), "weights": jnp.zeros((5, 3))}
    run = with_draws(values, start)
    # The valley is found in the 31st parameter.
    summary = run.summary()
    assert "weights[1,2]" in summary.modes.names
    assert np.allclose(np.sort(summary.modes.shares), [0.38, 0.62], atol=0.04)
    page = tacthmc.write_report(run, tmp_path / "r.html", parameters=["weights"]).read_text()
    assert "<td>weights[2,1]</td>" in page
    assert "tail ESS" in page
    page = tacthmc.write_report(run, tmp_path / "r.html").read_text()
    assert "<td>mode 1</td><td>0.6" in page
    assert summary.headline.title in page
    with pytest.raises(ValueError, match=r"no parameter 'wieghts'; the nearest is 'weights'"):
        tacthmc.write_report(run, tmp_path / "r.html", parameters=["wieghts"])
