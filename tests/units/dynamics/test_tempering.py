"""Ways for ξ: what a tempering is completed with, where it keeps, and when it draws r_ξ afresh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import (
    ContinuousTempering,
    NoTempering,
    NoThermostat,
    PowerCoupling,
    StepRates,
    TemperingState,
)

NORMALS = jnp.array([0.7, -1.5])


def rates(step=0, eta=0.04):
    return StepRates(jnp.asarray(eta), jnp.asarray(0.1), 1.0, jnp.asarray(step))


def state(xi=0.1, momentum=0.05):
    table = ContinuousTempering().bias.init(jnp.float32)
    return TemperingState(jnp.asarray(xi), jnp.asarray(momentum), jnp.asarray(0.1), table)


def test_what_is_not_given_is_the_step_size_and_noise_of_theta():
    own = tacthmc.tact(0.02, noise=0.3).tempering
    assert (own.step_size, own.noise) == (0.02, 0.3)
    xi = ContinuousTempering(step_size=0.5, noise=0.0)
    given = tacthmc.tact(0.02, noise=0.3, tempering=xi).tempering
    assert (given.step_size, given.noise) == (0.5, 0.0)


def test_it_knows_which_parts_were_given():
    assert ContinuousTempering().given == frozenset()
    xi = ContinuousTempering(PowerCoupling(), noise=0.1, thermostat=NoThermostat())
    assert xi.given == {"coupling", "noise", "thermostat"}
    assert tacthmc.tact(0.02, tempering=xi).tempering.given == xi.given


def test_draws_are_kept_within_a_share_of_the_plateau():
    """The plateau ends at 1/3: half of it at 1/6."""
    whole, half = ContinuousTempering(), ContinuousTempering(keep_within=0.5)
    places = jnp.array([0.0, 0.16, -0.16, 0.17, 0.3, -0.34, 1.0])
    assert jax.vmap(whole.at_unit_temperature)(places).tolist() == [True] * 5 + [False] * 2
    assert jax.vmap(half.at_unit_temperature)(places).tolist() == [True] * 3 + [False] * 4
    assert half.expected_unit_share == pytest.approx(0.5 * whole.expected_unit_share)


@pytest.mark.parametrize("momentum", [0.3, -0.3, 0.2])
def test_a_speed_that_reaches_the_limit_is_drawn_afresh(momentum):
    """From the momentum's law N(0, ηT)."""
    xi = ContinuousTempering(max_speed=0.25)
    after = xi.refreshed(state(momentum=momentum), jnp.asarray(True), NORMALS, rates())
    expected = momentum if abs(momentum) < 0.25 else -1.5 * np.sqrt(0.04)
    assert float(after.momentum) == pytest.approx(expected)


def test_without_a_limit_no_speed_is_drawn_afresh():
    before = state(momentum=30.0)
    after = ContinuousTempering().refreshed(before, jnp.asarray(True), NORMALS, rates())
    assert after is before


def test_no_tempering_stays_at_the_temperature_of_the_bath():
    none = NoTempering()
    lam, slope = none.coupling_at(None, 1.3)
    assert (float(lam), float(slope)) == (pytest.approx(1.3), 0.0)
    assert none.init(NORMALS[0], rates(), jnp.float32) is None
    assert none.num_normals == 0
    assert not none.has_momentum
