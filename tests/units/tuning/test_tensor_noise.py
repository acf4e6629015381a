"""A friction for each tensor: what a warm-up reads off the noise, and what it makes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import Coordinates, ScalarThermostat, TensorThermostat
from tacthmc.samplers import Untuned
from tacthmc.tuning import _friction as friction
from tacthmc.tuning import _tensors as tensors
from tacthmc.tuning._low_rank_map import low_rank_map
from tacthmc.tuning._spectrum import spectrum
from tests.budget import assert_mean, assert_off_by

SHAPE = {"few": jnp.zeros(20), "many": jnp.zeros(280)}
GAUSSIAN = tacthmc.potential(lambda x: 0.5 * sum(jnp.sum(leaf**2) for leaf in x.values()))
UNEQUAL = tacthmc.noisy(GAUSSIAN, force={"few": 8.0, "many": 0.5})
"""20 coordinates with sixteen times the force's sd of 280 others, all of variance one."""


def tuned(potential=UNEQUAL, **given):
    untuned = Untuned(coordinates=Coordinates(None, "auto"), **given)
    return tacthmc.tune(
        jax.random.key(0),
        untuned,
        potential,
        SHAPE,
        num_chains=4,
        num_steps=100,
        progress=False,
    )


def test_tensors_of_unequal_noise_have_frictions_of_their_own():
    made = tuned(step_size=0.02, noise=0.1)
    # ηv/2 is 0.64 and 0.0025 beside c = 0.1, and 0.045 in the mean: 5.1, less what may be chance.
    reasons = {choice.name: choice.reason for choice in made.tuning.choices}
    assert isinstance(made.thermostat, TensorThermostat)
    assert "noisiest tensor 4." in reasons["thermostat"]

    def squares(thermostat):
        sampler = tacthmc.sgnht(0.02, noise=0.1, thermostat=thermostat)
        key, keep = jax.random.key(1), tacthmc.Keep(every=20, after=2_000)
        run = tacthmc.sample(key, sampler, UNEQUAL, SHAPE, 20_000, 4, keep=keep, progress=False)
        return {name: np.mean(np.asarray(leaf, float) ** 2, -1) for name, leaf in run.draws.items()}

    own, shared = squares(made.thermostat), squares(ScalarThermostat())
    for name, values in own.items():
        assert_mean(values, 1.0, 0.02, f"variance of {name}")
    assert_off_by(shared["few"], 1.0, 3.0, "variance of few with one friction")


def test_noise_tensor_by_tensor():
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(2048, 300)) * np.where(np.arange(300) < 30, 4.0, 1.0)
    # One direction of the second tensor is far noisier than the rest of it.
    gradients[:, 30:] += rng.normal(size=(2048, 1)) * 20 / np.sqrt(270)
    sizes = [30, 0, 270]
    few, many = tensors.by_tensor(gradients, sizes, spectrum(gradients, 512))
    assert (few.size, many.size) == (30, 270)
    assert few.mean == pytest.approx(16.0, rel=0.1)
    assert many.mean == pytest.approx(1 + 400 / 270, rel=0.1)
    assert many.typical == pytest.approx(1.0, rel=0.1)
    noise = friction.force_noise(gradients, sizes)
    # Less two standard errors of 2,048 numbers.
    assert noise.noisiest_tensor == pytest.approx(few.mean / (1 + 2 * np.sqrt(2 / 2048)), rel=0.01)
    quiet = 0.1 + 0.05 * noise.mean
    hot = noise.shared_friction_heat(eta=0.1, c=0.1)
    assert hot == pytest.approx((0.1 + 0.05 * noise.noisiest_tensor) / quiet, rel=1e-6)
    # The noisiest direction is in the second tensor, and has its friction.
    assert noise.per_tensor.mean == pytest.approx(many.mean, rel=1e-3)
    assert noise.per_tensor.friction_noise == pytest.approx(many.mean, rel=0.1)


def test_tensors_are_not_noisy_by_chance():
    """Twenty leaves of one number each: some have a variance a fifth too large in 512 draws."""
    gradients = np.random.default_rng(0).normal(size=(512, 300))
    noise = friction.force_noise(gradients, [1] * 20 + [280])
    assert noise.shared_friction_heat(eta=10.0, c=0.1) < 1 + friction.MIN_NOTABLE_HEAT
    assert friction.force_noise(gradients, [300]).per_tensor is None


@pytest.mark.parametrize("n", [64, 512])
def test_equal_noise_allows_the_same_steps_with_several_frictions(n):
    gradients = np.random.default_rng(0).normal(size=(n, 1000))
    noise = friction.force_noise(gradients, [100, 900])
    shared, own = friction.steps(1.0, noise), friction.steps(1.0, noise.per_tensor)
    assert own.eta > 0.8 * shared.eta


def test_no_tensor_is_stopped_in_a_step():
    """The few are so noisy that the steps of the many would make a friction of 180 for them."""
    gradients = np.random.default_rng(0).normal(size=(512, 600))
    gradients *= np.where(np.arange(600) < 200, 30.0, 0.001)
    noise = friction.force_noise(gradients, [200, 400])
    own = friction.steps(1.0, noise.per_tensor)
    assert own.eta * noise.noisiest_tensor / 2 == pytest.approx(friction.MAX_TENSOR_FRICTION)
    assert "the noise of the noisiest tensor" in own.why_eta


def test_a_map_leaves_alone_what_a_friction_of_its_own_holds():
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(400, 320)) * np.where(np.arange(320) < 20, 8.0, 0.5)
    together, apart = (
        low_rank_map(gradients, 0.02, 0.1, sizes=sizes) for sizes in (None, [20, 300])
    )
    assert together.directions >= 10
    assert apart.linear is None


def test_steps_are_longer_where_each_tensor_has_a_friction():
    """What makes the many too cold with one friction is the few's noise alone."""
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(512, 600)) * np.where(np.arange(600) < 10, 30.0, 1.0)
    noise = friction.force_noise(gradients, [10, 590])
    shared, own = friction.steps(1.0, noise), friction.steps(1.0, noise.per_tensor)
    assert not shared.per_tensor
    assert own.per_tensor
    assert own.eta > 5 * shared.eta
    # And a typical direction comes out right by the friction that its own tensor settles on.
    many = tensors.by_tensor(gradients, [10, 590], spectrum(gradients, 128))[1]
    cold = 1 - (own.c + own.eta * many.typical / 2) / (own.c + own.eta * many.mean / 2)
    assert cold <= 1.2 * friction.MAX_TENSOR_COLD_SHARE


@pytest.mark.parametrize(
    ("given", "apart"),
    [({}, True), ({"thermostat": ScalarThermostat()}, False)],
    ids=["none", "one friction"],
)
def test_a_given_thermostat_decides_which_steps_are_made(given, apart):
    made = tuned(**given)
    # With one friction the few's noise makes the many too cold; else it is no matter of theirs.
    assert isinstance(made.thermostat, TensorThermostat) == apart
    assert (made.step_size > 0.01) == apart


def test_tensors_of_equal_noise_share_a_friction():
    equal = tacthmc.noisy(GAUSSIAN, force={"few": 2.0, "many": 2.0})
    made = tuned(equal, step_size=0.02, noise=0.1)
    assert isinstance(made.thermostat, ScalarThermostat)
