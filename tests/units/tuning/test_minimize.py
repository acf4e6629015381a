"""Minimization from many starts at once: ends, counts, and energies that are not finite."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tacthmc.tuning._minimize import MEMORY, minimize


def wells(x):
    return jnp.sum((x**2 - 1.0) ** 2)


def rosenbrock(x):
    return 1e3 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2


def test_each_start_ends_in_its_own_well():
    starts = np.random.default_rng(0).uniform(0.2, 3.0, (20, 3)) * [1, -1, 1]
    found = jax.jit(lambda x: minimize(wells, x))(jnp.asarray(starts, jnp.float32))
    assert np.allclose(found.positions, np.sign(starts), atol=0.02)
    assert np.all(found.energies < 2e-3)


def test_a_narrow_curved_valley():
    found = minimize(rosenbrock, jnp.array([[-1.2, 1.0], [3.0, -5.0]]))
    # A small part of kT above the minimum.
    assert np.all(found.energies < 0.3)


@pytest.mark.slow
def test_directions_of_unequal_curvature():
    curvatures = jnp.geomspace(1e-2, 1e2, 20)
    starts = jax.random.normal(jax.random.key(0), (4, 20)) / jnp.sqrt(curvatures)[None, :]
    found = minimize(lambda x: 0.5 * jnp.sum(curvatures * x**2), 10.0 * starts)
    # Within a small part of a standard deviation in each direction.
    assert np.all(found.energies < 0.05)


@pytest.mark.slow
def test_an_end_does_not_depend_on_the_other_starts():
    starts = jnp.array([[-2.0, 0.3], [0.5, 4.0], [30.0, -0.1]])
    together = minimize(wells, starts)
    for i in range(3):
        alone = minimize(wells, starts[i : i + 1])
        assert np.allclose(alone.positions[0], together.positions[i], atol=1e-3)
        assert int(alone.evaluations[0]) == int(together.evaluations[i])


def test_the_count_of_gradients_covers_those_of_one_start_by_itself():
    """Starts that are minimized together wait for each other, which is not counted."""
    calls = []

    def counted(x):
        jax.debug.callback(lambda: calls.append(1))
        return rosenbrock(x)

    optimizer, both = optax.lbfgs(memory_size=MEMORY), optax.value_and_grad_from_state(counted)

    @jax.jit
    def step(position, state):
        value, gradient = both(position, state=state)
        updates, state = optimizer.update(
            gradient, state, position, value=value, grad=gradient, value_fn=counted
        )
        return position + updates, state, optax.tree_utils.tree_get(state, "value")

    start = jnp.array([-1.2, 1.0])
    found = minimize(rosenbrock, start[None])
    position, state, value = start, optimizer.init(start), np.inf
    while value > 1.01 * found.energies[0]:
        position, state, value = step(position, state)
    jax.effects_barrier()
    # Each iteration counts one gradient more than it needs.
    assert len(calls) <= int(found.evaluations[0]) <= 2 * len(calls)


@pytest.mark.slow
@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_a_start_without_an_energy_ends_where_it_is(bad):
    def walled(x):
        return jnp.where(jnp.abs(x[0]) > 5, bad, wells(x))

    found = minimize(walled, jnp.array([[6.0], [4.9], [0.5]]))
    assert not np.isfinite(found.energies[0])
    assert np.allclose(found.positions[1:], 1.0, atol=0.02)


@pytest.mark.slow
def test_no_minimum_costs_a_bounded_number_of_gradients():
    found = minimize(lambda x: -jnp.sum(x), jnp.zeros((1, 2)), iterations=30)
    assert int(found.evaluations[0]) < 30 * 25


@pytest.mark.slow
def test_in_double_precision(x64):
    starts = jnp.array([[-1.2, 1.0], [2.0, 2.0]], jnp.float64)
    found = minimize(rosenbrock, starts)
    assert found.positions.dtype == jnp.float64
    assert np.all(found.energies < 0.3)
