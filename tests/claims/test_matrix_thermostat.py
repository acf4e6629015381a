"""Correlated, anisotropic force noise: the matrix thermostat is right where the scalar is not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import Keep
from tacthmc.dynamics import DiagonalThermostat, MatrixThermostat, ScalarThermostat
from tests.budget import assert_mean, assert_off_by
from tests.table import chains_of_each

NOISE_COVARIANCE = np.array([[25.0, 12.0], [12.0, 9.0]])
ETA, C = 0.01, 0.1


def correlated():
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    return tacthmc.noisy(target, covariance=jnp.asarray(NOISE_COVARIANCE))


def sample(samplers, target, num_steps, every, chains=16):
    """The draws of each sampler, which has chains of its own."""
    each, keep = chains_of_each(samplers, chains), Keep(every=every)
    run = tacthmc.sample(jax.random.key(0), each, target, jnp.zeros(2), num_steps, keep=keep)
    return np.split(np.asarray(run.draws, float), len(samplers))


def test_matrix_is_right():
    """With equal masses and with unequal ones."""
    samplers = [
        tacthmc.sgnht(ETA, noise=C, thermostat=MatrixThermostat(), mass=jnp.array(mass))
        for mass in ([1.0, 1.0], [0.5, 2.0])
    ]
    for draws in sample(samplers, correlated(), 60_000, 20, chains=8):
        for i in range(2):
            assert_mean(draws[..., i] ** 2, 1.0, 0.02, f"variance {i}")
        assert_mean(draws[..., 0] * draws[..., 1], 0.0, 0.02, "covariance")


@pytest.mark.parametrize(
    "thermostat",
    [ScalarThermostat(), pytest.param(DiagonalThermostat(), marks=pytest.mark.slow)],
    ids=["scalar", "diagonal"],
)
def test_others_are_wrong(thermostat):
    """The scalar one mixes up the variances; the diagonal one leaves the correlation."""
    sampler = tacthmc.sgnht(ETA, noise=C, thermostat=thermostat)
    (draws,) = sample([sampler], correlated(), 60_000, 20)
    if isinstance(thermostat, ScalarThermostat):
        assert_off_by(draws[..., 0] ** 2, 1.0, 0.1, "variance 0")
        assert_off_by(draws[..., 1] ** 2, 1.0, 0.1, "variance 1")
    else:
        assert_off_by(draws[..., 0] * draws[..., 1], 0.0, 0.1, "covariance")


def test_law_of_the_diagonal():
    """z_ii ~ N(c + η·V_ii/2, η/γ); off-diagonal entries have half that variance."""
    thermostat, potential = MatrixThermostat(gamma=1.0), correlated()
    sampler = tacthmc.sgnht(ETA, noise=C, thermostat=thermostat)

    def chain(key):
        first, rest = jax.random.split(key)
        state = sampler.init(first, jnp.zeros(2))

        def step(state, key):
            data_key, step_key = jax.random.split(key)
            batch = potential.batch(data_key, state.position)
            return sampler.step(step_key, state, potential, batch)[0], None

        def block(state, key):
            state, _ = jax.lax.scan(step, state, jax.random.split(key, 20))
            return state, state.thermostat

        return jax.lax.scan(block, state, jax.random.split(rest, 4000))[1]

    z = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(1), 16)), float)
    z = z[:, 500:]
    for i in range(2):
        mean = C + ETA * NOISE_COVARIANCE[i, i] / 2
        assert_mean(z[..., i, i], mean, 0.03 * mean, f"mean of z_{i}{i}")
        centered = (z[..., i, i] - z[..., i, i].mean()) ** 2
        assert_mean(centered, ETA, 0.05 * ETA, f"variance of z_{i}{i}")
    assert np.allclose(z[..., 0, 1], z[..., 1, 0], atol=1e-5)
    centered = (z[..., 0, 1] - z[..., 0, 1].mean()) ** 2
    assert_mean(centered, ETA / 2, 0.05 * ETA / 2, "variance of z_01")


def test_scalar_thermostat_with_unequal_masses():
    """Isotropic noise, masses 1 and 16: friction ∝ 1/m keeps both variances right."""
    target = tacthmc.noisy(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), force=4.0)
    variances = {}
    for shape in ("isotropic", "mass"):
        thermostat, mass = ScalarThermostat(shape=shape), jnp.array([1.0, 16.0])
        sampler = tacthmc.sgnht(ETA, noise=C, thermostat=thermostat, mass=mass)
        variances[shape] = sample([sampler], target, 200_000, 40)[0] ** 2
    for i in range(2):
        assert_mean(variances["isotropic"][..., i], 1.0, 0.03, f"variance {i}")
    # The wrong shape for this noise: one coordinate too hot, the other too cold.
    assert_off_by(variances["mass"][..., 0], 1.0, 0.1, "variance 0")
    assert_off_by(variances["mass"][..., 1], 1.0, 0.1, "variance 1")


def test_mass_shaped_friction_suits_mass_shaped_noise():
    masses = jnp.array([1.0, 16.0])
    precision = jnp.array([1.0, 16.0])
    target = tacthmc.noisy(
        tacthmc.potential(lambda x: 0.5 * jnp.sum(precision * x**2)), force=4.0 * jnp.sqrt(masses)
    )
    thermostat = ScalarThermostat(shape="mass")
    sampler = tacthmc.sgnht(ETA, noise=C, thermostat=thermostat, mass=masses)
    (draws,) = sample([sampler], target, 150_000, 20)
    scaled = draws**2 * np.asarray(precision)
    for i in range(2):
        assert_mean(scaled[..., i], 1.0, 0.03, f"variance {i}")


def test_large_dimensions_are_refused():
    sampler = tacthmc.sgnht(ETA, thermostat=MatrixThermostat(largest=8))
    with pytest.raises(ValueError, match="use DiagonalThermostat"):
        sampler.init(jax.random.key(0), jnp.zeros(9))


def test_symmetric_start_stays_symmetric(x64):
    sampler = tacthmc.sgnht(ETA, thermostat=MatrixThermostat(), mass=jnp.array([0.5, 1.0, 3.0]))
    target = tacthmc.potential(lambda x: jnp.sum(jnp.cosh(x)))
    state = sampler.init(jax.random.key(0), jnp.zeros(3))
    state = eqx.tree_at(lambda s: s.momentum, state, jnp.array([0.3, -0.2, 0.1]))
    step = jax.jit(lambda key, state: sampler.step(key, state, target, ())[0])
    for k in range(10):
        state = step(jax.random.key(k), state)
    assert np.allclose(state.thermostat, state.thermostat.T, atol=1e-15)
    assert abs(float(state.thermostat[0, 1])) > 1e-6
