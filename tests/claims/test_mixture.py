"""The paper's 1-D mixture with noisy gradients: TACT-HMC right, Euler biased, ablations wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import tacthmc
from tacthmc.diagnostics._mixing import ess
from tacthmc.dynamics import Euler, ScalarThermostat
from tacthmc.samplers import without_tempering, without_thermostat
from tests.budget import assert_mean, assert_off_by, total_variation_bound

ETA, NOISE, FORCE, ENERGY, WEIGHTS = 0.01, 0.1, 3.0, 1.0, np.array([0.3, 0.4, 0.3])
CENTRES = np.array([-4.0, 0.0, 4.0])
STEP_BIAS = 0.01


def target():
    return tacthmc.targets.three_gaussians()


def noisy():
    return tacthmc.noisy(tacthmc.potential(target()), force=FORCE, energy=ENERGY)


def run_from_one_mode(sampler, num_steps, seed=0, potential=None):
    start = jnp.array([-4.0])
    potential = noisy() if potential is None else potential
    return tacthmc.sample(jax.random.key(seed), sampler, potential, start, num_steps, 4)


def modes_of(draws):
    return np.abs(draws[..., None] - CENTRES).argmin(axis=-1)


def squares_in(draws, mode):
    """1[mode]·((θ−μ)² − ¼): mean zero for the target (truncation at 4 sd is below 1e-3)."""
    inside = modes_of(draws) == mode
    return inside * ((draws - CENTRES[mode]) ** 2 - 0.25)


def plain_tact(eta):
    """With the paper's thermostat, to which the numbers of this file belong."""
    return tacthmc.tact(step_size=eta, noise=NOISE, thermostat=ScalarThermostat())


@pytest.fixture(scope="module")
def tact_run():
    return run_from_one_mode(
        tacthmc.tact(step_size=ETA, noise=NOISE, thermostat=ScalarThermostat()), 3_000_000
    )


def test_every_chain_finds_every_mode(tact_run):
    for chain in tact_run.all_draws:
        assert set(np.unique(modes_of(chain[:, 0]))) == {0, 1, 2}


def test_mode_weights(tact_run):
    modes = modes_of(tact_run.draws[..., 0])
    for k, weight in enumerate(WEIGHTS):
        assert_mean(modes == k, weight, STEP_BIAS * weight, f"weight of mode {k}")


def test_within_mode_sd(tact_run):
    # 1% of the sd is 2% of the variance.
    for k, weight in enumerate(WEIGHTS):
        allowance = 2 * STEP_BIAS * 0.25 * weight
        assert_mean(squares_in(tact_run.draws[..., 0], k), 0.0, allowance, f"variance in mode {k}")


def test_total_variation(tact_run):
    edges = np.linspace(-7, 7, 65)
    cdf = sum(w * norm.cdf(edges, c, 0.5) for w, c in zip(WEIGHTS, CENTRES, strict=True))
    truth = np.diff(cdf)
    draws = np.concatenate([chain[:, 0] for chain in tact_run.all_draws])
    seen = np.histogram(draws, edges)[0] / len(draws)
    modes = modes_of(tact_run.draws[..., 0])
    effective = min(ess(tact_run.draws[..., 0]), *(ess(modes == k) for k in range(3)))
    distance = 0.5 * np.abs(seen - truth).sum()
    assert distance <= STEP_BIAS + total_variation_bound(truth, effective)
    assert distance <= 0.03, "a bound that no Monte-Carlo error of this run excuses"


def test_plateau_share(tact_run):
    assert np.all(np.abs(tact_run.plateau_share - 0.2) < 0.01)


def test_thermostats_follow_theorem_1(tact_run):
    # The discretization shifts the thermostat's mean by a relative O(η).
    for name, mean, variance in (
        ("thermostat", NOISE + ETA * FORCE**2 / 2, ETA / 1.0),
        ("xi_thermostat", NOISE + ETA * ENERGY**2 / 2, ETA / 1.0),
    ):
        z = tact_run.after_warmup(name)
        assert_mean(z, mean, 0.02 * mean, f"mean of {name}")
        assert_mean((z - z.mean()) ** 2, variance, 0.02 * variance, f"variance of {name}")


def test_momenta_follow_theorem_1():
    """Momenta, step by step, through the public init and step."""
    sampler, potential = (
        tacthmc.tact(step_size=ETA, noise=NOISE, thermostat=ScalarThermostat()),
        noisy(),
    )

    def chain(key):
        first, rest = jax.random.split(key)
        state = sampler.init(first, jnp.array([-4.0]))

        def step(state, key):
            data_key, step_key = jax.random.split(key)
            batch = potential.batch(data_key, state.position)
            state, _ = sampler.step(step_key, state, potential, batch)
            return state, (state.momentum[0], state.tempering.momentum)

        def block(state, key):
            state, momenta = jax.lax.scan(step, state, jax.random.split(key, 10))
            return state, jax.tree.map(lambda m: m[-1], momenta)

        return jax.lax.scan(block, state, jax.random.split(rest, 20_000))[1]

    momenta = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(3), 4))
    for name, r in zip(("theta", "xi"), momenta, strict=True):
        r = np.asarray(r, float)
        assert_mean(r, 0.0, what=f"mean of {name}'s momentum")
        assert_mean(r**2, ETA, 0.01 * ETA, f"variance of {name}'s momentum")


def test_finite_and_sane_at_a_large_step():
    run = run_from_one_mode(
        tacthmc.tact(step_size=0.16, noise=NOISE, thermostat=ScalarThermostat()), 400_000
    )
    assert not run.failures
    modes = modes_of(run.draws[..., 0])
    for k, weight in enumerate(WEIGHTS):
        assert_mean(modes == k, weight, 0.05, f"weight of mode {k}")
    spread = np.sqrt(
        0.25
        + np.mean([squares_in(run.draws[..., 0], k).sum() for k in range(3)]) * 3 / run.draws.size
    )
    assert 0.45 < spread < 0.55


def test_euler_has_the_known_bias_and_no_other():
    euler = tacthmc.tact(
        step_size=ETA, noise=NOISE, integrator=Euler(), thermostat=ScalarThermostat()
    )
    run = run_from_one_mode(euler, 4_000_000)
    draws = run.draws[..., 0]
    modes = modes_of(draws)
    for k, weight in enumerate(WEIGHTS):
        assert_mean(modes == k, weight, STEP_BIAS, f"weight of mode {k}")
        # Prototype: a within-mode sd of 0.477 instead of 0.500.
        assert_mean(squares_in(draws, k), weight * (0.477**2 - 0.25), 0.01 * weight, "Euler's sd")
    pooled = sum(squares_in(draws, k) for k in range(3))
    assert_off_by(pooled, 0.0, 0.005, "Euler's within-mode variance")
    assert np.all(np.abs(run.plateau_share - 0.2) < 0.01)


def test_without_tempering_modes_are_not_mixed(tact_run):
    """At the same number of gradients, each chain's mode indicator is worth almost nothing."""
    run = run_from_one_mode(without_tempering(step_size=ETA, noise=NOISE), 750_000)
    for chain, tempered in zip(run.all_draws, tact_run.all_draws, strict=True):
        trapped = ess((modes_of(chain[:, 0]) == 1)[None])
        quarter = tempered[: len(tempered) // 4]
        free = ess((modes_of(quarter[:, 0]) == 1)[None])
        assert trapped < free / 5


def test_without_thermostat_modes_are_too_wide():
    run = run_from_one_mode(without_thermostat(step_size=ETA, noise=NOISE), 1_000_000)
    draws = run.draws[..., 0]
    for k, weight in enumerate(WEIGHTS):
        # Force noise of sd 3 heats by ηv/2 = 0.045 over a friction of 0.1: variance +45%.
        assert_off_by(squares_in(draws, k), 0.0, 0.1 * 0.25 * weight, "within-mode variance")
        assert squares_in(draws, k).mean() > 0
