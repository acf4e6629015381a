"""Coordinates that widen with the temperature: each formula by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import tacthmc
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    ContinuousTempering,
    Coordinates,
    Euler,
    Langevin,
    LiteralAdaptiveBiasingForce,
    MatrixThermostat,
    Metadynamics,
    well_tempered,
)
from tacthmc.dynamics._coordinates import (
    CrossFriction,
    apply_cross_friction,
    cross_friction,
    recentered,
    virial_energy,
    widen,
)
from tests.budget import assert_mean

WIDENING = Coordinates(center="mean")


def test_theta_is_phi_on_the_plateau():
    x = {"a": jnp.array([1.0, 2.0])}
    center = {"a": jnp.zeros(2)}
    assert widen(x, center, jnp.ones(()))["a"].tolist() == [1.0, 2.0]


def test_virial_theorem():
    """⟨E⟩ = ⟨U⟩ − D/(2λ) at any temperature and about any center, here by exact draws."""
    rng, lam = np.random.default_rng(0), 0.3
    scales = np.array([0.5, 1.0, 4.0])
    x = rng.normal(size=(200_000, 3)) * scales / np.sqrt(lam)

    def both(x):
        energy, gradient = jax.value_and_grad(lambda x: 0.5 * jnp.sum((x / scales) ** 2))(x)
        return energy, virial_energy(energy, gradient, x, jnp.array([1.0, -2.0, 0.0]))

    energy, virial = jax.vmap(both)(jnp.asarray(x, jnp.float32))
    assert_mean(np.asarray(energy - virial)[None], 3 / (2 * lam), 0.0, "U − E")
    # |d/scale|²/4·(curvature/λ): 1/4 of (1/0.5)² + 2² over λ.
    assert np.var(np.asarray(virial)) == pytest.approx((4 + 4) / 4 / lam, rel=0.03)


def test_shared_friction_is_the_exponential():
    rng = np.random.default_rng(0)
    away, mass, scale = rng.normal(size=3), np.array([1.0, 2.0, 0.5]), np.array([0.3, 0.2, 0.4])
    z, a, slope, ratio, scale_xi = 0.4, 0.8, -0.9, 0.6, 0.1
    g = 1 / mass
    friction, offset, m, shape = (
        jnp.asarray(v, jnp.float32) for v in (np.full(3, z), away, mass, g)
    )
    numbers = jnp.float32(a), jnp.float32(slope)
    shared = cross_friction(friction, *numbers, offset, jnp.float32(ratio), (m, shape))
    b = -0.5 * slope * away
    matrix = np.zeros((4, 4))
    matrix[:3, 3] = matrix[3, :3] = ratio * z * a * b * g * np.sqrt(mass)
    matrix[3, 3] = ratio**2 * np.sum(z * b**2 * mass * g)
    sds = np.append(scale, scale_xi)
    start = rng.normal(size=4) * sds
    expected = expm(-matrix) @ (start / sds) * sds
    r, r_xi = apply_cross_friction(
        shared,
        jnp.asarray(start[:3], jnp.float32),
        jnp.float32(start[3]),
        (jnp.asarray(scale, jnp.float32), jnp.float32(scale_xi)),
    )
    np.testing.assert_allclose(np.append(r, r_xi), expected, rtol=1e-4, atol=1e-6)


def test_no_friction_is_shared_where_there_is_none():
    still = CrossFriction(jnp.zeros(3), jnp.zeros(()))
    r, r_xi = apply_cross_friction(still, jnp.ones(3), jnp.ones(()), (jnp.ones(3), jnp.ones(())))
    assert r.tolist() == [1, 1, 1]
    assert float(r_xi) == 1


def test_the_center_is_learned_on_the_plateau_only():
    center, visits = jnp.array([1.0]), jnp.zeros(())
    for value, here in ((3.0, True), (50.0, False), (6.0, True)):
        center, visits = recentered(center, jnp.array([value]), visits, jnp.array(here))
    # Weights 1 and 2: (3 + 2·6)/3, whatever it was before.
    assert center.tolist() == pytest.approx([5.0])
    assert float(visits) == 2


@pytest.mark.parametrize(
    "bias",
    [AdaptiveBiasingForce(), LiteralAdaptiveBiasingForce(), Metadynamics(), well_tempered(5.0)],
    ids=lambda b: f"{type(b).__name__}-{getattr(b, 'boost', None)}",
)
def test_a_table_means_the_same_with_and_without(bias):
    """What one form has learned is a start for the other: tables that are shown have all of A."""
    size, bath = 6, 1.3
    ones = jax.tree.map(lambda x: jnp.ones_like(x), bias.empty(jnp.float32))
    xi = ContinuousTempering(bias=bias.started_from(ones))
    started = tacthmc.tact(0.1, tempering=xi, coordinates=WIDENING, bath_temperature=bath)
    coupling = started.tempering.coupling
    inside = started.init(jax.random.key(0), jnp.zeros(size)).tempering.bias
    known = WIDENING.analytic_log_lambda(jnp.zeros(size))
    back = bias.with_log_lambda_term(inside, coupling, bath, known)
    for found, first in zip(jax.tree.leaves(back), jax.tree.leaves(ones), strict=True):
        np.testing.assert_allclose(found, first, atol=2e-5)
    # The profiles differ by T·D/2·log λ.
    shown, own = (bias.free_energy(t, coupling, bath) for t in (ones, inside))
    lam = 1 / np.asarray(coupling.temperature(jnp.asarray(shown.xi)))
    difference = shown.value - own.value
    np.testing.assert_allclose(
        difference - difference[len(lam) // 2], bath * size / 2 * np.log(lam), atol=0.02
    )


def test_refused():
    with pytest.raises(ValueError, match='center must be None, "mean", "auto" or a position'):
        Coordinates(center="median")
    with pytest.raises(ValueError, match=r'center="auto".* is for tact.* without a step size'):
        tacthmc.tact(0.1, coordinates=Coordinates(center="auto"))
    with pytest.raises(ValueError, match="center needs the splitting"):
        tacthmc.tact(0.1, coordinates=WIDENING, integrator=Euler())
    with pytest.raises(ValueError, match="damps each coordinate by itself; got MatrixThermostat"):
        tacthmc.tact(0.1, coordinates=WIDENING, thermostat=MatrixThermostat())
    with pytest.raises(ValueError, match="without a coupling nothing widens"):
        Langevin(0.1, coordinates=WIDENING)
    with pytest.raises(ValueError, match="numbers, not schedules"):
        tacthmc.tact(lambda k: 0.1 / (1 + k), coordinates=WIDENING)
    with pytest.raises(ValueError, match="center and noise_estimate do not go together"):
        Langevin(0.1, tempering=ContinuousTempering(), coordinates=WIDENING, noise_estimate=1.0)
