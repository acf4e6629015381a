"""Thermostats: the sums that drive them, and the law that a run's summary compares them with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import DiagonalThermostat, ScalarThermostat, StepRates, TensorThermostat
from tacthmc.dynamics._step_rates import StepMomenta
from tacthmc.dynamics._thermostat import KineticExcess


def rates():
    return StepRates(jnp.asarray(0.02), jnp.asarray(0.1), jnp.asarray(1.3), jnp.asarray(0))


@pytest.mark.parametrize("mass", [0.3, 7.0])
def test_one_mass_for_a_leaf_gives_the_sums_of_one_for_each_coordinate(mass):
    """Masses that are numbers take another way to the same sums."""
    keys = jax.random.split(jax.random.key(0), 2)
    r = {"a": 0.1 * jax.random.normal(keys[0], (1000,)), "b": jnp.full(3, 0.2)}
    mean = {"a": 0.1 * jax.random.normal(keys[1], (1000,)), "b": jnp.full(3, 0.1)}
    numbers = jax.tree.map(lambda x: jnp.asarray(mass), r)
    arrays = jax.tree.map(lambda x: jnp.full(x.shape, mass), r)
    found = []
    for m in (numbers, arrays):
        thermostat = ScalarThermostat()
        excess = KineticExcess(r, m, thermostat.weights(m), rates(), m)
        each = jax.tree.map(jnp.sum, excess.per_coordinate())
        np.testing.assert_allclose(
            jax.tree.leaves(excess.leaf_sums()), jax.tree.leaves(each), rtol=1e-5
        )
        momenta = StepMomenta(r, mean, m, rates(), jnp.asarray(0.8), jnp.asarray(0.4))
        z = thermostat.finish_step(jnp.asarray(0.3), jnp.asarray(0.3), momenta)
        found.append((z, thermostat.kinetic_sum(momenta)))
    assert float(found[0][1]) > 0
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize(
    ("thermostat", "mass", "force"),
    [
        pytest.param(ScalarThermostat(shape="mass"), 100.0, 20.0, marks=pytest.mark.slow),
        pytest.param(TensorThermostat(), 1.0, {"a": 10.0, "b": 1.0}, marks=pytest.mark.slow),
        (DiagonalThermostat(), {"a": 2.0, "b": 0.5}, 5.0),
    ],
    ids=["scalar", "tensor", "diagonal"],
)
def test_a_run_knows_each_thermostats_law(thermostat, mass, force):
    potential = tacthmc.noisy(
        tacthmc.potential(lambda p: 0.5 * jnp.sum(p["a"] ** 2) + 0.5 * jnp.sum(p["b"] ** 2)),
        force=force,
    )
    sampler = tacthmc.sgnht(0.01, thermostat=thermostat, mass=mass)
    start = {"a": jnp.zeros(2), "b": jnp.zeros(30)}
    run = tacthmc.sample(
        jax.random.key(0), sampler, potential, start, 40_000, 8, keep=tacthmc.Keep(every=20)
    )
    law = run.thermostats[0]
    assert law.name == "z_theta"
    assert np.isclose(law.mean, law.expected_mean, rtol=0.05)
    assert np.isclose(law.sd, law.expected_sd, rtol=0.15)
