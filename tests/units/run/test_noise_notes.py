"""The summary says which noise the frictions of a run do not balance."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import ScalarThermostat, TensorThermostat

N, BATCH = 200, 20
ONE = ScalarThermostat()


@cache
def blocks(batches="replacement"):
    data = jnp.asarray(np.random.default_rng(0).normal(size=(N, 2)), jnp.float32)
    return tacthmc.posterior(
        lambda p: -0.5 * jnp.sum(p["free"] ** 2),
        lambda p, x: -0.5 * jnp.sum((x - p["mean"]) ** 2),
        data,
        BATCH,
        batches=batches,
    )


def notes(sampler, potential):
    start = {"mean": jnp.zeros(2), "free": jnp.zeros((2, 3))}
    run = tacthmc.sample(jax.random.key(0), sampler, potential, start, 2_000, 2)
    return "\n".join(run.summary().warnings)


@pytest.mark.parametrize(
    "sampler",
    [
        tacthmc.sgnht(1e-3, thermostat=ONE),
        tacthmc.sgnht(1e-2, thermostat=ONE, mass={"mean": 200.0, "free": 1.0}),
        tacthmc.sghmc(1e-4),
    ],
    ids=["one friction", "unequal masses", "no thermostat"],
)
def test_unequal_noise_is_said(sampler):
    assert "times the temperature" in notes(sampler, blocks())


@pytest.mark.parametrize(
    "sampler",
    [
        tacthmc.sgnht(1e-3),
        tacthmc.sgnht(1e-3, thermostat=TensorThermostat()),
        tacthmc.sghmc(4e-5, noise_estimate={"mean": N**2 / BATCH, "free": 0.0}),
    ],
    ids=["default", "by tensor", "measured"],
)
def test_balanced_noise_is_not(sampler):
    assert "times the temperature" not in notes(sampler, blocks())


def test_reshuffled_epochs_are_said():
    assert "reshuffled epochs" in notes(tacthmc.sgnht(1e-3), blocks("epochs"))
    assert "reshuffled epochs" not in notes(tacthmc.sgnht(1e-6), blocks("epochs"))
