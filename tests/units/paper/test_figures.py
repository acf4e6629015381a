"""The studies' numbers on small configs, their pictures, and what is printed from them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tacthmc
from tacthmc.paper.figures import (
    dimension,
    fig1,
    fig2,
    fig3,
    free_energy,
    measures,
    step_size,
    tuning,
)
from tacthmc.paper.figures.catalog import STUDIES
from tacthmc.paper.figures.study import read_results, rounded, write_picture, write_results

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"

SMALL = {
    "fig1": replace(fig1.STUDY.quick, steps=60_000, chains=2, ess_draws=300),
    "fig2": replace(fig2.STUDY.quick, steps=30_000, chains=2),
    "fig3": fig3.STUDY.quick,
    "free-energy": replace(free_energy.STUDY.quick, steps=60_000, chains=2),
    "step-size": replace(step_size.STUDY.quick, steps=4_000, chains=32, sizes=(0.1, 0.28, 0.4)),
    "dimension": replace(dimension.STUDY.quick, steps=60_000, dimensions=(1, 16), chains=2),
    "tuning": replace(
        tuning.STUDY.quick,
        steps=20_000,
        chains=8,
        step_sizes=(0.005, 0.08),
        keep_every=(10,),
        sd_bound=0.06,
        again=1,
    ),
}


def same(one, other):
    """Equal as JSON has them."""
    return json.dumps(one) == json.dumps(other)


LONGER = ("fig2", "free-energy", "step-size")
"""Studies of many programs; ``make test`` has their published numbers only."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONGER else []) for n in SMALL]
)
def test_small_runs_become_numbers(name, tmp_path):
    study, said = STUDIES[name], []
    results = study.results(SMALL[name], "a test", said.append)
    back = read_results(write_results(tmp_path, results))
    assert same(back, results)
    assert said or name == "fig3"
    _shown(study, back, tmp_path)


@pytest.mark.parametrize("name", list(STUDIES))
def test_published_numbers_become_a_picture_and_a_table(name, tmp_path):
    _shown(STUDIES[name], read_results(RESULTS / name / "results.json"), tmp_path)


def _shown(study, results, folder):
    paths = write_picture(folder, study, results)
    assert [path.suffix for path in paths] == [".pdf", ".png"]
    assert all(path.stat().st_size > 5_000 for path in paths)
    table = study.table(results["numbers"])
    assert table.rows
    assert all(len(row) == len(table.columns) for row in table.rows)
    _sensible(study.name, results["numbers"])


def _sensible(name, numbers):
    """What the small runs are long enough to show, with much room."""
    if name == "fig1":
        rows = numbers["samplers"]
        assert rows[fig1.TACT]["sd_error"] < rows[fig1.NO_THERMOSTAT]["sd_error"]
        assert rows[fig1.SGNHT]["ess_indicator"] < rows[fig1.TACT]["ess_indicator"]
        assert abs(sum(numbers["truth"]) - 1) < 1e-3
        for law in numbers["detail"]["laws"].values():
            assert abs(law["mean"] / law["theory"] - 1) < 0.15
    elif name == "fig2":
        for target in numbers.values():
            rows = target["samplers"]
            trapped = rows[fig2.NO_TEMPERING]
            assert max(trapped["modes_seen_per_chain"]) < min(
                rows[fig2.TACT]["modes_seen_per_chain"]
            )
            assert rows[fig2.NO_THERMOSTAT]["sd_within_modes"] > 1.08 * target["scale"]
            assert abs(rows[fig2.TACT]["sd_within_modes"] / target["scale"] - 1) < 0.08
    elif name == "fig3":
        assert numbers["hottest"] == pytest.approx(9)
        assert numbers["temperature_at_unit"] == pytest.approx(2)
        assert numbers["efficiency"] == pytest.approx(0.2)
    elif name == "free-energy":
        rows = numbers["biases"]
        assert rows[free_energy.ABF]["flatness"] < rows[free_energy.NONE]["flatness"] / 3
        assert rows[free_energy.ABF]["profile_error"] < 0.1
    elif name == "step-size":
        forms = numbers["samplers"]["SGNHT"]
        assert forms["Euler"][-1]["diverged"] or abs(forms["Euler"][-1]["error"]) > 0.15
        assert abs(forms["splitting"][-1]["error"]) < 0.1
    elif name == "dimension":
        trips = [np.mean(row["round_trips_per_million"]) for row in numbers["rows"]]
        assert trips[0] > 2 * trips[-1] > 0
    else:
        assert numbers["ratio"]["theta"] > 1
        trapped = {"sd_error": 0.0, "weight_error": 0.7}
        assert not tuning.admissible(trapped, numbers["sd_bound"])


def test_a_study_repeats_itself():
    study, config = STUDIES["dimension"], SMALL["dimension"]
    config = replace(config, dimensions=(2,), steps=5_000)
    numbers = [rounded(study.measure(config, lambda _: None)) for _ in range(2)]
    for row in (numbers[0]["rows"][0], numbers[1]["rows"][0]):
        del row["seconds"]
    assert same(*numbers)


def test_measures_know_exact_draws():
    import jax

    target = tacthmc.targets.ring()
    draws = np.asarray(target.draw(jax.random.key(0), 40_000), float)
    edges = np.linspace(-6, 6, 31)
    truth = measures.cell_shares(target, edges)
    assert truth.sum() == pytest.approx(1, abs=1e-6)
    distance = measures.total_variation(measures.histogram(draws, edges), truth)
    assert distance == pytest.approx(measures.floor(truth, len(draws)), rel=0.2)
    assert measures.sd_within(target, draws) == pytest.approx(0.3, rel=0.02)
    shares = measures.weights(measures.mode_of(target, draws), 8)
    assert np.allclose(shares, np.arange(1, 9) / 36, atol=0.01)


def test_draws_outside_the_cells_count_against_a_sampler():
    truth = np.array([0.5, 0.5])
    assert measures.total_variation(np.array([0.3, 0.3]), truth) == pytest.approx(0.4)


@pytest.mark.parametrize("name", list(STUDIES))
def test_published_results_are_of_the_study_as_it_is(name):
    results = read_results(RESULTS / name / "results.json")
    config = json.loads(json.dumps(results["config"]))
    assert same(config, rounded_config(STUDIES[name].full))
    assert results["command"] == f"tacthmc reproduce {name} --full"
    assert STUDIES[name].table(results["numbers"]).rows


def rounded_config(config):
    from dataclasses import asdict

    return json.loads(json.dumps(asdict(config)))


def test_figure_1_holds_what_it_must():
    results = read_results(RESULTS / "fig1" / "results.json")
    rows, detail = results["numbers"]["samplers"], results["numbers"]["detail"]
    assert results["seconds"] < 600
    assert rows[fig1.TACT]["ess_of"] >= 99_900
    assert rows[fig1.TACT]["total_variation"] <= 0.02
    free, trapped = (
        rows[name]["indicator_ess_per_million_gradients"] for name in (fig1.TACT, fig1.SGNHT)
    )
    assert free >= 20 * trapped
    assert rows[fig1.TACT]["sd_error"] <= rows[fig1.NO_THERMOSTAT]["sd_error"] / 4
    for name in ("z_theta", "z_xi"):
        law = detail["laws"][name]
        assert abs(law["mean"] / law["theory"] - 1) <= 0.02


def test_the_default_beats_algorithm_1_as_it_must():
    numbers = read_results(RESULTS / "tuning" / "results.json")["numbers"]
    assert numbers["sd_bound"] == 0.03
    for best in numbers["best"].values():
        assert all(abs(row["sd_error"]) <= 0.03 for row in best.values())
    assert min(numbers["ratio"].values()) >= 2.5
