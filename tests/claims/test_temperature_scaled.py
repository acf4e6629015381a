"""Coordinates that widen with ξ: the same law on the plateau, and ξ moves in any dimension."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import Keep
from tacthmc.dynamics import ContinuousTempering, Coordinates
from tacthmc.targets import GaussianMixture
from tests.budget import assert_mean

D, APART, WEIGHTS = 24, 5.0, (0.65, 0.35)


def pair():
    """Two Gaussians along a random direction, somewhere."""
    rng = np.random.default_rng(3)
    direction = rng.normal(size=D)
    direction /= np.linalg.norm(direction)
    middle = 5 * rng.normal(size=D)
    means = middle + np.array([[-APART / 2], [APART / 2]]) * direction
    return GaussianMixture(jnp.asarray(means, jnp.float32), jnp.array(WEIGHTS), 1.0)


WIDENING = Coordinates(center="mean")


def tact(coordinates):
    """TACT-HMC whose ξ is heavier than θ."""
    xi = ContinuousTempering(step_size=5e-3)
    return tacthmc.tact(0.1, tempering=xi, coordinates=coordinates)


def run_pair(noise, coordinates):
    target = pair()
    potential = tacthmc.potential(target)
    if noise:
        potential = tacthmc.noisy(potential, force=noise, energy=noise)
    sampler = tact(coordinates)
    return tacthmc.sample(jax.random.key(1), sampler, potential, target.means[0], 200_000, 8)


@pytest.fixture(scope="module", params=[0.0, 2.0], ids=["exact", "noisy"])
def widening(request):
    return run_pair(request.param, WIDENING)


def first_mode(run):
    target = pair()
    away = run.draws[:, :, None, :] - np.asarray(target.means)
    return (away**2).sum(axis=-1).argmin(axis=-1) == 0


def test_mode_weights(widening):
    assert_mean(first_mode(widening), WEIGHTS[0], 0.02, "weight of the first mode")


def test_variance_within_modes(widening):
    means = np.asarray(pair().means)
    nearest = np.where(first_mode(widening)[..., None], means[0], means[1])
    # Between the modes a draw counts to the nearer, which takes a little of the variance.
    along = (means[1] - means[0]) / APART
    away = widening.draws - nearest
    across = (away**2).sum(axis=-1) - (away @ along) ** 2
    assert_mean(across / (D - 1), 1.0, 0.01, "variance across the line of modes")


def test_xi_moves_and_is_uniform(widening):
    # The paper's form makes an eighth of these journeys here, or fewer.
    assert np.mean(widening.round_trips) > 330
    assert abs(np.mean(widening.plateau_share) - 0.2) < 0.04
    assert abs(np.mean(widening.after_warmup("xi_kinetic_temperature")) - 1) < 0.1


def test_the_papers_form_hardly_moves():
    paper = run_pair(0.0, None)
    assert np.mean(paper.round_trips) < 330


@pytest.mark.parametrize(
    "center", [*(pytest.param(center, marks=pytest.mark.slow) for center in (None, 3.0)), "mean"]
)
def test_free_energy_of_a_gaussian(center):
    """A(ξ) = D/2·log λ, which also is log Z(λ) − log Z(1) = −D/2·log λ."""
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum((x - 3.0) ** 2))
    sampler = tact(Coordinates(center=center))
    run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.full(4, 3.0), 100_000, 8)
    profile = run.free_energy()
    lam = 1 / np.asarray(sampler.tempering.coupling.temperature(jnp.asarray(profile.xi)))
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


def test_xi_that_stands_still_for_a_while():
    """And that has not been at all temperatures yet, so that there is no ratio."""
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    xi = ContinuousTempering(step_size=lambda k: jnp.where(k < 50, 0.0, 1e-3))
    sampler = tacthmc.tact(0.1, tempering=xi, coordinates=WIDENING)
    run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(2), 100, 2)
    assert not run.failures
    with pytest.raises(ValueError, match="has not visited all temperatures on the way"):
        run.log_evidence_ratio()


@pytest.mark.slow
def test_draws_of_all_temperatures_are_theta():
    """What is kept is θ, which the energy is of, not the coordinates that move."""
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    sampler, keep = tact(Coordinates(center=0.0)), Keep(temperatures="all")
    run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(3), 100_000, 4, keep=keep)
    hot = run.trace["temperature"] > 4
    assert np.mean(np.asarray(run.draws) ** 2) > 2
    assert hot.mean() > 0.2
    weights = np.exp(run.log_weights)
    seen = np.sum(weights[..., None] * run.draws**2) / weights.sum() / 3
    assert seen == pytest.approx(1.0, abs=0.06)
