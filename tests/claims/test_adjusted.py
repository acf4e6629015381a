"""Adjusted steps leave exp(−U) invariant at any step size, and a splitting does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import (
    Adjusted,
    ContinuousTempering,
    Coordinates,
    Langevin,
    NoThermostat,
    ScalarThermostat,
)
from tests.budget import assert_mean, assert_off_by

pytestmark = pytest.mark.usefixtures("quick_compilation")


def adjusted(step_size, **parts):
    return Langevin(step_size, thermostat=NoThermostat(), integrator=Adjusted(), **parts)


def run(sampler, energy, start, steps=20_000, every=5):
    keep, potential = tacthmc.Keep(every=every), tacthmc.potential(energy)
    return tacthmc.sample(jax.random.key(0), sampler, potential, start, steps, 16, keep=keep)


SIZE, WIDTH, SHARE = 8, 0.5, 0.4


def concentric(x):
    """A spike and a slab around the same place, in 8 dimensions."""
    slab = np.log(1 - SHARE) - 0.5 * jnp.sum(x**2)
    spike = np.log(SHARE) - 0.5 * jnp.sum((x / WIDTH) ** 2) - SIZE * np.log(WIDTH)
    return -jnp.logaddexp(slab, spike)


def test_shares_of_curved_and_flat_regions_have_no_bias():
    """The mean of |θ|² is that of both shares: SIZE·(0.4·WIDTH² + 0.6)."""
    eta, expected = 0.3, SIZE * (SHARE * WIDTH**2 + 1 - SHARE)
    exact, split = (
        np.sum(run(sampler, concentric, jnp.zeros(SIZE), 50_000).draws ** 2, axis=2)
        for sampler in (adjusted(eta), tacthmc.sgnht(eta))
    )
    assert_mean(exact, expected)
    assert_off_by(split, expected, 0.3)


@pytest.mark.parametrize("step_size", [0.02, 0.5])
def test_moments_at_short_and_long_steps(step_size):
    """E x² = Γ(3/4)/Γ(1/4) for exp(−x⁴), with masses and linear coordinates too."""
    wells = run(
        adjusted(step_size, mass=jnp.array([1.0, 3.0])), lambda x: jnp.sum(x**4), jnp.ones(2)
    )
    for k in range(2):
        assert_mean(wells.draws[:, :, k] ** 2, 0.337989)
    assert_mean(wells.after_warmup("kinetic_temperature"), 1.0)


def test_a_bath_has_its_temperature():
    hot = run(adjusted(0.5, bath_temperature=2.0), lambda x: 0.5 * jnp.sum(x**2), jnp.ones(2))
    assert_mean(hot.draws[:, :, 0] ** 2, 2.0)


def test_it_takes_one_gradient_per_step():
    """The energy of a place is kept, and found anew after a jump."""
    sampler = adjusted(0.1)
    state = sampler.init(jax.random.key(0), jnp.ones(2))
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    assert np.isinf(state.memory.energy)
    state, info = sampler.step(jax.random.key(1), state, target, ())
    assert np.array_equal(state.position, jnp.ones(2))
    assert info.energy == state.memory.energy == 1.0
    state, info = sampler.step(jax.random.key(2), state, target, ())
    assert info.energy == pytest.approx(0.5 * float(jnp.sum(state.position**2)), rel=1e-5)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"tempering": ContinuousTempering()}, "leave out ξ"),
        ({"thermostat": ScalarThermostat()}, "NoThermostat"),
        ({"coordinates": Coordinates(center="mean")}, "center"),
    ],
)
def test_parts_that_do_not_go_with_it(parts, words):
    with pytest.raises(ValueError, match=words):
        Langevin(0.1, integrator=Adjusted(), **({"thermostat": NoThermostat()} | parts))


def test_batches_are_refused():
    data = jnp.arange(20.0)
    posterior = tacthmc.posterior(lambda t: -0.5 * t**2, lambda t, x: -0.5 * (x - t) ** 2, data, 5)
    with pytest.raises(ValueError, match="batches of 5 out of 20 examples"):
        tacthmc.sample(jax.random.key(0), adjusted(0.01), posterior, jnp.zeros(()), 100)
