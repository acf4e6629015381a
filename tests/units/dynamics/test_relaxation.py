"""Nothing is kept after a return to the plateau before the energy has stopped falling."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import Langevin, Relaxed, Sweep
from tests.budget import assert_mean, assert_off_by

# One worker for this file: its tests share runs.
pytestmark = pytest.mark.xdist_group("test_relaxed")

KEY = jax.random.key(0)
D = 256


def gaussian(x):
    return 0.5 * jnp.sum(x**2)


def verdicts(energies, here, window):
    """What the test says after each step."""
    test = Relaxed(window)

    def one(state, seen):
        state = test.seen(state, *seen)
        return state, state.relaxed

    seen = jnp.asarray(energies, jnp.float32), jnp.asarray(here)
    return np.asarray(jax.lax.scan(one, test.init(jnp.float32), seen)[1])


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
def test_the_test(window):
    """Noise about a fall that ends, visits of several lengths, energies far from zero."""
    rng = np.random.default_rng(window)
    here = np.concatenate(
        [np.r_[np.zeros(7), np.ones(n)] for n in (5 * window, window, 3 * window + 5, 9 * window)]
    ).astype(bool)
    since = np.zeros(len(here))
    for k in range(1, len(here)):
        since[k] = since[k - 1] + 1 if here[k] else 0
    energies = 1000 + 8 * np.exp(-since / (2 * window)) + rng.normal(size=len(here))
    seen, expected = verdicts(energies, here, window), by_hand(energies, here, window)
    assert np.array_equal(seen, expected)
    assert 0 < seen.sum() < here.sum()
    assert not seen[~here].any()


def test_it_waits_while_energies_fall():
    energies = 100 - 0.1 * np.arange(2000) + np.random.default_rng(0).normal(size=2000)
    assert not verdicts(energies, np.ones(2000, bool), 100).any()


def test_energies_that_are_not_finite_do_not_pass():
    assert not verdicts(np.full(100, np.nan), np.ones(100, bool), 16).any()


SWEEP = Sweep(1500, rest=0.7)


@pytest.fixture(scope="module")
def runs():
    """θ cools over a hundred steps and is led back to the plateau within 225."""

    def run(relaxed):
        sampler = tacthmc.tact(5e-4, sweep=SWEEP, relaxed=relaxed, keep_every=10)
        return tacthmc.sample(
            KEY, sampler, tacthmc.potential(gaussian), jnp.zeros(D), 90_000, 4, num_warmup=3000
        )

    return run(None), run(Relaxed(250))


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


def test_a_chain_that_stays_keeps_all_after_two_windows():
    """ξ at rest until step 10,000."""
    sampler = tacthmc.tact(
        0.1,
        sweep=Sweep(100, start=10_000),
        relaxed=Relaxed(16),
        keep_every=1,
    )
    start = jax.random.normal(jax.random.key(1), (D,))
    run = tacthmc.sample(KEY, sampler, tacthmc.potential(gaussian), start, 400, 4, num_warmup=0)
    keep = run.trace["keep"]
    assert np.all(run.trace["xi"] == 0)
    first = keep.argmax(axis=1)
    for chain, at in enumerate(first):
        assert not keep[chain, :at].any()
        assert keep[chain, at:].all()
    # Step 32 of row 31; a chain whose energy seemed to fall waits for whole windows more.
    assert np.median(first) == 31
    assert np.all((first - 31) % 16 == 0)


def test_with_a_xi_of_its_own():
    """Where ξ moves by itself a visit too short for two windows keeps nothing."""
    options = {"xi_step_size": 1e-3, "keep_every": 1}
    target = tacthmc.potential(gaussian)

    def run(**more):
        sampler = tacthmc.tact(0.1, **options, **more)
        return tacthmc.sample(KEY, sampler, target, jnp.zeros(4), 3000, 2, num_warmup=0)

    plain, tested = run(), run(relaxed=Relaxed(20))
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


def test_states_stored_before_there_was_a_window():
    """They have the structure of new ones, as a loop wants it."""
    new = tacthmc.tact(0.1).init(KEY, jnp.zeros(3)).tempering
    stored = {name: value for name, value in vars(new).items() if name != "relaxing"}
    old = object.__new__(type(new))
    old.__setstate__(stored)
    assert jax.tree.structure(old) == jax.tree.structure(new)


def test_refusals():
    with pytest.raises(ValueError, match="window must be a whole number >= 16"):
        Relaxed(8)
    with pytest.raises(ValueError, match="relaxed is for tempered samplers"):
        Langevin(0.1, relaxed=Relaxed())
    with pytest.raises(
        ValueError, match=r"relaxed\.window must fit twice .* got 500 and a rest of 5"
    ):
        tacthmc.tact(0.1, sweep=Sweep(1000), relaxed=Relaxed())
