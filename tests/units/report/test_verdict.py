"""What a report says in plain words of runs that went well and badly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import ContinuousTempering, Metadynamics, ModeJumps, Modes, PowerCoupling
from tacthmc.report._shown import Shown

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
GAUSSIAN = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
THREE = tacthmc.potential(tacthmc.targets.three_gaussians())


def four_chains(sampler, num_steps, potential=GAUSSIAN, start=None):
    """Runs of one shape, which share their programs."""
    start = jnp.zeros(2) if start is None else start
    return tacthmc.sample(KEY, sampler, potential, start, num_steps, 4)


def levels(run):
    summary = run.summary()
    return {finding.title: finding.level for finding in summary.findings}, summary.headline


def test_a_good_run_is_called_good(tempered):
    found, above = levels(tempered)
    assert found["Every chain visited unit temperature"] == "good"
    assert found["The temperature goes up and down"] == "good"
    assert found["The histogram of ξ is flat"] == "good"
    assert found["Thermostats and momenta match theory"] == "good"
    assert found["Every chain saw every mode"] == "good"
    assert above.level != "bad"
    modes = Shown("", tempered).modes
    assert np.allclose(modes.shares, [0.6, 0.4], atol=0.06)


def test_trapped_chains_are_called_bad():
    starts = jnp.array([[-4.0], [0.0], [4.0], [4.0]])
    run = four_chains(tacthmc.sgnht(0.01), 20_000, THREE, starts)
    found, above = levels(run)
    assert found["Chains disagree"] == "bad"
    assert found["Not every chain saw every mode"] in ("bad", "look")
    assert above.level == "bad"


def test_noise_without_a_thermostat_is_called_bad():
    run = four_chains(tacthmc.sghmc(0.05), 20_000, tacthmc.noisy(GAUSSIAN, force=4.0))
    finding = next(f for f in run.summary().findings if "theory" in f.title)
    assert finding.level == "bad"
    assert "thermostat" in finding.suggestion


@pytest.mark.parametrize(
    ("sampler", "level"), [(tacthmc.samplers.adam(1e-2), "bad"), (tacthmc.sgld(0.05), "look")]
)
def test_what_diagnostics_cannot_see_is_said(sampler, level):
    run = four_chains(sampler, 20_000, tacthmc.noisy(GAUSSIAN, force=1.0))
    assert levels(run)[1].level == level


def test_thermostats_of_xi_are_never_a_reason_to_discard_draws():
    """At a large step ξ's thermostat is far from theory; the draws are right all the same."""
    run = four_chains(tacthmc.tact(0.1), 100_000)
    found, above = levels(run)
    assert found["The thermostat and momentum of ξ are away from theory"] == "look"
    assert above.level == "look"
    assert abs(np.asarray(run.draws).std() - 1) < 0.1


def test_metadynamics_that_heats_xi_comes_with_advice():
    sampler = tacthmc.tact(0.01, tempering=ContinuousTempering(bias=Metadynamics(height=0.02)))
    run = four_chains(sampler, 100_000, THREE, jnp.array([0.0]))
    advice = [f.suggestion for f in run.summary().findings]
    assert any("ContinuousTempering(refresh=Refresh(everywhere=True))" in text for text in advice)


def test_a_run_too_short_says_so():
    run = four_chains(tacthmc.tact(1e-4), 200)
    found, above = levels(run)
    assert found["A chain never made a round trip in temperature"] == "bad"
    assert above.level == "bad"


@pytest.mark.parametrize("hottest", [1.001, 1.2])
def test_a_xi_that_hardly_heats_is_no_tempering(hottest):
    tempering = ContinuousTempering(PowerCoupling.up_to(hottest))
    run = four_chains(tacthmc.tact(0.1, tempering=tempering), 20_000)
    assert run.round_trips.min() > 0
    found, _ = levels(run)
    said = "ξ hardly heats: these are draws of SGNHT"
    assert (found.get(said) == "look") == (hottest < 1.1)
    assert ("those of SGNHT" in str(run.summary())) == (hottest < 1.1)


def test_warnings_of_the_summary_are_in_the_report():
    """Chains that never enter a mode of their list agree with each other, and are wrong."""
    modes = Modes(jnp.array([[0.0], [14.0]]), jnp.ones((2, 1)), jnp.array([0.6, 0.4]))
    sampler = tacthmc.sgnht(0.2, jumps=ModeJumps(modes, every=10**6))
    target = tacthmc.potential(lambda x: -jnp.logaddexp(-0.5 * x @ x, -0.5 * (x - 14) @ (x - 14)))
    run = four_chains(sampler, 20_000, target, jnp.zeros(1))
    found, head = levels(run)
    assert found["The summary warns"] == "bad"
    assert head.level == "bad"
    assert any("has no draw" in warning for warning in run.summary().warnings)
