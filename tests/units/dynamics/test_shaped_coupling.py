"""A coupling shaped by fluctuations: one Hamiltonian, the same ends, equal drag all along."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import Keep
from tacthmc.dynamics import ContinuousTempering, PowerCoupling, ShapedCoupling
from tests.budget import assert_mean

HOT = np.array([1.0, 1.5, 2.0, 4.0, 6.0])
CURVES = {
    "gaussian": HOT,
    "flat": np.ones(5),
    "a peak": np.array([1.0, 1.0, 50.0, 1.0, 1.0]),
    "a valley": np.array([1.0, 0.02, 0.01, 0.02, 1.0]),
}


@pytest.mark.parametrize("sd", [4e3, 1e6, 1e9])
def test_a_range_next_to_unit_temperature_keeps_its_digits(sd):
    """λ′σ is the same all along, in single precision, where λ falls by one over σ."""
    hottest = 1 + 1 / sd
    coupling = ShapedCoupling([1.0, hottest], [sd, sd])
    xi = jnp.linspace(0.34, 1.66, 500)
    lam, slope = jax.vmap(coupling.value_and_slope)(xi)
    assert slope.dtype == jnp.float32
    np.testing.assert_allclose(-np.asarray(slope) * sd, 3 / 4, rtol=1e-3)
    assert np.all(np.asarray(lam) <= 1)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("knots", [4, 64])
def test_slope_ends_and_plateau(curve, knots, x64):
    coupling = ShapedCoupling(HOT, CURVES[curve], plateau=0.2, wall=1.4, knots=knots)
    xi = jnp.linspace(-1.4, 1.4, 4001)
    lam, slope = jax.vmap(coupling.value_and_slope)(xi)
    # λ′ is λ's own derivative, knots or not, and λ falls all the way out.
    _, exact = jax.vmap(lambda x: jax.jvp(lambda y: coupling.value_and_slope(y)[0], (x,), (1.0,)))(
        xi
    )
    np.testing.assert_allclose(slope, exact, atol=1e-9)
    outward = np.asarray(slope) * np.sign(xi)
    assert np.all(outward <= 1e-12)
    integral = np.cumsum(0.5 * (slope[1:] + slope[:-1])) * float(xi[1] - xi[0])
    np.testing.assert_allclose(lam[1:], lam[0] + integral, atol=5e-3)
    np.testing.assert_allclose(lam, lam[::-1])
    flat = np.abs(xi) <= 0.2
    assert np.all(lam[flat] == 1)
    assert np.all(slope[flat] == 0)
    assert np.all(lam[~flat] < 1)
    assert float(coupling.hottest) == pytest.approx(6.0, rel=1e-6)
    assert coupling.efficiency == pytest.approx(1 / 7)
    assert not coupling.is_hot(jnp.asarray(1.2))
    assert coupling.is_hot(jnp.asarray(1.3))


@pytest.mark.parametrize("curve", ["gaussian", "flat"])
def test_drag_is_the_same_all_along(curve):
    coupling = ShapedCoupling(HOT, CURVES[curve])
    xi = jnp.linspace(0.34, 1.66, 500)
    lam, slope = jax.vmap(coupling.value_and_slope)(xi)
    drag = -np.asarray(slope) * np.exp(np.interp(-np.log(lam), np.log(HOT), np.log(CURVES[curve])))
    np.testing.assert_allclose(drag, drag.mean(), rtol=2e-3)
    # Less than by the paper's family between the same temperatures.
    paper = PowerCoupling.up_to(6.0)
    xi = jnp.linspace(1 / 3, 5 / 3, 2001)
    sums = []
    for one in (coupling, paper):
        lam, slope = jax.vmap(one.value_and_slope)(xi)
        s = np.exp(np.interp(-np.log(lam), np.log(HOT), np.log(CURVES[curve])))
        sums.append(np.mean((np.asarray(slope) * s) ** 2))
    assert sums[0] < 0.9 * sums[1]


@pytest.fixture(scope="module")
def first():
    """A Gaussian of 12 dimensions: s = √6/λ."""
    return tempered_run(None, 0)


TARGET = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))


def tempered_run(coupling, seed, num_steps=200_000):
    sampler = tacthmc.tact(0.1, tempering=ContinuousTempering(coupling, step_size=5e-3))
    key, start, keep = jax.random.key(seed), jnp.zeros(12), Keep(every=25)
    return tacthmc.sample(key, sampler, TARGET, start, num_steps, 4, keep=keep)


def test_measured_in_a_run(first):
    old, new = first.sampler.tempering.coupling, ShapedCoupling.after(first)
    assert float(new.hottest) == pytest.approx(float(old.hottest), rel=1e-5)
    assert (new.plateau, new.wall) == (float(old.plateau), float(old.wall))
    # What it should be: log T linear in ξ.
    xi = jnp.linspace(0.4, 1.6, 7)
    expected = (xi - new.plateau) / (new.wall - new.plateau) * np.log(float(new.hottest))
    np.testing.assert_allclose(jnp.log(new.temperature(xi)), expected, atol=0.12)


def test_the_posterior_with_it(first):
    run = tempered_run(ShapedCoupling.after(first), 1)
    assert_mean((run.draws**2).mean(axis=-1), 1.0, 0.02, "variance on the plateau")
    assert abs(np.mean(run.plateau_share) - 0.2) < 0.04
    assert np.mean(run.round_trips) > 0.9 * np.mean(first.round_trips)


def test_refused():
    make = ShapedCoupling
    with pytest.raises(ValueError, match="temperatures must be at least two numbers that rise"):
        make([1.0, 3.0, 2.0], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="fluctuations must be one number for each of 2"):
        make([1.0, 3.0], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="fluctuations must be finite numbers > 0"):
        make([1.0, 3.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="must lie inside the walls"):
        make([1.0, 3.0], [1.0, 1.0], plateau=2.0)
    short = tempered_run(None, 0, num_steps=500)
    with pytest.raises(ValueError, match="fewer than 20 rows"):
        make.after(short)
