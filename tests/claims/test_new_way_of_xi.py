"""A new way for ξ is one class: it has the properties of the library's own, and samples."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import Keep
from tacthmc._typing import Number
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    Bias,
    BiasInput,
    Coordinates,
    Coupling,
    Euler,
    PowerCoupling,
    Tempering,
    TemperingState,
)
from tacthmc.targets import GaussianMixture
from tests import properties
from tests.budget import assert_mean
from tests.table import minibatched

pytestmark = pytest.mark.usefixtures("quick_compilation")


class DiffusingTempering(Tempering):
    r"""ξ without momentum: overdamped Langevin dynamics between the walls,

    .. math:: d\xi = \frac hT\,\big(-\lambda'\tilde U + A'(\xi)\big) + N(0, 2h),

    with T·λ for λ. It leaves exp(−(λU − A)/T) invariant as h → 0.
    """

    coupling: Coupling
    bias: Bias
    step_size: Number

    def __init__(self, step_size: Number):
        self.coupling, self.bias = PowerCoupling.up_to(9.0, power=2), AdaptiveBiasingForce()
        self.step_size = step_size

    @property
    def num_normals(self):
        return 1

    @property
    def expected_unit_share(self):
        return self.coupling.efficiency

    def init(self, normal, rates, dtype):
        zero = jnp.zeros((), dtype)
        return TemperingState(zero, jnp.zeros_like(normal), (), self.bias.init(dtype))

    def first_half(self, state, rates):
        return state

    def second_half(self, state, force, normals, rates):
        at = BiasInput(state.xi, force.slope, force.energy, rates.step)
        push = self.bias.force(state.bias, at, self.coupling) - force.slope * force.energy
        h = jnp.asarray(self.step_size).astype(push.dtype)
        away = state.xi + h * push / rates.bath + jnp.sqrt(2 * h) * normals[0]
        xi, _ = self.coupling.reflect(away, state.momentum)
        table = self.bias.update(state.bias, at, self.coupling)
        return replace(state, xi=xi, bias=table)


def make(eta):
    return tacthmc.tact(eta, tempering=DiffusingTempering(0.02))


def test_step():
    properties.check_step(make)


def test_half_precision_positions_are_kept_in_single():
    properties.check_half_precision(make)


def test_double_precision(x64):
    properties.check_double_precision(make)


def test_run():
    properties.check_run(make)


def test_chunks_company_and_resuming(tmp_path):
    potential = minibatched("epochs")
    whole = properties.check_chunks(make, potential)
    properties.check_company(make, potential, whole)
    properties.check_resumed(make, potential, tmp_path / "run")


WEIGHTS = (0.7, 0.3)


@pytest.mark.parametrize("center", [None, pytest.param("mean", marks=pytest.mark.slow)])
def test_both_modes_have_their_weights(center):
    """Four standard deviations apart each way from the ridge, so that only heat crosses it."""
    means = jnp.array([[-3.0], [3.0]])
    target = tacthmc.potential(GaussianMixture(means, jnp.array(WEIGHTS), 0.75))
    xi, coordinates = DiffusingTempering(0.01), Coordinates(center=center)
    sampler = tacthmc.tact(0.05, tempering=xi, coordinates=coordinates)
    keep = Keep(every=20)
    run = tacthmc.sample(jax.random.key(0), sampler, target, means[0], 200_000, 16, keep=keep)
    assert not run.failures
    assert run.round_trips.min() > 20
    assert abs(run.plateau_share.mean() - 0.2) < 0.03
    first = np.asarray(run.draws)[..., 0] < 0
    assert_mean(first, WEIGHTS[0], 0.02, "weight of the first mode")
    nearest = np.where(first, -3.0, 3.0)
    within = (np.asarray(run.draws)[..., 0] - nearest) ** 2 / 0.75**2
    assert_mean(within, 1.0, 0.04, "variance within modes")
    # Only a ξ that says for how long it rests follows a schedule.
    assert "(0.200 if ξ is uniform)" in str(run.summary())


def test_algorithm_1_does_not_know_it():
    sampler = tacthmc.tact(0.01, tempering=DiffusingTempering(0.02), integrator=Euler())
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    state = sampler.init(jax.random.key(0), jnp.zeros(1))
    with pytest.raises(TypeError, match="a DiffusingTempering needs the splitting integrator"):
        sampler.step(jax.random.key(1), state, target, ())
