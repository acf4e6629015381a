"""Momenta drawn afresh: when they are due, and that θ's follow their law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import ContinuousTempering, NoThermostat, Refresh, StepRates, TemperingState


@pytest.mark.parametrize("everywhere", [False, True])
def test_they_are_due_at_every_third_step(everywhere):
    refresh = Refresh(every=3, everywhere=everywhere)
    steps = jnp.arange(1, 8)
    for unit in (True, False):
        due = [bool(refresh.due(step, jnp.asarray(unit))) for step in steps]
        assert due == [(unit or everywhere) and k in (3, 6) for k in range(1, 8)]


def test_a_fresh_momentum_of_theta_follows_its_law():
    """η, T and masses are in it; between the refreshes momenta are not touched."""
    eta, bath, mass = 0.04, 1.7, jnp.array([0.5, 4.0])
    sampler = tacthmc.sgnht(eta, refresh=Refresh(every=2), mass=mass, bath_temperature=bath)
    plain = tacthmc.sgnht(eta, mass=mass, bath_temperature=bath)
    target, state = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), None
    state = other = sampler.init(jax.random.key(0), jnp.zeros(2))
    for k in range(2):
        noise = sampler.noise(jax.random.key(k + 1), state.position)
        state, _ = sampler.advance(noise, state, target, ())
        other, _ = plain.advance(noise._replace(fresh_theta=None), other, target, ())
        if k == 0:
            assert np.array_equal(state.momentum, other.momentum)
    assert np.allclose(state.momentum, noise.fresh_theta * np.sqrt(eta * bath / mass), rtol=1e-6)
    assert not np.allclose(state.momentum, other.momentum)
    assert np.allclose(state.position, other.position, rtol=1e-6)


def test_a_fresh_momentum_of_xi_follows_its_law():
    xi = ContinuousTempering(thermostat=NoThermostat(), refresh=Refresh(every=5))
    table = xi.bias.init(jnp.float32)
    before = TemperingState(jnp.asarray(0.1), jnp.asarray(0.2), jnp.asarray(0.1), table)
    normals = jnp.array([0.7, -1.5])
    for step, expected in ((3, 0.2), (4, -1.5 * np.sqrt(0.09 * 1.3))):
        rates = StepRates(jnp.asarray(0.09), jnp.asarray(0.1), 1.3, jnp.asarray(step))
        after = xi.refreshed(before, jnp.asarray(True), normals, rates)
        assert float(after.momentum) == pytest.approx(expected)
        off = xi.refreshed(before, jnp.asarray(False), normals, rates)
        assert float(off.momentum) == pytest.approx(0.2)
