"""Nothing is kept after a return to the plateau before the energy has stopped falling."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import Keep
from tacthmc.dynamics import ContinuousTempering, ScalarThermostat, ScheduledTempering
from tacthmc.run._relaxation import after_step, new_visit
from tests.budget import assert_mean, assert_off_by

KEY = jax.random.key(0)
D = 256


def gaussian(x):
    return 0.5 * jnp.sum(x**2)


TARGET = tacthmc.potential(gaussian)


def verdicts(energies, here, window):
    """What the test says after each step."""

    def one(state, step):
        state = after_step(state, *step, window)
        return state, state.relaxed

    steps = jnp.asarray(energies, jnp.float32), jnp.asarray(here)
    return np.asarray(jax.lax.scan(one, new_visit(jnp.float32), steps)[1])


def by_hand(energies, here, window):
    """The same by whole windows of each visit."""
    found, visit, passed = [], [], False
    for energy, on in zip(energies, here, strict=True):
        visit, passed = ([*visit, energy], passed) if on else ([], False)
        if visit and len(visit) % window == 0 and len(visit) >= 2 * window:
            edges = [-(-i * window // 8) for i in range(9)]
            both = []
            for part in (visit[-2 * window : -window], visit[-window:]):
                blocks = [np.mean(part[a:b]) for a, b in itertools.pairwise(edges)]
                both.append((np.mean(blocks), np.var(blocks, ddof=1) / 8))
            (before, error), (last, own) = both
            passed = passed or last >= before - 2 * np.sqrt(error + own)
        found.append(passed)
    return np.array(found)


@pytest.mark.parametrize("window", [16, 21, 40])
def test_the_test_by_windows(window):
    """Noise about a fall that ends, visits of several lengths, energies far from zero."""
    rng = np.random.default_rng(window)
    here = np.concatenate(
        [np.r_[np.zeros(7), np.ones(n)] for n in (5 * window, window, 3 * window + 5, 9 * window)]
    ).astype(bool)
    since = np.zeros(len(here))
    for k in range(1, len(here)):
        since[k] = since[k - 1] + 1 if here[k] else 0
    energies = 1000 + 8 * np.exp(-since / (2 * window)) + rng.normal(size=len(here))
    found, expected = verdicts(energies, here, window), by_hand(energies, here, window)
    assert np.array_equal(found, expected)
    assert 0 < found.sum() < here.sum()
    assert not found[~here].any()


def test_it_waits_while_energies_fall():
    energies = 100 - 0.1 * np.arange(2000) + np.random.default_rng(0).normal(size=2000)
    assert not verdicts(energies, np.ones(2000, bool), 100).any()


def test_energies_that_are_not_finite_do_not_pass():
    assert not verdicts(np.full(100, np.nan), np.ones(100, bool), 16).any()


@pytest.fixture(scope="module")
def runs():
    """θ cools over a hundred steps, and ξ comes back to the plateau within 225."""
    sampler = tacthmc.tact(5e-4, tempering=ScheduledTempering(1500, rest=0.7))

    def run(window):
        keep = Keep(every=10, after=3000, relaxation_window=window)
        return tacthmc.sample(KEY, sampler, TARGET, jnp.zeros(D), 90_000, 4, keep=keep)

    return run(None), run(250)


def test_variance_with_and_without(runs):
    """Without the test the plateau's variance is clearly too high, with it right."""
    plain, tested = ((run.draws**2).mean(axis=-1) for run in runs)
    assert_off_by(plain, 1.0, 0.02, "variance on the plateau")
    assert_mean(tested, 1.0, 0.01, "variance once relaxed")


def test_only_what_is_kept_changes(runs):
    plain, tested = runs
    assert np.array_equal(plain.trace["energy"], tested.trace["energy"])
    assert np.array_equal(plain.plateau_share, tested.plateau_share)
    assert np.all(plain.trace["keep"] | ~tested.trace["keep"])
    # Of each rest of 1,050 steps, at least the first two windows of 250 are not kept.
    assert 0.1 < tested.counts.sum() / plain.counts.sum() < 550 / 1050


def every_step(window):
    return Keep(every=1, after=0, relaxation_window=window)


def test_a_chain_that_stays_keeps_all_after_two_windows():
    """ξ at rest until step 10,000."""
    tempering = ScheduledTempering(100, start=10_000)
    sampler = tacthmc.tact(0.1, tempering=tempering, thermostat=ScalarThermostat())
    start = jax.random.normal(jax.random.key(1), (D,))
    run = tacthmc.sample(KEY, sampler, TARGET, start, 400, 4, keep=every_step(16))
    keep = run.trace["keep"]
    assert np.all(run.trace["xi"] == 0)
    first = keep.argmax(axis=1)
    for chain, at in enumerate(first):
        assert not keep[chain, :at].any()
        assert keep[chain, at:].all()
    # Step 32 of row 31; a chain whose energy seemed to fall waits for whole windows more.
    assert np.median(first) == 31
    assert np.all((first - 31) % 16 == 0)


def test_with_a_xi_that_forces_move():
    """A visit too short for two windows keeps nothing."""
    sampler = tacthmc.tact(0.1, tempering=ContinuousTempering(step_size=1e-3))

    def run(window):
        keep = every_step(window)
        return tacthmc.sample(KEY, sampler, TARGET, jnp.zeros(4), 3000, 2, keep=keep)

    plain, tested = run(None), run(20)
    assert np.array_equal(plain.trace["xi"], tested.trace["xi"])
    plateau = np.abs(plain.trace["xi"]) <= 1 / 3
    for chain in range(2):
        since = np.zeros(3000, int)
        for k in range(3000):
            since[k] = since[k - 1] + 1 if plateau[chain, k] and k else int(plateau[chain, k])
        kept = tested.trace["keep"][chain]
        assert kept.any()
        assert not kept[since < 40].any()
        # Once begun, a visit is kept to its end.
        assert np.all(kept[1:] | ~kept[:-1] | ~plateau[chain, 1:])


def test_refusals():
    with pytest.raises(ValueError, match="relaxation_window must be a whole number >= 16"):
        Keep(relaxation_window=8)

    def run(sampler):
        keep = Keep(relaxation_window=500)
        return tacthmc.sample(KEY, sampler, TARGET, jnp.zeros(2), 1000, keep=keep)

    with pytest.raises(ValueError, match="relaxation_window is for tempered samplers"):
        run(tacthmc.sgnht(0.1))
    short = tacthmc.tact(0.1, tempering=ScheduledTempering(1000))
    with pytest.raises(ValueError, match=r"must fit twice .* got 500 and a rest of 500"):
        run(short)
