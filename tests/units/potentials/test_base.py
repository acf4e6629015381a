"""Potentials of one's own, and posteriors at a temperature of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.potentials import Energy, NoBatches, Potential


class Parabola(Potential):
    """½·a·|θ|²: all that a potential needs."""

    curvature: jax.Array

    def estimate(self, position, batch, model=None, correction=None):
        return Energy.all_tempered(0.5 * self.curvature * jnp.sum(position**2))


class MeanOfBatches(NoBatches):
    """Each batch is five numbers out of the data, drawn with replacement."""

    data: jax.Array

    def select(self, data, key, position):
        return (), jax.random.randint(key, (5,), 0, len(self.data))

    def fetch(self, selection):
        return self.data[selection]


class Mean(Potential):
    """The posterior of a mean, from batches of its own."""

    data: jax.Array

    @property
    def batches(self):
        return MeanOfBatches(self.data)

    def estimate(self, position, batch, model=None, correction=None):
        fixed = 0.5 * jnp.sum(position**2)
        return Energy(fixed, 0.5 * len(self.data) * jnp.mean((batch - position) ** 2))

    def full(self, position):
        return self.estimate(position, self.data)


def test_a_potential_of_ones_own_is_sampled():
    keep = tacthmc.Keep(every=20)
    run = tacthmc.sample(
        jax.random.key(0), tacthmc.tact(0.02), Parabola(jnp.array(4.0)), jnp.zeros(1), 20_000, 16,
        keep=keep,
    )  # fmt: skip
    assert np.isclose(run.draws.std(), 0.5, atol=0.03)
    with pytest.raises(ValueError, match="a Parabola has no full-data energy"):
        run.potential.energy(jnp.zeros(1))
    with pytest.raises(ValueError, match="weighs draws by their full-data energy"):
        tacthmc.sample(
            jax.random.key(0), tacthmc.tact(0.02), run.potential, jnp.zeros(1), 100,
            keep=tacthmc.Keep(temperatures="all"),
        )  # fmt: skip


def test_a_potential_of_ones_own_has_batches_and_a_full_energy():
    data = jnp.asarray(np.random.default_rng(0).normal(2.0, 1.0, 20), jnp.float32)
    target = Mean(data)
    assert target.traits.has_energy
    assert float(target.energy(jnp.zeros(()))) == pytest.approx(0.5 * np.sum(np.square(data)))
    run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(1e-3), target, jnp.zeros(()), 20_000, 16)
    assert np.isclose(run.draws.mean(), np.sum(data) / 21, atol=0.02)
    assert np.isclose(run.draws.std(), 1 / np.sqrt(21), rtol=0.05)


def test_a_potential_has_ten_members_at_most():
    """So that one of your own can be read at a glance."""
    members = [name for name in vars(Potential) if not name.startswith("_")]
    assert len(members) <= 10, members


def test_a_cold_posterior_is_narrower():
    cold = tacthmc.potentials.at_temperature(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), 0.25)
    run = tacthmc.sample(jax.random.key(0), tacthmc.sghmc(0.02), cold, jnp.zeros(1), 20_000, 16)
    assert np.isclose(run.draws.std(), 0.5, atol=0.03)
