"""Step counts near the largest integers: refused with 32 bits, right with 64."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.compiler._random import derive_key, step_keys
from tacthmc.samplers import _replica_sums
from tacthmc.samplers._replica_sums import RecentSums, bridge_terms

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
TARGET = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))


def program(sampler=None, **keep):
    sampler = tacthmc.sgnht(0.1) if sampler is None else sampler
    return tacthmc.Program(sampler, TARGET, tacthmc.Keep(every=10, **keep), num_chains=2)


def at_step(chains, step):
    """The same chains, as if they had made so many steps."""
    return eqx.tree_at(
        lambda c: c.each.state.step, chains, jnp.full_like(chains.each.state.step, step)
    )


@pytest.mark.parametrize("steps", [2**31 - 1, 2**31, 3 * 10**9, 2**40])
def test_more_steps_than_32_bits_count_are_refused(steps):
    with pytest.raises(ValueError, match=r"num_steps must be at most 2147483\d*.*got \d{10}"):
        tacthmc.sample(KEY, tacthmc.sgnht(0.1), TARGET, jnp.zeros(2), steps)


def test_whole_intervals_may_be_too_many():
    keep = tacthmc.Keep(every=2**30)
    with pytest.raises(ValueError, match="got 2147483648 in whole intervals"):
        tacthmc.sample(KEY, tacthmc.sgnht(0.1), TARGET, jnp.zeros(2), 2**30 + 1, keep=keep)


def test_steps_that_were_made_count():
    made = program()
    chains = at_step(made.start(KEY, jnp.zeros(2)), 2_147_482_000)
    with pytest.raises(ValueError, match=r"at most 1000, .* after the 2147482000 that its chains"):
        tacthmc.run.drive(made, chains, 1010, key=KEY)
    tacthmc.run.drive(made, chains, 1000, key=KEY, progress=False)


@pytest.mark.parametrize(
    "build",
    [
        lambda n: tacthmc.Keep(every=n),
        lambda n: tacthmc.Keep(after=n),
        lambda n: tacthmc.cyclical(0.1, cycle_steps=n),
        lambda n: tacthmc.restarted(tacthmc.sgnht(0.1), n, lambda key: jnp.zeros(2)),
        lambda n: tacthmc.dynamics.ScheduledTempering(n),
    ],
)
def test_periods_of_more_than_32_bits_are_refused(build):
    with pytest.raises(ValueError, match="must be at most 2147483647, the largest integer of 32"):
        build(2**31)
    build(2**31 - 1)


def test_a_loop_that_counts_too_far_fails_and_keeps_nothing():
    made = program()
    chains = at_step(made.start(KEY, jnp.zeros(2)), 2**31 - 25)
    chains, chunk = made.advance(chains, 4)
    assert chunk.rows.keep[:, :4].tolist() == [[True, True, False, False]] * 2
    assert chunk.rows.finite[:, :4].tolist() == [[True, True, False, False]] * 2
    assert chunk.health.step.tolist() == [2**31 - 1] * 2
    (failure, _) = tacthmc.run._failure.failures_in(chunk.health, {})
    assert "the step count" in str(failure)
    assert "jax_enable_x64" in str(failure)


@pytest.mark.parametrize(
    "sampler",
    [
        tacthmc.sgnht(0.1),
        tacthmc.cyclical(0.1, cycle_steps=64),
        tacthmc.replica_exchange(0.1, temperatures=(1.0, 3.0)),
    ],
)
def test_with_64_bits_a_run_goes_on(sampler):
    with jax.enable_x64(True):
        made = program(sampler)
        start = made.start(KEY, jnp.zeros(2, jnp.float32))
        for begun in (2**31 - 32, 2**32 - 32, 2**40 - 32):
            _, chunk = made.advance(at_step(start, begun), 6)
            assert chunk.rows.step[0, :6].tolist() == [begun + 10 * k for k in range(1, 7)]
            assert bool(chunk.rows.finite[:, :6].all())
            assert not np.asarray(chunk.health.step).any()


def test_with_64_bits_a_schedule_goes_on():
    """A period that divides 2³² goes on as it does near step 0."""
    with jax.enable_x64(True):
        made = program(tacthmc.cyclical(0.1, cycle_steps=64, explore=0.5))
        start = made.start(KEY, jnp.zeros(2, jnp.float32))
        low = made.advance(at_step(start, 64 - 32), 6)[1]
        high = made.advance(at_step(start, 2**32 - 32), 6)[1]
        np.testing.assert_array_equal(low.rows.keep, high.rows.keep)


def test_random_numbers_of_later_steps_are_new():
    steps = [7, 7 + 2**31, 7 + 2**32, 7 + 2**33, 7 + 2**32 + 2**33, 8]
    with jax.enable_x64(True):
        for key in (KEY, jax.random.key(0, impl="rbg")):
            words = [
                tuple(np.ravel(jax.random.key_data(one)).tolist())
                for step in steps
                for one in step_keys(key, jnp.asarray(step))
            ]
            assert len(set(words)) == 2 * len(steps)


def test_random_numbers_do_not_depend_on_the_bits_of_the_count():
    for key in (KEY, jax.random.key(0, impl="rbg")):
        short = jax.random.key_data(derive_key(key, 1, jnp.asarray(12345)))
        with jax.enable_x64(True):
            long = jax.random.key_data(derive_key(key, 1, jnp.asarray(12345)))
        np.testing.assert_array_equal(short, long)


def test_sums_over_replicas_stay_right_in_long_runs(monkeypatch):
    """Batches end to grow before float32 loses the probability that a step adds."""
    monkeypatch.setattr(_replica_sums, "MAX_BATCH_STEPS", 8)
    odds, lam = jnp.log(jnp.array([0.7])), jnp.array([1.0, 0.5])
    terms = bridge_terms(jnp.ones(2), lam)
    after = jax.jit(lambda sums: sums.after(sums.now.plus(odds, terms, None)))
    sums = RecentSums.empty(2, jnp.float32)
    for _ in range(400):
        sums = after(sums)
    assert int(sums.length) == 8
    assert 8 <= int(sums.full) < 16
    np.testing.assert_allclose(sums.mean("rejected"), 0.3, rtol=1e-5)
