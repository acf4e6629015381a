"""The width of the draws of runs: what it says of right and of wrong ones."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.run._draw_gradients import draw_gradients
from tacthmc.run._width import Widths
from tacthmc.run._width_notes import width_notes

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
GAUSSIAN = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
DATA = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
START = {"A": jnp.zeros((2, 3)), "mu": jnp.zeros(2)}


def unequal(batch_size=20, **options):
    """A block of data beside a block of the prior alone, so that only one has noise."""
    return tacthmc.posterior(
        lambda p: -0.5 * (jnp.sum(p["mu"] ** 2) + jnp.sum(p["A"] ** 2)),
        lambda p, x: -0.5 * jnp.sum((x - p["mu"]) ** 2),
        DATA,
        batch_size,
        **options,
    )


def sampled(sampler, potential, start, steps=20_000, every=10, **options):
    keep = tacthmc.Keep(every=every)
    return tacthmc.sample(KEY, sampler, potential, start, steps, 4, keep=keep, **options)


@pytest.fixture(scope="module")
def hot(tmp_path_factory):
    """A stored run in which one friction serves two blocks of unequal noise."""
    sampler = tacthmc.sgnht(1e-3, thermostat=tacthmc.dynamics.ScalarThermostat())
    path = tmp_path_factory.mktemp("hot") / "run"
    return sampled(sampler, unequal(), START, 40_000, store=path)


def test_widths_are_those_of_the_draws(hot):
    """In a Gaussian the temperature is the variance of the draws over the true one."""
    a, mu = hot.width.leaves
    assert (a.name, mu.name, a.coordinates, mu.coordinates) == ("A", "mu", 6, 2)
    true = hot.draws["mu"].var(axis=(0, 1)).mean() * (len(DATA) + 1)
    assert mu.temperature == pytest.approx(true, abs=6 * mu.error)
    assert a.temperature == pytest.approx(hot.draws["A"].var(axis=(0, 1)).mean(), abs=6 * a.error)
    assert mu.ratio > 1.5
    assert a.ratio < 0.7


def test_the_summary_names_the_leaves_and_what_to_do(hot):
    (note,) = [one for one in hot.summary().notes if "configurational temperature" in one]
    assert note.startswith("! the draws of ")
    assert "times too wide" in note
    assert "of their width" in note
    assert "thermostat=DiagonalThermostat()" in note
    assert "configurational temperature" in str(hot.summary())


def test_a_stored_run_has_the_widths_of_the_run(hot):
    loaded = tacthmc.load(hot.path, trust=True)
    assert loaded.width == hot.width


def test_a_right_run_has_no_warning_and_costs_little():
    run = sampled(tacthmc.sgnht(0.05), GAUSSIAN, jnp.zeros(4), 10_000)
    assert run.width.checked
    assert width_notes(run).notes == []
    assert run.width.gradients <= 0.25 * run.num_steps * run.num_chains
    assert run.width is run.width


@pytest.mark.parametrize("batches", ["all data", "fresh batches"])
def test_gradients_are_right_in_the_mean(hot, batches, monkeypatch):
    if batches == "fresh batches":
        monkeypatch.setattr("tacthmc.run._draw_gradients.MIN_FULL_DRAWS", 10**9)
        monkeypatch.setattr("tacthmc.run._draw_gradients.CHEAP_NUMBERS", 0)
    found = draw_gradients(hot)
    assert found.of_all_data == (batches == "all data")
    sums = DATA.sum(axis=0)
    true = np.concatenate([found.draws[..., :6], 201 * found.draws[..., 6:] - sums], axis=-1)
    away = (found.gradients - true).reshape(-1, 8)
    error = away.std(axis=0) / np.sqrt(len(away)) + 1e-3
    assert np.all(np.abs(away.mean(axis=0)) < 5 * error)


def test_many_coordinates_are_looked_at_by_leaf(monkeypatch):
    monkeypatch.setattr("tacthmc.run._draw_gradients.MAX_COORDINATES", 128)
    monkeypatch.setattr("tacthmc.run._width.MAX_COORDINATES", 128)
    potential = tacthmc.potential(lambda p: 0.5 * jnp.sum(p["a"] ** 2) + 2 * jnp.sum(p["b"] ** 2))
    start = {"a": jnp.zeros(1_000), "b": jnp.zeros(3)}
    run = sampled(tacthmc.sgnht(0.05), potential, start, 1_000)
    found = run.width
    assert [(one.name, one.coordinates) for one in found.leaves] == [("a", 127), ("b", 3)]
    assert found.worst == []
    assert found.leaves[0].error < 0.02
    assert width_notes(run).notes == []


def test_what_cannot_be_checked_is_said():
    batches = [DATA[i : i + 20] for i in range(0, 200, 20)]
    streamed = tacthmc.streamed(
        lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum((x - m) ** 2), batches, 200
    )
    run = sampled(tacthmc.sgnht(1e-3), streamed, jnp.zeros(2), 2_000)
    assert not run.width.checked
    assert width_notes(run).lines == ["widths are not checked: batches come from a loader"]


def test_an_edge_of_the_density_is_named():
    found = Widths(not_finite=3, num_draws=90, why_not="the gradient is not finite")
    (note,) = width_notes(SimpleNamespace(num_draws=90, width=found)).notes
    assert note.startswith("! the gradient is not finite at 3 of 90 kept draws")
    assert "transform" in note
