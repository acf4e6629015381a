"""What each choice is by the numbers that were seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.paper.networks import categorical, gaussian_prior, mlp
from tacthmc.tuning import Choice, Tuning
from tacthmc.tuning import _friction as friction
from tacthmc.tuning import _xi as xi
from tacthmc.tuning._bursts import Burst
from tacthmc.tuning._curvature import largest_curvature
from tacthmc.tuning._dense_map import dense_map
from tacthmc.tuning._ladder import Cooled, Ladder, Level, share_elsewhere
from tacthmc.tuning._plateau import Plateau


def test_reasons_do_not_change_what_is_compiled():
    one, other = (Tuning((Choice("step_size", v, "so"),)) for v in (1.0, 2.0))
    assert one == other
    assert hash(one) == hash(other)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    with pytest.raises(KeyError, match="nothing was chosen for 'mass'"):
        one["mass"]


def test_curvature_of_a_model_without_a_forward_derivative():
    model, rng = mlp(inputs=6, hidden=5, classes=3), np.random.default_rng(0)
    data = (rng.normal(size=(40, 6)).astype(np.float32), rng.integers(0, 3, 40, dtype=np.int32))
    potential = tacthmc.posterior(
        gaussian_prior(scale=1.0), categorical(model), data, 10, batched=True
    )
    found = largest_curvature(jax.random.key(0), potential, model.init(jax.random.key(1)))
    assert 1.0 < found < 1e4


def test_unequal_noise_makes_steps_shorter():
    even, uneven = friction.Noise(4.0, 4.0), friction.Noise(4.0, 40.0)
    assert friction.steps(1.0, uneven).eta < 0.2 * friction.steps(1.0, even).eta
    assert friction.steps(1.0, uneven).c == 0.5


def test_noise_in_high_dimension_is_not_uneven_by_chance():
    found = friction.force_noise(np.random.default_rng(0).normal(size=(128, 2000)))
    assert found.top < 1.5 * found.mean


def test_round_posteriors_need_no_linear_map():
    noise = np.random.default_rng(0).normal(size=(400, 3))
    assert dense_map(np.eye(3), noise).linear is None


def test_a_map_by_noise_is_made_of_enough_of_it():
    """In it the variances of 4n draws are even to ±2√(D/4n): here ±14%, a ratio of 1.33."""
    sds = np.geomspace(1.0, 30.0, 20)
    flat = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    target = tacthmc.noisy(flat, force=jnp.asarray(sds, jnp.float32))
    found = Plateau(target, jnp.zeros((4, 20)), 100).better_map(jax.random.key(0))
    assert found.linear is not None
    scale = np.asarray(found.linear.scale, float)
    within = np.linalg.eigvalsh(scale.T @ np.diag(sds**2) @ scale)
    assert within[-1] / within[0] < 1.5


def test_a_chain_that_wanders_has_not_moved():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(8, 80, 2)), axis=1)
    assert share_elsewhere(walk[:, :40], walk[:, 40:]) < 0.3


HOT = np.array([1.0, 3.0, 9.0])


def test_an_idle_coupling_is_mostly_plateau_and_no_steeper():
    seen = xi.EnergyProfile(HOT, 10 * HOT, HOT)
    usual, idle = seen.coupling(False), seen.coupling(False, rests=True)
    assert idle.plateau / idle.wall == pytest.approx(0.95)
    assert seen.push(idle, False) == pytest.approx(seen.push(usual, False), rel=1e-3)
    short = seen.up_to(1.6)
    expected = 4 * short.length(False) * float(idle.wall / usual.wall)
    assert xi.bins(short, False, idle) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("dimension", [256, 257])
@pytest.mark.parametrize("moved", [0.0, 0.5])
def test_only_high_dimension_rests_where_heat_is_useless(dimension, moved):
    burst = Burst((), np.zeros((2, 2, dimension)), np.zeros((2, 2)), 1, True)
    levels, cooled = [Level(1.0, burst), Level(3.0, burst)], [Cooled(burst, moved, 1.0)]
    heat = Ladder(levels, cooled, given=False, potential=None)
    assert heat.should_rest == (dimension > 256 and moved == 0)


@pytest.mark.parametrize("longest", [20.0, 1.0, 0.01])
def test_the_way_is_as_short_as_asked_for(longest):
    seen = xi.EnergyProfile(HOT, 4_000 * HOT, 4_000 * HOT)
    way = seen.up_to(seen.hottest_within(longest))
    assert way.length(False) == pytest.approx(longest, rel=1e-3)
    fall = 1 - 1 / float(way.coupling(False, rests=True).hottest)
    assert fall == pytest.approx(longest / 4_000, rel=0.05)


@pytest.mark.parametrize("returned", [1.0, 0.5])
def test_chains_that_did_not_cool_are_not_said_to_have_come_back(returned):
    burst = Burst((), np.zeros((2, 2, 3)), np.zeros((2, 2)), 1, True)
    levels, cooled = [Level(1.0, burst), Level(3.0, burst)], [Cooled(burst, 0.9, returned)]
    hottest, why = Ladder(levels, cooled, given=False, potential=None).hottest
    assert ("had not cooled" in why) == (returned < 0.9)
    assert (hottest == 3.0) == (returned == 1.0)


def test_chains_that_move_unheated_cannot_tell_what_heat_does():
    burst = Burst((), np.zeros((2, 2, 300)), np.zeros((2, 2)), 1, True)
    levels, cooled = [Level(1.0, burst), Level(3.0, burst)], [Cooled(burst, 0.9, 1.0)]
    ladder = Ladder(levels, cooled, given=False, potential=None, moves_unheated=True)
    hottest, why = ladder.hottest
    assert (hottest, ladder.should_rest) == (1.5, True)
    assert "cannot tell whether heat helps" in why


def test_widening_is_calm_in_one_gaussian():
    seen = xi.EnergyProfile(HOT, 10 * HOT, np.full(3, 0.1))
    assert seen.length(True) < 0.01 * seen.length(False)
    assert seen.up_to(3.0).length(False) == pytest.approx(10 * np.log(3.0), rel=1e-6)
