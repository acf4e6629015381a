"""Couplings: values, slopes, walls, and couplings of one's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacthmc.dynamics import AdaptiveBiasingForce, BiasInput, CustomCoupling, PowerCoupling
from tests import reference

WALL = 5 / 3


def test_paper_numbers():
    coupling = PowerCoupling()
    assert np.isclose(coupling.efficiency, 0.2)
    assert np.isclose(float(coupling.hottest), 9.0, rtol=1e-5)
    assert np.isclose(float(coupling.temperature(jnp.array(1.0))), 2.0)


@pytest.mark.parametrize("power", [1, 2, 3, 5])
def test_value_and_slope(power, x64):
    coupling = PowerCoupling(power=power)
    for xi in np.linspace(-1.6, 1.6, 33):
        value, slope = coupling.value_and_slope(jnp.asarray(xi))
        expected = reference.coupling(xi, power=power)
        assert np.isclose(float(value), expected[0], atol=1e-14)
        assert np.isclose(float(slope), expected[1], atol=1e-14)


def test_slope_is_the_derivative(x64):
    coupling = PowerCoupling()
    for xi in (0.5, -0.9, 1.5):
        slope = jax.grad(lambda x: coupling.value_and_slope(x)[0])(xi)
        assert np.isclose(float(slope), float(coupling.value_and_slope(jnp.asarray(xi))[1]))


def test_custom_agrees_with_the_family(x64):
    family = PowerCoupling()
    custom = CustomCoupling(
        lambda xi: 1 / (1 + (jnp.maximum(jnp.abs(xi) - 1 / 3, 0.0) / (2 / 3)) ** 3), 1 / 3, WALL
    )
    assert custom.even
    for xi in (0.0, 0.2, -0.7, 1.6):
        xi = jnp.asarray(xi)
        assert np.allclose(custom.value_and_slope(xi), family.value_and_slope(xi), atol=1e-12)


def test_a_custom_coupling_with_a_mapped_parameter_takes_even_as_given():
    """Under a transformation the function cannot be evaluated, so nothing is checked."""

    def hottest(scale):
        coupling = CustomCoupling(
            lambda xi: 1 / (1 + scale * jnp.maximum(jnp.abs(xi) - 0.2, 0.0) ** 2),
            0.2,
            1.0,
            True,
        )
        assert coupling.even
        return coupling.hottest

    assert np.allclose(jax.vmap(hottest)(jnp.array([1.0, 2.0])), [1.64, 2.28])


@pytest.mark.parametrize(
    ("xi", "expected", "flipped"),
    [(0.5, 0.5, False), (2.0, 4 / 3, True), (-2.0, -4 / 3, True), (7.0, 1 / 3, False)],
)
def test_reflection(xi, expected, flipped):
    place, momentum = PowerCoupling().reflect(jnp.asarray(xi), jnp.asarray(0.3))
    assert np.isclose(float(place), expected, atol=1e-5)
    assert np.isclose(float(momentum), -0.3 if flipped else 0.3)


def test_an_uneven_coupling_unfolds_the_bins():
    def one_sided(xi):
        return 1 / (1 + 2.0 * jnp.maximum(xi - 0.2, 0.0) ** 2)

    coupling = CustomCoupling(one_sided, 0.2, 1.0)
    assert not coupling.even
    bias = AdaptiveBiasingForce(bins=4)
    at = BiasInput(jnp.asarray(-0.9), jnp.asarray(0.0), jnp.asarray(2.0), jnp.asarray(0))
    table = bias.update(bias.init(jnp.float32), at, coupling)
    assert table.visits.tolist() == [1.0, 0.0, 0.0, 0.0]
