"""The weights of modes by bridge sampling, and whether jumps connect the modes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import Modes
from tacthmc.tuning import _jump_numbers
from tacthmc.tuning._jump_numbers import tried_jumps
from tacthmc.tuning._objective import objective

pytestmark = pytest.mark.usefixtures("quick_compilation")

MANY = 1e5


def tried(potential, modes, draws, most=MANY):
    like = jnp.zeros(draws.shape[1])
    energies = objective(jax.random.key(0), potential, like)
    return tried_jumps(jax.random.key(1), energies, modes, draws, most)


def gaussians(rng, size, shares, means, sds, count=400):
    """An energy with exact draws: a mixture of isotropic Gaussians."""
    logs = np.log(shares) - size * np.log(sds)

    def energy(x):
        away = jnp.sum((x[None] - jnp.asarray(means)[:, None].astype(x.dtype)) ** 2, axis=1)
        spread = jnp.asarray(2 * np.square(sds)).astype(x.dtype)
        return -jax.nn.logsumexp(jnp.asarray(logs).astype(x.dtype) - away / spread)

    which = rng.choice(len(shares), count, p=shares)
    draws = np.asarray(means)[which, None] + np.asarray(sds)[which, None] * rng.normal(
        size=(count, size)
    )
    return tacthmc.potential(energy), draws


def isotropic(means, sds, weights, size):
    centers = np.repeat(np.asarray(means, float)[:, None], size, axis=1)
    scales = np.stack([sd * np.eye(size) for sd in sds])
    return Modes(centers, scales, weights)


def test_gaussian_modes_are_connected_and_get_their_weights():
    potential, draws = gaussians(np.random.default_rng(0), 20, [0.2, 0.8], [-5.0, 5.0], [0.5, 1.0])
    found = tried(potential, isotropic([-5.0, 5.0], [0.5, 1.0], [0.5, 0.5], 20), draws)
    assert np.exp(found.modes.log_weights) == pytest.approx([0.2, 0.8], rel=0.01)
    assert found.accepted > 0.8
    # Goals are more even than the shares: 0.8·0.2 + 0.1 is the weight of the light mode.
    assert np.exp(found.jumps.modes.log_weights) == pytest.approx([0.26, 0.74], rel=0.01)
    # An attempt leaves the heavy mode with that weight, or with less if it is seldom accepted.
    assert 0.1 < found.leaving < 0.3
    assert found.connected
    assert found.useful


def test_weights_do_not_come_from_the_shares_of_the_draws():
    """Draws of the warm-up begin in all modes alike, and may never have changed their mode."""
    rng = np.random.default_rng(0)
    potential, _ = gaussians(rng, 5, [0.05, 0.95], [-5.0, 5.0], [0.5, 1.0])
    sides = np.where(np.arange(400) % 2, 5.0, -5.0)[:, None]
    draws = sides + np.where(sides > 0, 1.0, 0.5) * rng.normal(size=(400, 5))
    found = tried(potential, isotropic([-5.0, 5.0], [0.5, 1.0], [0.5, 0.5], 5), draws)
    assert np.exp(found.modes.log_weights) == pytest.approx([0.05, 0.95], rel=0.02)


@pytest.mark.slow
def test_skewed_modes():
    """Log-Gamma modes, whose masses Laplace's approximation gets wrong."""

    def parts(x):
        one = np.log(0.3) + jnp.sum(0.5 * (x + 8) - jnp.exp(x + 8) - np.log(np.sqrt(np.pi)))
        other = np.log(0.7) + jnp.sum(3.0 * (x - 8) - jnp.exp(x - 8) - np.log(2.0))
        return jnp.stack([one, other])

    rng = np.random.default_rng(0)
    left = np.log(rng.gamma(0.5, size=(100, 4))) - 8
    right = np.log(rng.gamma(3.0, size=(300, 4))) + 8
    potential = tacthmc.potential(lambda x: -jax.nn.logsumexp(parts(x)))
    centers = np.log([0.5, 3.0]) + np.array([-8.0, 8.0])
    scales = 1 / np.sqrt([0.5, 3.0])
    # exp(−U)·sd^4 at the centers.
    laplace = [
        np.exp(float(parts(jnp.full(4, c)).max())) * sd**4
        for c, sd in zip(centers, scales, strict=True)
    ]
    assert laplace[0] / sum(laplace) < 0.25
    modes = isotropic(centers, scales, laplace, 4)
    found = tried(potential, modes, np.concatenate([left, right]))
    weights = np.exp(found.modes.log_weights)
    assert weights[0] == pytest.approx(0.3, abs=0.05)
    assert found.connected


def test_modes_of_other_shapes_are_not_connected():
    """Gaussians that are three times too wide in 40 dimensions reach nothing."""
    potential, draws = gaussians(
        np.random.default_rng(0), 40, [0.5, 0.5], [-30.0, 30.0], [1.0, 1.0]
    )
    wide = isotropic([-30.0, 30.0], [1.0, 3.0], [0.5, 0.5], 40)
    found = tried(potential, wide, draws)
    assert found.leaving < _jump_numbers.MIN_LEAVING
    assert not found.connected
    assert not found.useful


@pytest.mark.slow
def test_one_mode_is_connected_and_perhaps_not_useful():
    potential, draws = gaussians(np.random.default_rng(0), 10, [1.0], [0.0], [1.0])
    right = tried(potential, isotropic([0.0], [1.0], [1.0], 10), draws)
    assert right.connected
    assert right.useful
    assert right.accepted > 0.99
    wrong = tried(potential, isotropic([0.0], [30.0], [1.0], 10), draws)
    assert wrong.connected
    assert not wrong.useful


@pytest.mark.slow
def test_a_light_mode_that_jumps_cannot_leave_does_not_count():
    potential, draws = gaussians(
        np.random.default_rng(0), 20, [0.998, 0.002], [0.0, 40.0], [1.0, 1.0]
    )
    found = tried(potential, isotropic([0.0, 40.0], [1.0, 8.0], [0.998, 0.002], 20), draws)
    assert np.exp(found.modes.log_weights)[1] < _jump_numbers.MIN_NOTABLE_WEIGHT


@pytest.mark.slow
def test_a_mode_outside_the_support_has_no_weight():
    """Energies that are infinite or NaN at draws of a Gaussian do not spoil the others."""
    potential, draws = gaussians(np.random.default_rng(0), 2, [1.0], [0.0], [1.0])

    def walled(x):
        bad = jnp.where(x[1] > 20.0, jnp.nan, jnp.inf)
        return jnp.where(x[0] < 10.0, potential.energy(x), bad)

    modes = isotropic([0.0, 20.0], [1.0, 1.0], [0.5, 0.5], 2)
    found = tried(tacthmc.potential(walled), modes, draws)
    assert np.all(np.isfinite(found.modes.log_weights))
    assert np.all(np.isfinite(found.jumps.modes.log_weights))
    assert 0 < found.accepted <= 1


def test_the_energies_are_counted():
    calls = []
    potential, draws = gaussians(np.random.default_rng(0), 3, [0.5, 0.5], [-5.0, 5.0], [1.0, 1.0])

    def counted(x):
        jax.debug.callback(lambda: calls.append(1))
        return potential.energy(x)

    modes = isotropic([-5.0, 5.0], [1.0, 1.0], [0.5, 0.5], 3)
    found = tried(tacthmc.potential(counted), modes, draws, most=300.0)
    jax.effects_barrier()
    assert len(calls) == found.gradients
    assert found.gradients <= 300


@pytest.mark.slow
def test_the_cost_of_jumps_sets_how_often_they_are_tried():
    """Two energies of all data per attempt, in units of the gradient of a batch."""
    rng = np.random.default_rng(0)
    plain, draws = gaussians(rng, 3, [0.5, 0.5], [-5.0, 5.0], [1.0, 1.0])
    modes = isotropic([-5.0, 5.0], [1.0, 1.0], [0.5, 0.5], 3)
    cheap = tried(plain, modes, draws)
    assert cheap.jumps.every == 2 / _jump_numbers.JUMP_COST
    posterior = tacthmc.posterior(
        lambda x: jnp.zeros(()), lambda x, w: -w * plain.energy(x), jnp.full(400, 1 / 400), 4
    )
    costly = tried(posterior, modes, draws)
    assert costly.jumps.every == 200 / _jump_numbers.JUMP_COST
    assert costly.accepted == pytest.approx(cheap.accepted, abs=0.05)
