"""Samplers that leave a law alone pass; those that change it are found."""

import json

import jax
import jaxtyping
import numpy as np
import pytest

import tacthmc
from tacthmc.calibration import KnownLaw, example_law, invariance
from tacthmc.dynamics import ContinuousTempering, Euler, NoThermostat, TensorThermostat
from tacthmc.potentials import at_temperature
from tacthmc.samplers import adjusted_langevin

KEY = jax.random.key(0)
SHORT = {"num_steps": 1_000, "num_chains": 200}


@pytest.mark.slow
def test_extrapolation_forgives_long_steps_only():
    """SGLD with steps whose bias is seen: right in the limit, wrong as it is."""
    extrapolated = invariance(KEY, tacthmc.sgld, 0.25, **SHORT)
    assert extrapolated.verdict == "right", str(extrapolated)
    assert sorted(extrapolated.by_step) == [0.125, 0.25]
    as_it_is = invariance(KEY, tacthmc.sgld, 0.25, order=None, **SHORT)
    assert as_it_is.verdict == "wrong"
    assert list(as_it_is.by_step) == [0.25]
    worst = as_it_is.names[int(np.argmin(as_it_is.p_values))]
    assert worst.startswith(("width", "place of energy"))


def test_too_much_noise_is_found():
    """SGLD with a tenth more noise than it should have, at any step."""

    def hot(step_size):
        return Scaled(tacthmc.sgld(step_size))

    found = invariance(KEY, hot, 0.05, num_steps=2_000, num_chains=300)
    assert found.verdict == "wrong"
    assert "wrong: " in str(found)
    assert json.loads(json.dumps(found.to_json()))["verdict"] == "wrong"


class Scaled(tacthmc.dynamics.Sampler):
    inner: tacthmc.dynamics.Sampler

    def init(self, key, position, model=None):
        return self.inner.init(key, position, model)

    def noise(self, key, position):
        return 1.1 * self.inner.noise(key, position)

    def advance(self, noise, state, potential, batch):
        return self.inner.advance(noise, state, potential, batch)


@pytest.mark.slow
def test_chains_that_diverge_are_wrong():
    found = invariance(KEY, tacthmc.sgld, 8.0, **SHORT)
    assert found.verdict == "wrong"
    assert found.diverged > 0
    assert "did not stay finite" in str(found)


NOISY = example_law(force=2.0)
PARTS = {
    "thermostat": (lambda eta: tacthmc.sgnht(eta, thermostat=TensorThermostat()), 0.02, 1.0, NOISY),
    "euler": (
        lambda eta: tacthmc.sgnht(eta, noise=eta**0.5, integrator=Euler()),
        0.002,
        0.5,
        None,
    ),
    "tempering": (lambda eta: tacthmc.tact(eta), 0.02, 1.0, NOISY),
    "adjusted": (lambda eta: adjusted_langevin(eta), 0.3, None, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_right_parts_pass(name, record):
    make, step_size, order, law = PARTS[name]
    found = invariance(KEY, make, step_size, order=order, law=law, level=1e-4)
    record(verdict=found.verdict, p_value=found.p_value, width=found.detectable_width)
    assert found.verdict == "right", str(found)


WRONG = {
    "no thermostat": (
        lambda eta: tacthmc.sgnht(eta, noise=eta, thermostat=NoThermostat()),
        0.02,
        NOISY,
    ),
    "a temperature": (
        tacthmc.sgld,
        0.02,
        KnownLaw(at_temperature(example_law().potential, 1.1), example_law().draw),
    ),
    "all temperatures": (
        lambda eta: tacthmc.tact(eta, tempering=ContinuousTempering(keep_within=1.0)),
        0.02,
        KnownLaw(at_temperature(example_law().potential, 1.1), example_law().draw),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_wrong_parts_are_found(name, record):
    make, step_size, law = WRONG[name]
    found = invariance(KEY, make, step_size, law=law, level=1e-4)
    record(verdict=found.verdict, p_value=found.p_value, width=found.detectable_width)
    assert found.verdict == "wrong", str(found)


BAD = [
    ({"step_size": 0.0}, ValueError, "step_size must be"),
    ({"num_steps": 10}, ValueError, "num_steps must be"),
    ({"num_chains": 10}, ValueError, "num_chains must be"),
    ({"order": -1.0}, ValueError, "order must be"),
    ({"law": "gaussian"}, TypeError, "law must be"),
    ({"make": "sgld"}, TypeError, "make must be a function"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD)
def test_bad_arguments(options, kind, message):
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(kind, match=message):
            invariance(KEY, **{"make": tacthmc.sgld, "step_size": 0.1, **options})
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
