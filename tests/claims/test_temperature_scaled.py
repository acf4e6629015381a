"""Coordinates that breathe with ξ: the same law on the plateau, and ξ moves in any dimension."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import tacthmc
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    Euler,
    Langevin,
    LiteralAdaptiveBiasingForce,
    MatrixThermostat,
    Metadynamics,
    PowerCoupling,
    well_tempered,
)
from tacthmc.dynamics._temperature_scaled import (
    Crossing,
    calm_energy,
    crossed,
    crossing,
    recentred,
    widened,
)
from tacthmc.targets import GaussianMixture
from tests.budget import assert_mean

# One worker for this file: its tests share runs.
pytestmark = pytest.mark.xdist_group("test_breathing")

D, APART, WEIGHTS = 24, 5.0, (0.65, 0.35)


def pair():
    """Two Gaussians along a random direction, somewhere."""
    rng = np.random.default_rng(3)
    direction = rng.normal(size=D)
    direction /= np.linalg.norm(direction)
    middle = 5 * rng.normal(size=D)
    means = middle + np.array([[-APART / 2], [APART / 2]]) * direction
    return GaussianMixture(jnp.asarray(means, jnp.float32), jnp.array(WEIGHTS), 1.0)


def run_pair(steps, noise, **options):
    target, settings = pair(), {"centre": "mean", "xi_step_size": 5e-3, **options}
    potential = tacthmc.potential(target)
    if noise:
        potential = tacthmc.noisy(potential, force=noise, energy=noise)
    sampler = tacthmc.tact(0.1, **settings)
    return tacthmc.sample(jax.random.key(1), sampler, potential, target.means[0], steps, 8)


@pytest.fixture(scope="module", params=[0.0, 2.0], ids=["exact", "noisy"])
def breathing(request):
    return run_pair(300_000, request.param)


def first_mode(run):
    target = pair()
    away = run.draws[:, :, None, :] - np.asarray(target.means)
    return (away**2).sum(axis=-1).argmin(axis=-1) == 0


def test_mode_weights(breathing):
    assert_mean(first_mode(breathing), WEIGHTS[0], 0.02, "weight of the first mode")


def test_variance_within_modes(breathing):
    means = np.asarray(pair().means)
    nearest = np.where(first_mode(breathing)[..., None], means[0], means[1])
    # Between the modes a draw counts to the nearer, which takes a little of the variance.
    along = (means[1] - means[0]) / APART
    away = breathing.draws - nearest
    across = (away**2).sum(axis=-1) - (away @ along) ** 2
    assert_mean(across / (D - 1), 1.0, 0.01, "variance across the line of modes")


def test_xi_moves_and_is_uniform(breathing):
    # The paper's form makes an eighth of these journeys here, or fewer.
    assert np.mean(breathing.round_trips) > 500
    assert abs(np.mean(breathing.plateau_share) - 0.2) < 0.04
    assert abs(np.mean(breathing.after_warmup("xi_kinetic_temperature")) - 1) < 0.1


def test_the_papers_form_hardly_moves():
    paper = run_pair(300_000, 0.0, centre=None)
    assert np.mean(paper.round_trips) < 500


def test_free_energy_of_a_gaussian():
    """A(ξ) = D/2·log λ, which also is log Z(λ) − log Z(1) = −D/2·log λ."""
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum((x - 3.0) ** 2))
    for centre in (None, "mean", 3.0):
        sampler = tacthmc.tact(0.1, centre=centre, xi_step_size=5e-3)
        run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.full(4, 3.0), 100_000, 8)
        profile = run.free_energy()
        lam = 1 / np.asarray(sampler.coupling.temperature(jnp.asarray(profile.xi)))
        assert np.max(np.abs(profile.value - 2.0 * np.log(lam))) < 0.15
        for temperature in (None, 2.0):
            found = run.log_evidence_ratio(temperature)
            expected = 2.0 * np.log(found.temperature)
            assert found.error < 0.05
            assert abs(found.value - expected) < 5.2 * found.error + 0.02


def test_evidence_ratio_of_a_mixture():
    """Against the integral on a grid."""
    target = tacthmc.targets.three_gaussians()
    run = tacthmc.sample(
        jax.random.key(0),
        tacthmc.tact(0.01),
        tacthmc.potential(target),
        jnp.zeros(1),
        400_000,
        8,
    )
    x = jnp.linspace(-30, 30, 20_001)[:, None]
    energy = np.asarray(jax.vmap(target)(x), float)
    for temperature in (2.0, 9.0):
        truth = np.log(np.sum(np.exp(-energy / temperature)) * float(x[1, 0] - x[0, 0]))
        found = run.log_evidence_ratio(temperature)
        assert abs(found.value - truth) < 5.2 * found.error + 0.02
    with pytest.raises(ValueError, match="temperature must lie between 1 and the hottest, 9"):
        run.log_evidence_ratio(10.0)


def test_virial_theorem():
    """⟨E⟩ = ⟨U⟩ − D/(2λ) at any temperature and about any centre, here by exact draws."""
    rng, lam = np.random.default_rng(0), 0.3
    scales = np.array([0.5, 1.0, 4.0])
    x = rng.normal(size=(200_000, 3)) * scales / np.sqrt(lam)

    def both(x):
        energy, gradient = jax.value_and_grad(lambda x: 0.5 * jnp.sum((x / scales) ** 2))(x)
        return energy, calm_energy(energy, gradient, x, jnp.array([1.0, -2.0, 0.0]))

    energy, calm = jax.vmap(both)(jnp.asarray(x, jnp.float32))
    assert_mean(np.asarray(energy - calm)[None], 3 / (2 * lam), 0.0, "U − E")
    # |d/scale|²/4·(curvature/λ): 1/4 of (1/0.5)² + 2² over λ.
    assert np.var(np.asarray(calm)) == pytest.approx((4 + 4) / 4 / lam, rel=0.03)


def test_shared_friction_is_the_exponential():
    rng = np.random.default_rng(0)
    away, mass, scale = rng.normal(size=3), np.array([1.0, 2.0, 0.5]), np.array([0.3, 0.2, 0.4])
    z, a, slope, ratio, scale_xi = 0.4, 0.8, -0.9, 0.6, 0.1
    g = 1 / mass
    arrays = [jnp.asarray(v, jnp.float32) for v in (np.full(3, z), away, mass, g)]
    joined = crossing(
        arrays[0],
        jnp.float32(a),
        jnp.float32(slope),
        arrays[1],
        jnp.float32(ratio),
        (arrays[2], arrays[3]),
    )
    b = -0.5 * slope * away
    matrix = np.zeros((4, 4))
    matrix[:3, 3] = matrix[3, :3] = ratio * z * a * b * g * np.sqrt(mass)
    matrix[3, 3] = ratio**2 * np.sum(z * b**2 * mass * g)
    start = rng.normal(size=4) * np.append(scale, scale_xi)
    expected = expm(-matrix) @ (start / np.append(scale, scale_xi)) * np.append(scale, scale_xi)
    r, r_xi = crossed(
        joined,
        jnp.asarray(start[:3], jnp.float32),
        jnp.float32(start[3]),
        (jnp.asarray(scale, jnp.float32), jnp.float32(scale_xi)),
    )
    np.testing.assert_allclose(np.append(r, r_xi), expected, rtol=1e-4, atol=1e-6)


def test_no_friction_is_shared_where_there_is_none():
    still = Crossing(jnp.zeros(3), jnp.zeros(()))
    r, r_xi = crossed(still, jnp.ones(3), jnp.ones(()), (jnp.ones(3), jnp.ones(())))
    assert r.tolist() == [1, 1, 1]
    assert float(r_xi) == 1


def test_the_centre_is_learnt_on_the_plateau_only():
    centre, visits = jnp.array([1.0]), jnp.zeros(())
    for value, here in ((3.0, True), (50.0, False), (6.0, True)):
        centre, visits = recentred(centre, jnp.array([value]), visits, jnp.array(here))
    # Weights 1 and 2: (3 + 2·6)/3, whatever it was before.
    assert centre.tolist() == pytest.approx([5.0])
    assert float(visits) == 2


@pytest.mark.parametrize(
    "bias",
    [
        AdaptiveBiasingForce(),
        LiteralAdaptiveBiasingForce(),
        Metadynamics(),
        well_tempered(5.0),
    ],
    ids=lambda b: f"{type(b).__name__}-{getattr(b, 'boost', None)}",
)
def test_a_table_means_the_same_with_and_without(bias):
    """What one form has learned is a start for the other: tables that are seen have all of A."""
    size, bath = 6, 1.3
    with_centre = tacthmc.tact(0.1, bias=bias, centre="mean", bath_temperature=bath)
    coupling = with_centre.coupling
    ones = jax.tree.map(lambda x: jnp.ones_like(x), bias.empty(jnp.float32))
    started = tacthmc.tact(0.1, bias=bias.started_from(ones), centre="mean", bath_temperature=bath)
    inside = started.init(jax.random.key(0), jnp.zeros(size)).tempering.bias
    seen = bias.raised(inside, coupling, bath, with_centre.known_part(jnp.zeros(size)))
    for back, first in zip(jax.tree.leaves(seen), jax.tree.leaves(ones), strict=True):
        np.testing.assert_allclose(back, first, atol=2e-5)
    # The profiles differ by T·D/2·log λ.
    shown, own = (bias.free_energy(t, coupling, bath) for t in (ones, inside))
    lam = 1 / np.asarray(coupling.temperature(jnp.asarray(shown.xi)))
    difference = shown.value - own.value
    np.testing.assert_allclose(
        difference - difference[len(lam) // 2], bath * size / 2 * np.log(lam), atol=0.02
    )


def test_no_ratio_where_xi_has_not_been():
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    run = tacthmc.sample(jax.random.key(0), tacthmc.tact(1e-4), target, jnp.zeros(2), 100, 2)
    with pytest.raises(ValueError, match="has not been at all temperatures on the way"):
        run.log_evidence_ratio()


def test_xi_that_stands_still_for_a_while():
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    sampler = tacthmc.tact(
        0.1, xi_step_size=lambda k: jnp.where(k < 50, 0.0, 5e-3), centre="mean", keep_every=10
    )
    run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(2), 500, 2)
    assert not run.failures


def test_draws_of_all_temperatures_are_theta():
    """keep="all" keeps what the energy is of, not the coordinates that move."""
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    sampler = tacthmc.tact(0.1, centre=0.0, xi_step_size=5e-3)
    run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(3), 100_000, 4, keep="all")
    hot = run.trace["temperature"] > 4
    assert np.mean(np.asarray(run.draws) ** 2) > 2
    assert hot.mean() > 0.2
    weights = np.exp(run.log_weights)
    seen = np.sum(weights[..., None] * run.draws**2) / weights.sum() / 3
    assert seen == pytest.approx(1.0, abs=0.06)


def test_widened_is_theta_on_the_plateau():
    x = {"a": jnp.array([1.0, 2.0])}
    centre = {"a": jnp.zeros(2)}
    assert widened(x, centre, jnp.ones(()))["a"].tolist() == [1.0, 2.0]


def test_refused():
    with pytest.raises(ValueError, match='centre must be None, "mean" or a position'):
        tacthmc.tact(0.1, centre="median")
    with pytest.raises(ValueError, match="centre needs the splitting"):
        tacthmc.tact(0.1, centre="mean", integrator=Euler())
    with pytest.raises(ValueError, match="damps each coordinate by itself; got MatrixThermostat"):
        tacthmc.tact(0.1, centre="mean", thermostat=MatrixThermostat())
    with pytest.raises(ValueError, match="without a coupling nothing breathes"):
        Langevin(0.1, centre="mean")
    with pytest.raises(ValueError, match="numbers, not schedules"):
        tacthmc.tact(lambda k: 0.1 / (1 + k), centre="mean")
    with pytest.raises(ValueError, match="centre and noise_estimate do not go together"):
        Langevin(0.1, coupling=PowerCoupling(), centre="mean", noise_estimate=1.0)
