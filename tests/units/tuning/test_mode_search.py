"""The search for modes: what it finds, when it gives up, and what it says that it cost."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.targets import grid
from tacthmc.tuning import _mode_search
from tacthmc.tuning._mode_search import search_modes
from tacthmc.tuning._objective import objective

pytestmark = pytest.mark.usefixtures("quick_compilation")

BUDGET = 30_000.0


def search(potential, start, seed=0, budget=BUDGET):
    return search_modes(
        jax.random.key(seed), potential, jax.tree.map(lambda x: x[None], start), budget
    )


def log_normal(x, mean, sd):
    return jnp.sum(-0.5 * ((x - mean) / sd) ** 2 - jnp.log(sd * np.sqrt(2 * np.pi)))


def pair(low=(0.3, -4.0, 1.0), high=(0.7, 4.0, 1.0)):
    """Two Gaussians, each with a weight, a mean in all coordinates, and a standard deviation."""

    def energy(x):
        parts = [np.log(w) + log_normal(x, mean, sd) for w, mean, sd in (low, high)]
        return -jax.nn.logsumexp(jnp.stack(parts))

    return tacthmc.potential(energy)


def assert_centers(search, expected, atol=0.1):
    """The same places in any order."""
    centers = sorted(one.center.round(6).tolist() for one in search.found)
    assert np.allclose(centers, sorted(np.asarray(expected).tolist()), atol=atol)


def test_a_grid_of_25():
    found = search(tacthmc.potential(grid()), jnp.zeros(2))
    assert found.exhaustive, found
    modes, means = found.modes(jnp.float32), np.asarray(grid().means)
    away = np.linalg.norm(np.asarray(modes.centers)[:, None] - means[None], axis=2)
    assert np.all(away.min(axis=0) < 0.05), "a mode is missing"
    assert len(away) == 25
    # The wells are Gaussian, so Laplace's approximation has their masses.
    order = away.argmin(axis=1)
    weights = np.asarray(grid().weights)[order]
    assert np.exp(modes.log_weights) == pytest.approx(weights, rel=0.05)


@pytest.mark.parametrize("size", [16, pytest.param(64, marks=pytest.mark.slow)])
def test_two_modes_from_the_saddle_between_them(size):
    found = search(pair(), jnp.zeros(size))
    assert found.exhaustive, found
    assert_centers(found, [[-4.0] * size, [4.0] * size], atol=0.2)
    modes = found.modes(jnp.float32)
    assert np.exp(modes.log_weights) == pytest.approx([0.7, 0.3], rel=0.02)
    # The scale is the Cholesky factor of the inverse Hessian.
    assert np.allclose(modes.scales, np.eye(size)[None], atol=0.05)
    masses = [one.log_mass for one in found.found]
    assert sorted(np.exp(masses)) == pytest.approx([0.3, 0.7], rel=0.02)


@cache
def switched(count, batch_size):
    """A mixture of three components of unequal weights with unknown means: six modes."""
    rng = np.random.default_rng(0)
    means, shares = np.array([-3.0, 0.0, 4.0]), np.array([0.5, 0.2, 0.3])
    data = means[rng.choice(3, count, p=shares)] + rng.normal(size=count)
    logs = jnp.log(jnp.ones(3) / 3)
    return tacthmc.posterior(
        lambda mu: -0.5 * jnp.sum(mu**2) / 25.0,
        lambda mu, x: jax.nn.logsumexp(logs - 0.5 * (x - mu) ** 2),
        jnp.asarray(data, jnp.float32),
        batch_size,
    )


@pytest.mark.slow
def test_labels_of_a_mixture_with_much_data():
    """A part of the data leads to the neighborhood of each mode, and all data to the mode."""
    potential = switched(20_000, 100)
    energies = objective(jax.random.key(0), potential, jnp.zeros(3))
    assert energies.part is not None
    found = search(potential, jnp.zeros(3))
    assert found.exhaustive, found
    assert len(found.found) == 6
    # All are copies of each other, in the same place to a part of a standard deviation.
    ordered = np.array([np.sort(one.center) for one in found.found])
    sd = np.sqrt(np.diag(found.found[0].scale @ found.found[0].scale.T)).max()
    assert np.ptp(ordered, axis=0).max() < sd
    assert {tuple(np.argsort(one.center)) for one in found.found} == {
        (0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)
    }  # fmt: skip
    gradient = jax.grad(lambda mu: potential.energy(mu))
    for one in found.found:
        z = one.scale.T @ np.asarray(gradient(jnp.asarray(one.center, jnp.float32)))
        assert np.linalg.norm(z) < 0.5
    assert np.ptp(found.modes(jnp.float32).log_weights) < 0.5


def test_the_prior_knows_where_to_start():
    """Two modes 80 standard deviations apart, both far from the start."""
    data = 20.0**2 + np.random.default_rng(0).normal(size=40)
    posterior = tacthmc.posterior(
        lambda t: -0.5 * jnp.sum((t / 30.0) ** 2) + 0.01 * t[0],
        lambda t, x: -0.5 * (x - t[0] ** 2) ** 2,
        jnp.asarray(data, jnp.float32),
        40,
    )
    found = search(posterior, jnp.full(1, 3.0))
    assert found.exhaustive, found
    assert_centers(found, [[-20.0], [20.0]])
    weights = np.exp(found.modes(jnp.float32).log_weights)
    assert weights[0] / weights[1] == pytest.approx(np.exp(0.4), rel=0.05)


def test_it_gives_up_on_many_wells():
    """1,024 modes: nearly every start finds a new one."""
    wells = tacthmc.potential(lambda x: 4.0 * jnp.sum((x**2 - 1.0) ** 2))
    found = search(wells, jnp.full(10, 0.1))
    assert not found.exhaustive
    assert "found" in found.why_not or "a mode of their own" in found.why_not
    assert found.gradients < BUDGET


@pytest.mark.slow
@pytest.mark.parametrize(
    "energy",
    [
        lambda x: jnp.zeros(()),
        lambda x: -jnp.sum(x),
        lambda x: 0.5 * x[0] ** 2,
        lambda x: (jnp.sqrt(jnp.sum(x**2) + 1e-6) - 5.0) ** 2,
    ],
    ids=["flat", "without a minimum", "a valley", "a ring"],
)
def test_it_gives_up_where_no_minimum_is_isolated(energy):
    found = search(tacthmc.potential(energy), jnp.array([0.3, -0.2]))
    assert not found.exhaustive


def test_it_refuses_a_potential_without_an_energy_of_all_data():
    data = jnp.zeros((8, 2))
    posterior = tacthmc.posterior(
        lambda p: -jnp.sum(p**2),
        lambda p, batch, state: (-jnp.sum((batch - p[None]) ** 2, axis=1), state),
        data,
        4,
        batched=True,
        model_state=jnp.zeros(()),
    )
    found = search(posterior, jnp.zeros(2))
    assert found.why_not == "the potential has no energy of all data"
    assert (found.found, found.gradients, found.exhaustive) == ([], 0, False)


def test_it_refuses_too_many_dimensions():
    found = search(pair(), jnp.zeros(_mode_search.MAX_DIMENSION + 1))
    assert "2,049 dimensions are too many" in found.why_not


@pytest.mark.slow
def test_gradients_count_as_those_of_batches(monkeypatch):
    """The same energy as that of a posterior costs N/n times as many gradients of a step."""
    # Screening takes what is left of the budget in either case.
    monkeypatch.setattr(_mode_search, "MAX_DIRECTIONS", 0)
    plain = search(tacthmc.potential(lambda x: pair().energy(x)), jnp.zeros(3))
    posterior = tacthmc.posterior(
        lambda x: jnp.zeros(()), lambda x, w: -w * pair().energy(x), jnp.full(64, 1 / 64), 16
    )
    costly = search(posterior, jnp.zeros(3))
    assert plain.gradients > 64 * plain.rounds
    assert len(costly.found) == len(plain.found) == 2
    # Four batches are all data. Rounding may add or save an iteration here and there.
    assert costly.gradients / costly.starts == pytest.approx(
        4 * plain.gradients / plain.starts, rel=0.1
    )


def test_the_budget_ends_a_search():
    found = search(tacthmc.potential(grid()), jnp.zeros(2), budget=500.0)
    assert found.rounds == 1
    # One round of 64 starts with some tens of gradients each.
    assert found.gradients < 500 + 64 * 100
    assert not found.exhaustive


@pytest.mark.slow
def test_the_number_of_starts_is_that_of_hits():
    found = search(pair(), jnp.zeros(2))
    assert sum(found.hits) <= found.starts
    assert found.ended == sum(found.hits) / found.starts
    assert found.starts == found.rounds * _mode_search.ROUND_STARTS


@pytest.mark.slow
def test_very_unequal_modes_from_the_narrow_one():
    found = search(pair((0.5, -5.0, 0.1), (0.5, 50.0, 10.0)), jnp.full(2, -5.0))
    assert found.exhaustive, found
    assert_centers(found, [[-5.0, -5.0], [50.0, 50.0]], atol=1.0)
    assert np.exp(found.modes(jnp.float32).log_weights) == pytest.approx([0.5, 0.5], rel=0.02)


@pytest.mark.slow
def test_a_far_start():
    found = search(pair(), jnp.full(5, 1e4))
    assert found.exhaustive, found
    assert_centers(found, [[-4.0] * 5, [4.0] * 5], atol=0.2)


def test_the_posterior_may_be_zero_outside_a_box():
    def energy(x):
        return jnp.where(jnp.all(jnp.abs(x) < 8.0), pair().energy(x), jnp.inf)

    found = search(tacthmc.potential(energy), jnp.zeros(3))
    assert found.exhaustive, found
    assert_centers(found, [[-4.0] * 3, [4.0] * 3], atol=0.2)


@pytest.mark.parametrize("ratio", [1e2, pytest.param(1e4, marks=pytest.mark.slow)])
def test_coordinates_in_very_unequal_units(ratio):
    units = jnp.asarray([1 / ratio, 1.0, ratio], jnp.float32)
    found = search(tacthmc.potential(lambda x: pair().energy(x / units)), jnp.zeros(3))
    assert found.exhaustive, found
    centers = [one.center / np.asarray(units, float) for one in found.found]
    assert np.allclose(sorted(c.tolist() for c in centers), [[-4.0] * 3, [4.0] * 3], atol=0.3)
    weights = np.exp(found.modes(jnp.float32).log_weights)
    assert weights == pytest.approx([0.7, 0.3], rel=0.02)


@pytest.mark.slow
def test_the_neck_of_a_funnel_is_no_mode():
    """Its minimum is 10⁵ times as narrow as the funnel at the start, and has no mass."""

    def funnel(x):
        away = 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0])
        return 0.5 * (x[0] / 3.0) ** 2 + away + 0.5 * (x.shape[0] - 1) * x[0]

    found = search(tacthmc.potential(funnel), jnp.zeros(6))
    assert found.why_not.endswith("ended in an isolated minimum")


@pytest.mark.slow
def test_a_mode_beside_a_ridge_is_not_all():
    """Half of the starts end on a ring around the mode, which has half of the mass."""

    def energy(x):
        radius = jnp.sqrt(jnp.sum(x**2) + 1e-6)
        ring = -0.5 * ((radius - 8.0) / 0.5) ** 2 - np.log(8.0 * (2 * np.pi) ** 1.5 * 0.5)
        return -jnp.logaddexp(ring, log_normal(x, 0.0, 0.5))

    found = search(tacthmc.potential(energy), jnp.zeros(2))
    assert len(found.found) == 1
    assert found.ended < _mode_search.MIN_ENDED
    assert not found.exhaustive


@pytest.mark.slow
def test_a_position_of_several_leaves():
    def energy(p):
        return pair().energy(jnp.concatenate([p["b"].ravel(), p["a"]]))

    start = {"b": jnp.zeros((2, 1)), "a": jnp.zeros(1)}
    found = search(tacthmc.potential(energy), start)
    assert found.exhaustive, found
    assert_centers(found, [[-4.0] * 3, [4.0] * 3], atol=0.2)


@pytest.mark.slow
def test_in_double_precision(x64):
    found = search(pair(), jnp.zeros(3, jnp.float64))
    assert found.exhaustive, found
    assert_centers(found, [[-4.0] * 3, [4.0] * 3], atol=0.2)
    assert found.modes(jnp.float64).centers.dtype == jnp.float64
