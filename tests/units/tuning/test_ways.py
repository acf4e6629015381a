"""Which way tact() takes from mode to mode, and that what it says of them is true."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import Langevin
from tacthmc.samplers._replica_path import ReplicaPath
from tests.budget import assert_mean
from tests.units.tuning.test_mode_search import log_normal
from tests.units.tuning.test_screening import needle

pytestmark = pytest.mark.usefixtures("quick_compilation")


def sampled(energy, start, steps, chains=4):
    potential = tacthmc.potential(energy)
    return tacthmc.sample(jax.random.key(0), tacthmc.tact(), potential, start, steps, chains)


def alarms(run):
    return [note for note in run.summary().notes if note.startswith("!")]


def test_steps_are_stable_in_the_narrowest_mode():
    run = sampled(needle, jnp.zeros(2), 20_000)
    assert isinstance(run.sampler, Langevin)
    # The curvature of the wide mode is 0.01, and that of the narrow one 100.
    assert run.sampler.step_size <= 4 / 100
    assert_mean(run.draws[:, :, 0] > 30.0, 0.5)
    assert alarms(run) == []


def ring(x):
    """A ring with half of the mass, and a Gaussian at its center."""
    radius = jnp.sqrt(jnp.sum(x**2) + 1e-6)
    on_ring = -0.5 * ((radius - 8.0) / 0.5) ** 2 - np.log(8.0 * (2 * np.pi) ** 1.5 * 0.5)
    return -jnp.logaddexp(on_ring, log_normal(x, 0.0, 1.0))


def test_replicas_take_the_place_of_xi_where_modes_are_no_list():
    run = sampled(ring, jnp.zeros(2), 20_000)
    assert isinstance(run.sampler, ReplicaPath)
    inside = np.linalg.norm(run.draws, axis=2) < 4.5
    # The ring has exp(−24.5) of its mass there, and the Gaussian 4·10⁻⁵ outside.
    assert_mean(inside, 0.5)
    assert alarms(run) == []


def test_a_flat_start_is_left():
    """All derivatives up to the third are zero at the start."""
    run = sampled(lambda x: jnp.sum((x / 3.0) ** 4), jnp.zeros(2), 5_000)
    second = np.mean(run.draws**2)
    # E x² = 9·Γ(3/4)/Γ(1/4).
    assert second == pytest.approx(9 * 0.3380, rel=0.1)
