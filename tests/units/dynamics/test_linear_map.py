"""Linear coordinates: what moves is rounder than θ, and θ's law is what it was."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import ContinuousTempering, Coordinates, LinearMap
from tacthmc.dynamics._linear_map import MappedPotential
from tests.budget import assert_mean

SCALE = np.array([[3.0, 0.5], [0.5, 0.01]], np.float32)
SHIFT = np.array([100.0, -2.0], np.float32)
COVARIANCE = SCALE.astype(float) @ SCALE.T.astype(float)
PRECISION = jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32)


def energy(position):
    away = jnp.concatenate([position["a"][None], position["b"]]) - SHIFT
    return 0.5 * away @ PRECISION @ away


START = {"a": jnp.array(100.0), "b": jnp.array([-2.0])}


def test_there_and_back():
    linear = LinearMap(SCALE, shift=SHIFT)
    away = {"a": jnp.array(103.0), "b": jnp.array([1.0])}
    back = linear.forward(linear.inverse(away))
    np.testing.assert_allclose(back["a"], away["a"], rtol=1e-5)
    np.testing.assert_allclose(back["b"], away["b"], rtol=1e-4)


def test_a_vector_is_a_diagonal():
    thin, wide = LinearMap([2.0, 0.5]), LinearMap(np.diag([2.0, 0.5]))
    x = jnp.array([3.0, 4.0])
    np.testing.assert_allclose(thin.forward(x), wide.forward(x))
    np.testing.assert_allclose(thin.inverse(x), wide.inverse(x))


def test_gradient_is_that_of_what_moves():
    mapped = MappedPotential(tacthmc.potential(energy), LinearMap(SCALE, shift=SHIFT))
    inside = {"a": jnp.array(0.3), "b": jnp.array([-0.7])}
    value, gradient = mapped.value_and_grad(inside, ())
    # In these coordinates the energy is ½|φ|².
    np.testing.assert_allclose(value, 0.5 * (0.3**2 + 0.7**2), rtol=1e-2)
    np.testing.assert_allclose(gradient["a"], 0.3, rtol=2e-2)
    np.testing.assert_allclose(gradient["b"], [-0.7], rtol=2e-2)


TARGET = tacthmc.potential(energy)


@pytest.fixture(scope="module")
def run():
    coordinates = Coordinates(LinearMap(SCALE, shift=SHIFT))
    xi = ContinuousTempering(step_size=0.005)
    sampler = tacthmc.tact(0.2, tempering=xi, coordinates=coordinates)
    keep = tacthmc.Keep(every=10)
    return tacthmc.sample(jax.random.key(0), sampler, TARGET, START, 100_000, 8, keep=keep)


def test_law_of_theta(run):
    a, b = run.draws["a"], run.draws["b"][..., 0]
    for values, number in ((a, 0), (b, 1)):
        sd = np.sqrt(COVARIANCE[number, number])
        assert_mean((values - SHIFT[number]) / sd, 0.0, 0.02, "mean")
        assert_mean(((values - SHIFT[number]) / sd) ** 2, 1.0, 0.04, "variance")
    both = (a - SHIFT[0]) * (b - SHIFT[1]) / COVARIANCE[0, 1]
    assert_mean(both, 1.0, 0.05, "covariance")


def test_thermostats_are_compared_in_linear_coordinates(run):
    law = next(law for law in run.thermostats if law.name == "z_theta")
    assert abs(law.mean - law.expected_mean) < 0.02


def test_the_evidence_is_that_of_theta(run):
    found = run.log_evidence_ratio(4.0)
    assert abs(found.value - np.log(4.0)) < 0.1 + 5 * found.error


@pytest.mark.slow
def test_weights_of_all_temperatures():
    """In linear coordinates that also widen with the temperature."""
    coordinates = Coordinates(LinearMap(SCALE, shift=SHIFT), center="mean")
    sampler = tacthmc.tact(0.2, coordinates=coordinates)
    keep = tacthmc.Keep(temperatures="all")
    run = tacthmc.sample(jax.random.key(0), sampler, TARGET, START, 100_000, 8, keep=keep)
    second = run.expectation(lambda p: (p["a"] - SHIFT[0]) ** 2)
    assert abs(second / COVARIANCE[0, 0] - 1) < 0.1


@pytest.mark.parametrize(
    ("scale", "shift", "words"),
    [
        (np.ones((2, 3)), None, "square matrix"),
        (np.zeros(2), None, "invertible"),
        (np.ones((2, 2)), None, "invertible"),
        (np.array([1.0, np.nan]), None, "finite"),
        (np.ones(2), np.ones(3), "shift must have shape"),
    ],
)
def test_scales_that_are_no_coordinates(scale, shift, words):
    with pytest.raises(ValueError, match=words):
        LinearMap(scale, shift=shift)


def test_a_map_of_another_size():
    sampler = tacthmc.tact(0.1, coordinates=Coordinates(LinearMap(np.ones(3))))
    with pytest.raises(ValueError, match=r"for positions of 3 numbers; got one of 2"):
        sampler.init(jax.random.key(0), START)
