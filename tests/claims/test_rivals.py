"""Replica exchange, cyclical SGHMC and restarts against what theory says of them.

Statistical checks have the suite's failure probability (2e-7 each, ``tests/budget.py``).
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import tacthmc
from tacthmc import Keep
from tacthmc.compiler._random import normal
from tacthmc.dynamics import NoThermostat
from tacthmc.potentials import Batches, Energy, Potential, WrappedPotential
from tacthmc.samplers._cyclical import CosineCycles
from tests.budget import assert_mean, assert_off_by
from tests.table import FROM_THE_START, SAMPLERS, chains_of_each, minibatched, same, start

KEY = jax.random.key(0)
# Relative bias of variances and weights at the step sizes used, besides Monte-Carlo error.
STEP_BIAS = 0.03


class RoughEnergy(WrappedPotential):
    """Energies with independent Gaussian noise at different positions, forces without.

    Replicas share a batch, so noise that does not depend on θ would cancel in differences.
    """

    inner: Potential
    sd: float

    @property
    def batches(self):
        return Keys()

    def full(self, position):
        return self.inner.full(position)

    def estimate(self, position, batch, model=None, correction=None):
        value = self.inner.energy(position)
        bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(position), jnp.uint32)
        key = batch
        for number in bits:
            key = jax.random.fold_in(key, number)
        return Energy.all_tempered(value + self.sd * normal(key, (), value.dtype), model)


class Keys(Batches):
    """A batch is the step's key itself."""

    def init(self, key):
        return ()

    @property
    def axes(self):
        return ()

    def select(self, data, key, position):
        return data, key

    def fetch(self, selection):
        return selection


def rates(run):
    return np.asarray(run.sampler.swap_rates(run.state))


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2])
def test_replicas_have_a_gaussians_moments(size):
    covariance = jnp.array([[1.0, 0.6], [0.6, 1.5]])[:size, :size]
    mean = jnp.array([1.0, -2.0])[:size]
    target = tacthmc.potential(tacthmc.targets.Gaussian(mean, covariance))
    sampler = tacthmc.replica_exchange(0.02, temperatures=(1, 2.5, 6))
    run = tacthmc.sample(KEY, sampler, target, mean, 40_000, 16, keep=Keep(every=20))
    assert sampler.gradients_per_step == 3
    away = run.draws - np.asarray(mean)
    for i in range(size):
        assert_mean(away[..., i], 0.0, what=f"mean of coordinate {i}")
        for j in range(i + 1):
            truth = float(covariance[i, j])
            assert_mean(away[..., i] * away[..., j], truth, STEP_BIAS * abs(truth), "covariance")
    assert run.round_trips.min() > 50
    assert np.all(np.abs(run.plateau_share - 1 / 3) < 0.05)
    assert rates(run).min() > 0.4


def test_every_rung_has_its_temperature():
    """In D dimensions ⟨θ²⟩ is D·T_k on rung k, and momenta have ηT_k, right after swaps too."""
    eta, ladder, target = 0.02, (1.0, 2.0, 4.0), tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    sampler = tacthmc.replica_exchange(eta, temperatures=ladder, swap_every=1)

    def chain(key):
        first, rest = jax.random.split(key)

        def step(state, key):
            return sampler.step(key, state, target, ())[0], None

        def block(state, key):
            state, _ = jax.lax.scan(step, state, jax.random.split(key, 20))
            order = jnp.argsort(state.rung)
            return state, (state.replicas.position[order], state.replicas.momentum[order])

        return jax.lax.scan(
            block, sampler.init(first, jnp.zeros(2)), jax.random.split(rest, 2_000)
        )[1]

    theta, r = (
        np.asarray(x, float)[:, 100:] for x in jax.jit(jax.vmap(chain))(jax.random.split(KEY, 8))
    )
    for k, temperature in enumerate(ladder):
        assert_mean(theta[..., k, 0] ** 2, temperature, 0.02 * temperature, f"variance at {k}")
        heat = eta * temperature
        assert_mean(r[..., k, 0] ** 2, heat, 0.02 * heat, f"momentum at {k}")


PAIR = np.array([0.8, 0.2])


def pair(size):
    means = np.zeros((2, size), np.float32)
    means[:, 0] = -3.0, 3.0
    return tacthmc.targets.GaussianMixture(jnp.asarray(means), jnp.asarray(PAIR, jnp.float32), 0.7)


def ladder(temperatures, **settings):
    return tacthmc.replica_exchange(0.03, temperatures=temperatures, **settings)


def run_pair(size, sd, samplers):
    mixture, keep = pair(size), Keep(every=20)
    target = RoughEnergy(tacthmc.potential(mixture), sd)
    run = tacthmc.sample(KEY, samplers, target, mixture.means[0], 100_000, keep=keep)
    return run, np.asarray(mixture.mode(jnp.asarray(run.draws))) == 0


@pytest.mark.parametrize(
    ("size", "given"), [slow(1, "known"), (2, "measured"), slow(2, "known"), slow(1, "measured")]
)
def test_weights_of_modes_with_noisy_energies(size, given):
    sd = 1.5
    v = 2 * sd**2
    known = v if given == "known" else given
    run, first = run_pair(size, sd, [ladder((1, 3, 9), energy_noise=known)] * 16)
    assert_mean(first, PAIR[0], STEP_BIAS * PAIR[0], "weight of the first mode")
    assert run.round_trips.min() > 5
    assert rates(run).min() > 0.05
    if given == "measured":
        # θ's own motion adds to it, the more the hotter the pair: never less than the truth.
        seen = np.asarray(run.state.measured.variance).mean(axis=0)
        assert np.all((seen > 0.98 * v) & (seen < [1.05 * v, 1.25 * v])), seen


def test_without_the_correction_weights_are_wrong():
    """Energy noise of sd 2 between T = 1 and 9: swaps are taken too easily, modes too equal."""
    samplers = [ladder((1, 9), swap_every=5, energy_noise=v) for v in (8.0, 0.0)]
    _, first = run_pair(1, 2.0, chains_of_each(samplers, 16))
    right, wrong = np.split(first, 2)
    assert_mean(right, PAIR[0], STEP_BIAS * PAIR[0], "weight with the correction")
    assert_off_by(wrong, PAIR[0], 0.05, "weight without it")
    assert wrong.mean() < PAIR[0]


def test_swaps_are_accepted_as_often_as_the_formula_says():
    """Two harmonic replicas at T = 1 and 4 in 2-D: energies are exponential with means 1 and 4.

    E[a(δΔ)] over those, with a(y) = Φ(y/s − s/2) + e^y·Φ(−y/s − s/2).
    """
    sd, delta = 1.0, 0.75
    v = 2 * sd**2
    target = RoughEnergy(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), sd)

    samplers = [
        tacthmc.replica_exchange(0.02, temperatures=(1, 4), swap_every=50, energy_noise=given)
        for given in (v, 0.0)
    ]
    each = chains_of_each(samplers, 16)
    run = tacthmc.sample(KEY, each, target, jnp.ones(2), 50_000)
    corrected, plain = np.split(rates(run), 2)
    cold, hot = np.random.default_rng(0).exponential(size=(2, 1_000_000)) * [[1.0], [4.0]]
    y, s = delta * (cold - hot), delta * np.sqrt(v)
    share = norm.cdf(y / s - s / 2) + np.exp(y) * norm.cdf(-y / s - s / 2)
    # 16,000 swaps: 0.02 are five standard errors.
    assert abs(corrected.mean() - share.mean()) < 0.02
    assert plain.mean() > share.mean() + 0.05


def test_pairs_take_turns():
    sampler = tacthmc.replica_exchange(0.01, temperatures=(1, 2, 3, 4), swap_every=2)
    due = [np.asarray(sampler._pairs_due(jnp.asarray(k))).tolist() for k in range(1, 7)]
    none, even, odd = [False] * 3, [True, False, True], [False, True, False]
    assert due == [none, even, none, odd, none, even]


def test_the_same_batch_cancels_noise_that_does_not_depend_on_theta():
    target = tacthmc.noisy(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), energy=30.0)
    sampler = tacthmc.replica_exchange(0.05, energy_noise="measured")
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(1), 5_000)
    # Of 2·30² nothing is left but what θ's motion adds.
    assert np.asarray(run.state.measured.variance).max() < 1.0
    assert rates(run).min() > 0.3


def test_a_force_estimate_cools_every_replica():
    """Force noise heats all rungs by ηv/(2c), unless it is left out of what is injected."""
    target = tacthmc.noisy(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), force=3.0)

    samplers = [
        tacthmc.replica_exchange(0.01, temperatures=(1, 2), noise_estimate=estimate)
        for estimate in (9.0, 0.0)
    ]
    each = chains_of_each(samplers, 16)
    run = tacthmc.sample(KEY, each, target, jnp.zeros(1), 40_000, keep=Keep(every=20))
    known, unknown = np.split(run.draws[..., 0] ** 2, 2)
    assert_mean(known, 1.0, STEP_BIAS, "variance with the estimate")
    # 45% by itself, of which swaps, made for T = 1 and 2, take back a half.
    assert_off_by(unknown, 1.0, 0.15, "variance without it")


def test_schedule():
    """η0/2·(cos(πk/C) + 1) at known steps, with digits left at a long cycle's end."""
    falling = CosineCycles(0.5, 100)
    seen = [float(falling(jnp.asarray(k))) for k in (0, 25, 50, 75, 99, 100, 150)]
    truth = [0.25 * (np.cos(np.pi * (k % 100) / 100) + 1) for k in (0, 25, 50, 75, 99, 100, 150)]
    assert np.allclose(seen, truth, rtol=1e-5)
    end = float(CosineCycles(1.0, 1_000_000)(999_999))
    assert np.isclose(end, np.pi**2 / 4e12, rtol=1e-4)


def test_cycles_explore_without_noise_and_keep_when_sampling():
    cycle, share = 200, 0.75
    sampler = tacthmc.cyclical(0.05, cycle_steps=cycle, explore=share)
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    run = tacthmc.sample(KEY, sampler, target, jnp.ones(2), 2_000, 3, keep=FROM_THE_START)
    phases = np.unique((run.stats["step"] - 1) % cycle + 1)
    assert phases.tolist() == [160, 170, 180, 190, 200]
    assert run.num_draws == 10 * 5
    assert np.allclose(run.plateau_share, 0.25)

    # In the exploring share a chain is descent: nothing random moves it.
    state = sampler.init(KEY, jnp.ones(2))
    one = sampler.step(jax.random.key(1), state, target, ())[0]
    other = sampler.step(jax.random.key(2), state, target, ())[0]
    assert np.array_equal(one.position, other.position)
    late = replace(state, step=jnp.asarray(170))
    one = sampler.step(jax.random.key(1), late, target, ())[0]
    other = sampler.step(jax.random.key(2), late, target, ())[0]
    assert not np.array_equal(one.position, other.position)


def test_cycles_sample_a_gaussian_where_their_end_is_long():
    """A sampling share of 10,000 steps at η ≤ 0.1: the sd is within 3% at every part of it."""
    sampler = tacthmc.cyclical(0.2, cycle_steps=20_000, explore=0.5)
    target, keep = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), Keep(after=20_000)
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(2), 200_000, 32, keep=keep)
    # Past the first tenth of the share, in which the descent's end is forgotten.
    used = run.stats["step"][0] % 20_000 > 11_000
    draws = run.draws[:, used]
    # 3% of the sd are 6% of the variance.
    assert_mean(draws[..., 0] ** 2, 1.0, 0.06, "variance")
    assert_mean(draws[..., 0], 0.0, what="mean")


def test_short_cycles_are_too_narrow():
    """They begin at temperature zero: the honest limit of the method."""
    sampler = tacthmc.cyclical(0.005, cycle_steps=500, explore=0.8)
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(2), 20_000, 16)
    assert run.draws.var() < 0.8


def wide(key):
    return 4.0 * jax.random.normal(key, (1,)) + 1.5


def test_restarts_visit_modes_by_their_basins():
    """Weights .8 and .2, barrier at 0 or near it: basins of N(1.5, 4²) get .35 and .65."""
    mixture = tacthmc.targets.GaussianMixture(
        jnp.array([[-4.0], [4.0]]), jnp.asarray(PAIR, jnp.float32), 0.7
    )
    every, burn = 400, 200
    # Friction high enough that no chain overshoots the barrier on its way down.
    inner = tacthmc.sgnht(0.01, noise=1.0, thermostat=NoThermostat())
    sampler = tacthmc.restarted(inner, every, wide, burn)
    target, keep = tacthmc.potential(mixture), Keep(after=every)
    run = tacthmc.sample(KEY, sampler, target, jnp.array([4.0]), 80_000, 16, keep=keep)
    phases = np.unique((run.stats["step"] - 1) % every + 1)
    assert phases.tolist() == [250, 300, 350, 400]
    assert np.allclose(run.plateau_share, 1 - burn / every)
    assert sampler.gradients_per_step == 1
    last = run.draws[:, 3::4, 0]  # one draw of each stretch, independent of the others
    ridge = _ridge(mixture)
    assert_mean(last < ridge, norm.cdf((ridge - 1.5) / 4.0), 0.01, "share of the left basin")
    assert_off_by(last < ridge, PAIR[0], 0.3, "which is not the mode's weight")


def _ridge(mixture):
    grid = np.linspace(-2, 2, 4001, dtype=np.float32)
    return grid[np.argmax(np.asarray(jax.vmap(mixture)(jnp.asarray(grid)[:, None])))]


def test_a_restart_forgets():
    """Position, momenta and thermostat are a first state's; the step count of the run goes on."""
    sampler = tacthmc.restarted(tacthmc.sgnht(0.01), 10, wide)
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    state = sampler.init(KEY, jnp.array([0.1]))
    step = jax.jit(lambda key, state: sampler.step(key, state, target, ())[0])
    for k in range(11):
        state = step(jax.random.fold_in(KEY, k), state)
    assert (int(state.step), int(state.inner.step)) == (11, 1)
    with pytest.raises(ValueError, match="start must return a position like init"):
        sampler.init(KEY, jnp.zeros(3))


def _counting(position, x, count):
    return -0.5 * jnp.sum((x - position[None, :]) ** 2, axis=1), count + 1


@pytest.mark.parametrize(
    ("build", "counts"),
    [
        slow(lambda: tacthmc.replica_exchange(0.01, swap_every=1), [10, 20, 30, 40]),
        slow(lambda: tacthmc.cyclical(0.01, cycle_steps=20, explore=0), [10, 20, 30, 40]),
        # A restart begins with the model's first state.
        (
            lambda: tacthmc.restarted(tacthmc.sgld(0.01), 20, lambda key: jnp.zeros(2), 0),
            [10, 20, 10, 20],
        ),
    ],
)
def test_a_models_state_goes_with_its_draw(build, counts):
    target = tacthmc.posterior(
        lambda position: -0.5 * jnp.sum(position**2),
        _counting,
        jnp.zeros((8, 2)),
        4,
        batched=True,
        model_state=jnp.zeros((), jnp.int32),
    )
    run = tacthmc.sample(KEY, build(), target, jnp.zeros(2), 40, 2, keep=FROM_THE_START)
    assert run.model_states.tolist() == [counts, counts]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["replica-exchange", "cyclical", "restarted"])
def test_a_sweep_of_numbers(name):
    samplers, target = [SAMPLERS[name](size) for size in (0.005, 0.02)], minibatched("replacement")
    swept = tacthmc.sample(KEY, samplers, target, start(), 100, keep=FROM_THE_START)
    alone = tacthmc.sample(KEY, samplers[1], target, start(), 100, 2, keep=FROM_THE_START)
    same(swept.trace["energy"][1, :1], alone.trace["energy"][1, :1], 1e-3)
    swept.summary()


def test_a_sweep_of_ladders_and_a_schedule():
    def falling(step):
        return 0.02 / (1.0 + 0.001 * jnp.asarray(step).astype(float))

    samplers = [
        tacthmc.replica_exchange(falling, temperatures=(1, hottest), energy_noise=[0.5])
        for hottest in (2.0, 5.0)
    ]
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    run = tacthmc.sample(KEY, samplers, target, jnp.zeros(2), 10_000)
    assert np.all(np.isfinite(run.draws))
    near, far = rates(run)[:, 0]
    assert near > far > 0.1


GOOD = tacthmc.sgnht(0.01)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tacthmc.replica_exchange(0.0), "step_size must be"),
        (lambda: tacthmc.replica_exchange(0.1, temperatures=(1,)), "temperatures must be at least"),
        (lambda: tacthmc.replica_exchange(0.1, temperatures=(2, 4)), "rise from 1"),
        (lambda: tacthmc.replica_exchange(0.1, temperatures=(1, 4, 3)), "rise from 1"),
        (lambda: tacthmc.replica_exchange(0.1, temperatures=(1, -4)), "temperatures must be"),
        (lambda: tacthmc.replica_exchange(0.1, swap_every=0), "swap_every must be"),
        (lambda: tacthmc.replica_exchange(0.1, energy_noise=-1.0), "energy_noise must be"),
        (lambda: tacthmc.replica_exchange(0.1, energy_noise=[1.0, 2.0]), "energy_noise must be"),
        (
            lambda: tacthmc.replica_exchange(0.1, energy_noise="measured", swap_every=2),
            "swap_every must be at least 3; got 2",
        ),
        (lambda: tacthmc.cyclical(0.1, cycle_steps=0), "cycle_steps must be"),
        (lambda: tacthmc.cyclical(0.1, cycle_steps=1000, explore=1.0), r"explore must be in \[0"),
        (lambda: tacthmc.restarted(GOOD, 100, wide, 100), "burn must be less than every = 100"),
        (lambda: tacthmc.restarted(tacthmc.tact(0.1), 100, wide), "without a tempering variable"),
    ],
)
def test_bad_settings(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: tacthmc.replica_exchange(0.1, temperatures="ab"),
        lambda: tacthmc.cyclical(lambda k: 0.1, cycle_steps=1000),
        lambda: tacthmc.restarted(GOOD, 100, jnp.zeros(1)),
        lambda: tacthmc.restarted(None, 100, wide),
    ],
)
def test_bad_kinds(build):
    with pytest.raises(TypeError):
        build()
