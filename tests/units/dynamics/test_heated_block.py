"""Heat for a part of the position: what stands still, the law on the plateau, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import HeatedBlock, Relaxed, ScalarThermostat, Sweep, TensorThermostat
from tests.budget import assert_mean

KEY = jax.random.key(0)
START = {"rest": jnp.array([0.1, -0.2]), "block": jnp.array([-2.0])}
BLOCK = HeatedBlock({"rest": False, "block": True})
FAR, WEIGHT, DRAG = 2.0, 0.7, 0.8
"""Two modes of the block, four sds apart each way; ``rest`` follows it, by DRAG of its value."""


def energy(x):
    """Modes at ±FAR with sd ½ and weights 0.7 and 0.3; rest ~ N(DRAG·block, 1) given the block."""
    b = x["block"][0]
    modes = jnp.stack([-2 * (b + FAR) ** 2, -2 * (b - FAR) ** 2])
    of_block = -jax.nn.logsumexp(modes, b=jnp.array([WEIGHT, 1 - WEIGHT]))
    return of_block + 0.5 * jnp.sum((x["rest"] - DRAG * b) ** 2)


def stepped(sampler, potential, steps):
    """States after each step."""
    state, states = sampler.init(KEY, START), []

    @jax.jit
    def step(key, state):
        batch = potential.batch(key, state.position)
        return sampler.step(key, state, potential, batch)[0]

    for number in range(steps):
        state = step(jax.random.fold_in(KEY, number), state)
        states.append(state)
    return states


def changed(states, name):
    """Whether a leaf moved in each step but the first."""
    values = np.stack([np.asarray(s.position[name]) for s in states])
    return np.any(values[1:] != values[:-1], axis=1)


@pytest.mark.parametrize(
    "thermostat", [tacthmc.dynamics.ScalarThermostat, tacthmc.dynamics.TensorThermostat]
)
def test_the_rest_stands_still_off_the_plateau_and_for_longer(thermostat):
    sampler = tacthmc.tact(
        0.01,
        heated=HeatedBlock({"rest": False, "block": True}, longer=7),
        sweep=Sweep(40, rest=0.5),
        thermostat=thermostat(steps=10),
    )
    states = stepped(sampler, tacthmc.noisy(tacthmc.potential(energy), force=1.0), 100)
    assert changed(states, "block").all()
    moved = changed(states, "rest")
    # Trips from 20 to 40 and from 60 to 80, each with seven steps more.
    for number in range(1, 100):
        stands = 20 <= number < 47 or 60 <= number < 87
        assert moved[number - 1] == (not stands), number
    # And so do its momentum and the friction that is its own.
    assert np.array_equal(states[25].momentum["rest"], states[45].momentum["rest"])
    if thermostat is TensorThermostat:
        assert states[25].thermostat["rest"] == states[45].thermostat["rest"]
        assert states[25].thermostat["block"] != states[45].thermostat["block"]


def test_a_thermostat_does_not_feel_what_stands_still():
    """With one friction, off the plateau it is that of a run of the block alone."""
    flat = tacthmc.potential(lambda x: 0.0 * jnp.sum(x["block"]))
    friction = 0.3
    common = {"noise": friction, "thermostat": ScalarThermostat(gamma=1e-3)}
    sampler = tacthmc.tact(0.01, heated=BLOCK, sweep=Sweep(10_000, rest=0.001), **common)
    states = stepped(sampler, flat, 40)
    late = states[-1]
    # dz = λ²·(m·r̄² − exp(−λ²z̄/2)·η)/(γD), the sum over the block alone and D = 3.
    before = states[-2]
    xi = sampler.sweep.at(before.step, sampler.coupling, 0.5)[0]
    lam = float(sampler.coupling.value_and_slope(xi)[0])
    mean = 0.5 * float(before.momentum["block"][0] + late.momentum["block"][0])
    heat = mean**2 - np.exp(-0.5 * lam**2 * float(before.settled)) * 0.01
    seen = float(late.thermostat - before.thermostat)
    assert seen == pytest.approx(lam**2 * heat / (3 * 1e-3), rel=1e-3, abs=1e-6)


@pytest.fixture(scope="module")
def run():
    potential = tacthmc.noisy(tacthmc.potential(energy), force=2.0, energy=1.0)
    sampler = tacthmc.tact(0.02, heated=BLOCK, keep_every=20)
    return tacthmc.sample(KEY, sampler, potential, START, 400_000, 8, progress=False)


def test_the_posterior_on_the_plateau(run):
    block, rest = np.asarray(run.draws["block"])[..., 0], np.asarray(run.draws["rest"])
    assert_mean(block < 0, WEIGHT, 0.01, "weight of the first mode")
    assert_mean((np.abs(block) - FAR) ** 2, 0.25, 0.005, "variance within modes")
    left = rest - DRAG * block[..., None]
    assert_mean(left.mean(axis=2), 0.0, 0.01, "mean of the rest")
    assert_mean((left**2).mean(axis=2), 1.0, 0.02, "variance of the rest")


def test_the_chain_crosses_and_its_thermometer_is_right(run):
    assert np.all(np.asarray(run.round_trips) > 100)
    assert_mean(run.after_warmup("kinetic_temperature"), 1.0, 0.02, "kinetic temperature")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"centre": "mean"}, "centre"),
        ({"frame": tacthmc.dynamics.Frame(np.eye(3, dtype=np.float32))}, "a frame"),
        ({"integrator": tacthmc.dynamics.Euler()}, "Euler"),
        ({"thermostat": tacthmc.dynamics.MatrixThermostat()}, "MatrixThermostat"),
    ],
)
def test_what_does_not_go_with_it_is_refused(settings, says):
    with pytest.raises(ValueError, match=f"heated does not go with {says}"):
        tacthmc.tact(0.01, heated=BLOCK, **settings)


def test_bad_blocks_are_refused():
    with pytest.raises(ValueError, match="block picks everything"):
        HeatedBlock({"a": True})
    with pytest.raises(ValueError, match="block picks nothing"):
        HeatedBlock({"a": False})
    with pytest.raises(TypeError, match="pytree of booleans"):
        HeatedBlock({"a": 1, "b": 0})
    with pytest.raises(ValueError, match=r"heated\.longer is for a ξ that is led"):
        tacthmc.tact(0.01, heated=HeatedBlock({"a": True, "b": False}, longer=5))
    with pytest.raises(TypeError, match="HeatedBlock"):
        tacthmc.tact(0.01, heated={"a": True, "b": False})
    sampler = tacthmc.tact(0.01, heated=HeatedBlock({"other": True, "block": False}))
    with pytest.raises(ValueError, match=r"heated\.block must match the position"):
        stepped(sampler, tacthmc.potential(energy), 1)


def test_a_led_xi_with_a_standing_part_has_no_law_when_hot():
    sampler = tacthmc.tact(0.01, heated=BLOCK, sweep=Sweep(40), keep_every=10)
    potential = tacthmc.potential(energy)
    with pytest.raises(ValueError, match="stands still"):
        tacthmc.sample(KEY, sampler, potential, START, 100, 2, keep="all", progress=False)
    run = tacthmc.sample(KEY, sampler, potential, START, 400, 2, progress=False)
    with pytest.raises(ValueError, match="stands still"):
        run.log_evidence_ratio()


def test_longer_than_the_rest_is_refused():
    block = {"rest": False, "block": True}
    with pytest.raises(ValueError, match="longer must be less than the rest"):
        tacthmc.tact(
            0.01,
            heated=HeatedBlock(block, longer=20),
            sweep=Sweep(40, rest=0.5),
        )


def test_a_test_for_relaxation_waits_for_what_stands():
    heated = HeatedBlock({"rest": False, "block": True}, longer=100)
    sampler = tacthmc.tact(
        0.01,
        heated=heated,
        sweep=Sweep(400, rest=0.9),
        relaxed=Relaxed(40),
    )
    states = stepped(sampler, tacthmc.potential(energy), 560)
    # Back at 400, free from 500 on.
    steps = [int(s.tempering.relaxing.steps) for s in states]
    assert steps[359 - 1] > 0
    assert set(steps[400:499]) == {0}
    assert steps[510] > 0


def test_a_warm_up_does_not_know_of_blocks():
    with pytest.raises(TypeError, match="'heated' cannot be fixed"):
        tacthmc.tact(heated=BLOCK)
