"""The posteriors of ``no_numbers``: the same law in every unit, judged against what is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.maintained.no_numbers_problems import (
    PROBLEMS,
    SIZES,
    InUnits,
    logistic,
    reference,
    shares,
)
from benchmarks.record import read

FAST = [name for name in PROBLEMS if "000" not in name or "1,000" in name]


@pytest.mark.parametrize("name", FAST)
def test_a_problem_is_the_same_in_other_units(name):
    one, small = PROBLEMS[name](1.0), PROBLEMS[name](1e-3)
    assert one.steps == small.steps
    for leaf, other in zip(*map(jax.tree.leaves, (one.start, small.start)), strict=True):
        np.testing.assert_allclose(other, 1e-3 * leaf, rtol=1e-5)
    key = jax.random.key(0)
    where = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(key, x.shape), one.start)
    elsewhere = jax.tree.map(lambda x: 1e-3 * x, where)
    first, second = one.potential.energy(where), small.potential.energy(elsewhere)
    np.testing.assert_allclose(first, second, rtol=1e-4)


def test_a_function_in_other_units():
    doubled = InUnits(lambda x, y: x + y, 2.0)
    assert float(doubled(jnp.array(4.0), jnp.array(1.0))) == 3.0


def test_shares_are_judged_by_the_chains_spread():
    rng = np.random.default_rng(0)
    truth = np.array([0.2, 0.8])
    exact = [(rng.random(4_000) < 0.8).astype(int) for _ in range(16)]
    found = shares(exact, truth)
    assert found["total_variation"] < 4 * found["by_chance"]
    off = shares([(rng.random(4_000) < 0.6).astype(int) for _ in range(16)], truth)
    assert off["total_variation"] == pytest.approx(0.2, abs=0.02)
    assert off["worst_z"] > 20


def test_the_published_references_are_those_of_the_code():
    size = SIZES[0]
    found, published = reference(size, pairs=2_000), read("no_numbers_references.json")[str(size)]
    sd = np.array(published["sd"])
    off = np.abs(np.array(found["mean"]) - np.array(published["mean"])) / sd
    assert np.all(off < 6 * np.array(found["error_in_sds"]))
    np.testing.assert_allclose(found["sd"], sd, rtol=0.1)


def test_draws_of_the_reference_are_not_off():
    published = read("no_numbers_references.json")["1000"]
    mean, sd = np.array(published["mean"]), np.array(published["sd"])
    rng = np.random.default_rng(0)
    draws = [mean + sd * rng.normal(size=(2_000, 10)) for _ in range(8)]
    found = logistic(1.0).judge(draws)
    assert found["in_errors"]["all"] < 2.5
    shifted = logistic(1.0).judge([chain + 0.5 * sd for chain in draws])
    assert shifted["worst_mean_off_in_sds"] == pytest.approx(0.5, abs=0.05)
