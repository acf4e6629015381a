"""The table of docs/parameters.md: one step of each peer's formula in our parameters.

The peers' updates are written down here in NumPy, with a unit step h for those that have one.
They differ in which momentum moves the position and in when the thermostat is updated, so
each test compares the updates that the table equates and says where the order differs.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import Euler, ScalarThermostat, TensorThermostat
from tacthmc.samplers import per_datum, tact_from_tuple

SIZE = 3
H, ALPHA, XI, BETA = 0.1, 0.7, 0.9, 0.4
THETA = np.array([0.4, -1.1, 0.7])
P = np.array([0.6, -0.3, 1.2])
PRECISION = np.diag([2.0, 1.0, 0.5])


def log_gradient(theta):
    """The peers' g: the gradient of the log posterior."""
    return -PRECISION @ theta


def potential():
    return tacthmc.potential(lambda x: 0.5 * x @ (jnp.asarray(PRECISION) @ x))


def ours(sampler, momentum, thermostat=None):
    """One step of ours from a given state; returns the state and the normals it used."""
    state = sampler.init(jax.random.key(0), jnp.asarray(THETA))
    state = eqx.tree_at(lambda s: s.momentum, state, jnp.asarray(momentum))
    if thermostat is not None:
        state = eqx.tree_at(lambda s: s.thermostat, state, jnp.asarray(thermostat))
    noise = sampler.noise(jax.random.key(1), state.position)
    state, _ = sampler.advance(noise, state, potential(), ())
    return state, np.asarray(noise.theta)


def thermostat_before(z, r, eta):
    """The z from which our step, which updates it first (γ = 1), arrives at the given one."""
    return z - (r @ r / SIZE - eta)


def test_sghmc_with_a_unit_step(x64):
    """BlackJAX and posteriors (σ = T = 1) alike: η = h², r = h·p, c = h·α, v̂ = β.

    Both move θ by the OLD momentum, ours by the new.
    """
    sampler = tacthmc.sghmc(H**2, friction=H * ALPHA, noise_estimate=BETA, integrator=Euler())
    state, n = ours(sampler, H * P)
    p = (1 - ALPHA * H) * P + H * log_gradient(THETA) + np.sqrt(H * (2 * ALPHA - H * BETA)) * n
    assert np.allclose(state.momentum, H * p, atol=1e-14)
    assert np.allclose(state.position, THETA + H * p, atol=1e-14)


def test_posteriors_sghmc_with_sigma(x64):
    """σ is the momenta's sd: mass σ², so that η = ε²/σ² with c = ε·α/σ²; r = ε·m/σ²."""
    sigma = 1.5
    sampler = tacthmc.sghmc(
        H**2 / sigma**2,
        friction=H * ALPHA / sigma**2,
        noise_estimate=BETA,
        integrator=Euler(),
    )
    state, n = ours(sampler, H * P / sigma**2)
    scale = np.sqrt(H * (2 * ALPHA - H * BETA))
    m = P + H * log_gradient(THETA) - H / sigma**2 * ALPHA * P + scale * n
    assert np.allclose(state.momentum, H * m / sigma**2, atol=1e-14)


@pytest.mark.parametrize("peer", ["blackjax", "posteriors"])
def test_sgnht_with_a_unit_step(x64, peer):
    """η = h², r = h·p, z = h·ξ, c = h·α, γ = 1."""
    sampler = tacthmc.sgnht(
        H**2,
        noise=H * ALPHA,
        thermostat=ScalarThermostat(gamma=1.0),
        integrator=Euler(),
    )
    before = thermostat_before(H * XI, H * P, H**2)
    state, n = ours(sampler, H * P, before)
    p = (1 - XI * H) * P + H * log_gradient(THETA) + np.sqrt(2 * H * ALPHA) * n
    assert np.allclose(state.momentum, H * p, atol=1e-14)
    assert np.isclose(float(state.thermostat), H * XI, atol=1e-14)
    if peer == "blackjax":  # ξ feels the new momentum: our next step's first line
        xi = XI + H * (p @ p / SIZE - 1)
        assert np.isclose(H * xi, float(state.thermostat) + (H * p) @ (H * p) / SIZE - H**2)
    else:  # ξ feels the old momentum: our step's first line
        xi = XI + H * (P @ P / SIZE - 1)
        assert np.isclose(H * (xi - XI), H * XI - before)


def test_posteriors_baoa(x64):
    """Its kick, half drifts and exact Ornstein-Uhlenbeck step give the same equilibrium.

    Not the same map as our splitting: the test is of the table's numbers, c = ε·γ with
    γ = α/σ², by the friction factor per step.
    """
    sampler = tacthmc.sghmc(H**2, friction=H * ALPHA)
    state = sampler.init(jax.random.key(0), jnp.asarray(THETA))
    still = tacthmc.potential(lambda x: 0.0 * jnp.sum(x))
    quiet = sampler.noise(jax.random.key(1), state.position)._replace(theta=jnp.zeros(SIZE))
    moved, _ = sampler.advance(quiet, state, still, ())
    assert np.allclose(moved.momentum, np.exp(-ALPHA * H) * state.momentum, atol=1e-14)


def test_sgmcmcjax_sghmc(x64):
    """Per-step numbers like ours: η = dt, c = α, v̂ = 2β/dt."""
    dt, alpha, beta = 0.01, 0.2, 0.05
    sampler = tacthmc.sghmc(dt, friction=alpha, noise_estimate=2 * beta / dt, integrator=Euler())
    v = 0.1 * P
    state, n = ours(sampler, v)
    expected = v + dt * log_gradient(THETA) - alpha * v + np.sqrt(2 * (alpha - beta) * dt) * n
    assert np.allclose(state.momentum, expected, atol=1e-14)


def test_sgmcmcjax_sgnht(x64):
    """η = dt, c = a, γ = 1 and, like ours, θ moves with the new momentum."""
    dt, a, alpha = 0.01, 0.2, 0.3
    sampler = tacthmc.sgnht(
        dt,
        noise=a,
        thermostat=TensorThermostat(gamma=1.0),
        integrator=Euler(),
    )
    v = 0.1 * P
    state, n = ours(sampler, v, thermostat_before(alpha, v, dt))
    new = v - alpha * v + dt * log_gradient(THETA) + np.sqrt(2 * a * dt) * n
    assert np.allclose(state.momentum, new, atol=1e-14)
    assert np.allclose(state.position, THETA + new, atol=1e-14)


def test_sgld(x64):
    """BlackJAX, posteriors and SGMCMCJax alike: θ + ε·g + √(2ε)·n, our η = ε."""
    sampler = tacthmc.sgld(0.05)
    noise = sampler.noise(jax.random.key(1), jnp.asarray(THETA))
    state = sampler.init(jax.random.key(0), jnp.asarray(THETA))
    state, _ = sampler.advance(noise, state, potential(), ())
    expected = THETA + 0.05 * log_gradient(THETA) + np.sqrt(0.1) * np.asarray(noise)
    assert np.allclose(state.position, expected, atol=1e-14)


def test_sgmcmcjax_psgld(x64):
    """η = dt/2; V there starts at 0 without correction, ours is divided by 1 − αᵏ."""
    dt, decay, eps = 0.1, 0.9, 1e-3
    sampler = tacthmc.samplers.psgld(dt / 2, decay=decay, floor=eps)
    noise = sampler.noise(jax.random.key(1), jnp.asarray(THETA))
    state = sampler.init(jax.random.key(0), jnp.asarray(THETA))
    state, _ = sampler.advance(noise, state, potential(), ())
    g = log_gradient(THETA)
    corrected = ((1 - decay) * g**2) / (1 - decay)
    scale = 1 / (np.sqrt(corrected) + eps)
    expected = THETA + dt / 2 * scale * g + np.sqrt(dt * scale) * np.asarray(noise)
    assert np.allclose(state.position, expected, atol=1e-14)


def test_the_papers_tuple_is_per_datum(x64):
    """With loss = U/N: r ← r − λη∇loss + λN(0, 2cη/N) − λ²zr, r ~ N(0, η/N)."""
    eta, c, n_data = 0.5, 0.2, 50
    sampler = tact_from_tuple([eta, eta, c, c, 1.0, 1.0, 10], num_data=n_data)
    r = 0.1 * P
    before = thermostat_before(0.3, r, eta / n_data)
    state, n = ours(sampler, r, before)
    mean_loss_gradient = -log_gradient(THETA) / n_data
    expected = r - eta * mean_loss_gradient + np.sqrt(2 * c * eta / n_data) * n - 0.3 * r
    assert np.allclose(state.momentum, expected, atol=1e-14)
    authors = tact_from_tuple([eta, eta, c, c, 1.0, 1.0, 10], n_data, variant="authors")
    assert authors.tempering.bias.height == 1e-3 * n_data
    assert authors.tempering.keep_within == 0.85
    assert per_datum(eta, n_data) == eta / n_data
    assert tacthmc.tact(per_datum(eta, n_data)).step_size == sampler.step_size
