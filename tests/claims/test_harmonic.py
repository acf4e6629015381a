"""The splitting in a harmonic well, without chance: its stationary covariance by linear algebra."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

import tacthmc
from tacthmc.dynamics import (
    DiagonalThermostat,
    MatrixThermostat,
    ScalarThermostat,
    TensorThermostat,
)
from tests.budget import assert_mean

CURVATURES = np.array([0.5, 4.0, 30.0])


def stationary(eta, friction):
    """The step as a matrix on (θ, r), SGHMC with the splitting, and the covariance it leaves."""
    potential = tacthmc.potential(lambda x: 0.5 * jnp.sum(jnp.asarray(CURVATURES) * x**2))
    sampler = tacthmc.sghmc(eta, friction=friction)
    size = len(CURVATURES)
    state = sampler.init(jax.random.key(0), jnp.zeros(size))
    noise = sampler.noise(jax.random.key(0), state.position)

    def step(both, numbers):
        moved = eqx.tree_at(lambda s: (s.position, s.momentum), state, (both[:size], both[size:]))
        moved, _ = sampler.advance(noise._replace(theta=numbers), moved, potential, ())
        return jnp.concatenate([moved.position, moved.momentum])

    zero = jnp.zeros(2 * size), jnp.zeros(size)
    matrix, pushed = (np.asarray(jax.jacobian(step, i)(*zero)) for i in (0, 1))
    return matrix, solve_discrete_lyapunov(matrix, pushed @ pushed.T)


@pytest.mark.parametrize("eta", [1e-3, 0.03, 0.12])
@pytest.mark.parametrize("friction", [0.01, 0.1, 0.7])
def test_the_variance_of_theta_does_not_depend_on_the_step(x64, eta, friction):
    """ω²⟨θ²⟩ = c/(2·sinh(c/2)) for every curvature, up to ηω² = 3.6 of the limit 4."""
    _, covariance = stationary(eta, friction)
    size = len(CURVATURES)
    temperature = CURVATURES * np.diagonal(covariance)[:size]
    assert np.allclose(temperature, friction / (2 * np.sinh(friction / 2)), rtol=1e-9)


@pytest.mark.parametrize("friction", [0.1, 0.7])
def test_what_the_thermostat_reads_is_the_temperature_of_theta(x64, friction):
    """⟨((r + r′)/2)²⟩ = exp(−z/2)·ηω²⟨θ²⟩ for every curvature; ⟨r²⟩ is something else."""
    eta, size = 0.12, len(CURVATURES)
    matrix, covariance = stationary(eta, friction)
    momenta = covariance[size:, size:]
    products = (matrix @ covariance)[size:, size:]
    read = np.exp(friction / 2) * 0.5 * np.diagonal(momenta + products) / eta
    temperature = CURVATURES * np.diagonal(covariance)[:size]
    assert np.allclose(read, temperature, rtol=1e-9)
    plain = np.diagonal(momenta) / eta
    assert np.all(np.abs(plain / temperature - 1) > 1e-3)


THERMOSTATS = {
    "scalar": ScalarThermostat(),
    "tensor": TensorThermostat(),
    "diagonal": DiagonalThermostat(),
    "matrix": MatrixThermostat(),
}


def slow(kind):
    return pytest.param(kind, marks=pytest.mark.slow)


@pytest.mark.parametrize("kind", ["scalar", slow("tensor"), slow("diagonal"), "matrix"])
def test_every_thermostat_holds_theta_at_any_step(kind):
    """Curvatures 1 and 10 with ηω² up to 1.5: the momenta's temperature would be off by 60%."""
    curvatures = jnp.array([1.0, 10.0])
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(curvatures * x**2))
    noisy = tacthmc.noisy(target, force=1.0)
    sampler, keep = tacthmc.sgnht(0.15, thermostat=THERMOSTATS[kind]), tacthmc.Keep(every=10)
    run = tacthmc.sample(jax.random.key(0), sampler, noisy, jnp.zeros(2), 100_000, 16, keep=keep)
    squares = np.asarray(curvatures) * np.asarray(run.draws, float) ** 2
    for i in range(2):
        assert_mean(squares[..., i], 1.0, 0.02, f"temperature of coordinate {i}")
