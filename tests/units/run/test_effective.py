"""Runs that end when they have enough effective draws."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import ModeJumps, Modes
from tacthmc.run import _driver as driver
from tacthmc.run import _effective as condition
from tacthmc.run import _monitor as monitor
from tacthmc.run._goal import MIN_DRAWS
from tacthmc.run._held_draws import HeldDraws, Table
from tacthmc.run._quantities import Quantity, known_modes, measured, quantities

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
DIMENSION = 3
TARGET = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
SAMPLER = tacthmc.sgld(0.05)
EVERY = 5
KEEP = tacthmc.Keep(every=EVERY)


def run(num_steps=10**8, seed=0, chains=4, keep=KEEP, start=0.0, **options):
    key, init = jax.random.key(seed), jnp.full(DIMENSION, start)
    return tacthmc.sample(key, SAMPLER, TARGET, init, num_steps, chains, keep=keep, **options)


def lines(result):
    return str(result.summary()).splitlines()


@pytest.fixture(scope="module")
def enough():
    return run(until=tacthmc.effective(400))


def test_a_run_ends_when_it_has_enough(enough):
    until, summary = enough.until, enough.summary()
    assert until.reached
    assert not enough.interrupted
    assert enough.num_steps == until.steps < until.num_steps == 10**8
    assert "interrupted" not in repr(enough)
    # The condition counts what the summary counts, and the energy.
    assert until.wanted == 400 <= until.effective <= min(p.ess for p in summary.parameters)
    assert max(p.rhat for p in summary.parameters) <= until.rhat <= 1.01
    (line,) = [one for one in lines(enough) if "`until`" in one]
    assert line.startswith(f"ended by `until` after {enough.num_steps:,} of at most 100,000,000")
    assert not any(one.startswith("!") for one in lines(enough))


def test_the_warm_up_is_a_tenth_of_the_steps_that_were_made(enough):
    after = enough.num_steps // 10
    whole = run(enough.num_steps, keep=tacthmc.Keep(EVERY, after=after))
    assert enough.keep == whole.keep
    assert np.array_equal(enough.draws, whole.draws)
    assert enough.trace.keys() == whole.trace.keys()
    for name, column in whole.trace.items():
        assert np.array_equal(enough.trace[name], column), name
    assert np.array_equal(enough.stats["step"], whole.stats["step"])
    assert np.array_equal(enough.expectation(jnp.sum), whole.expectation(jnp.sum))
    fixed = run(keep=tacthmc.Keep(EVERY, after=900), until=tacthmc.effective(400))
    assert fixed.until.reached
    assert fixed.stats["step"].min() == 900 + EVERY


@pytest.mark.parametrize("after", [None, 300])
def test_no_run_ends_with_few_draws(after):
    """Whatever the estimates say."""
    until = tacthmc.effective(10, rhat=100.0)
    short = run(keep=tacthmc.Keep(EVERY, after=after), until=until)
    assert short.until.reached
    assert MIN_DRAWS <= short.num_draws <= 1.02 * MIN_DRAWS


def test_the_number_of_steps_bounds_the_run():
    bounded = run(1_000, until=tacthmc.effective(10**5))
    assert not bounded.until.reached
    assert not bounded.interrupted
    assert bounded.num_steps == 1_000
    assert 0 < bounded.until.effective < 10**5
    (line,) = [one for one in lines(bounded) if "`until`" in one]
    assert line.startswith("! num_steps ended the run before `until`")
    assert bounded.until.of in line
    assert "(100,000 wanted)" in line


def test_an_interrupted_run_says_what_its_condition_asks_for():
    stop = [lambda snapshot: snapshot.step >= 500]
    stopped = run(until=tacthmc.effective(10**5), callbacks=stop)
    assert stopped.interrupted
    assert any(one.startswith("`until` asks for more") for one in lines(stopped))
    assert run(200).until is None


def test_chains_that_disagree_go_on():
    """Each chain mixes within its well and leaves it never; the bound comes first."""
    wells = tacthmc.potential(lambda x: jnp.sum(8.0 * (x**2 - 4.0) ** 2))
    starts = tacthmc.PerChain(jnp.array([[2.0], [-2.0], [2.0], [-2.0]]))
    apart = tacthmc.sample(
        KEY, tacthmc.sgld(2e-3), wells, starts, 6_000, 4, keep=KEEP, until=tacthmc.effective(10)
    )
    assert not apart.until.reached
    assert apart.until.rhat > 1.5
    assert f"R-hat {apart.until.rhat:.3f} of theta[0] (at most 1.01 wanted)" in str(apart.until)


def test_the_halves_of_one_chain_are_compared():
    values = np.random.default_rng(0).normal(size=(1, 1000))
    level = measured(Quantity("x", values), None)
    drifting = measured(Quantity("x", values + np.linspace(0, 3, 1000)), None)
    assert level.holds(tacthmc.effective(400))
    assert drifting.rhat > 1.1
    # A chain that stands still has told nothing.
    still = measured(Quantity("x", np.zeros((1, 1000))), None)
    assert (still.effective, still.rhat) == (0.0, np.inf)


@pytest.fixture(params=[0.002, 1.0])
def chunk_seconds(monkeypatch, request):
    monkeypatch.setattr(driver, "CHUNK_SECONDS", request.param)


def test_the_end_does_not_depend_on_chunks(chunk_seconds, enough):
    again = run(until=tacthmc.effective(400))
    assert again.until == enough.until
    assert np.array_equal(again.draws, enough.draws)


def tempered(num_steps=10**6, **options):
    """Chains are at unit temperature, and keep draws, at different times."""
    keep, until = tacthmc.Keep(every=10), tacthmc.effective(20, rhat=1.3)
    sampler, init = tacthmc.tact(0.1), jnp.zeros(DIMENSION)
    return tacthmc.sample(
        KEY, sampler, TARGET, init, num_steps, 2, keep=keep, until=until, **options
    )


def test_resumed_it_ends_where_it_would_have(tmp_path):
    """And its folder holds the run that is in memory."""
    here, path = tempered(), tmp_path / "run"
    assert here.until.reached
    assert here.counts.min() < here.counts.max()
    part = tempered(store=path, callbacks=[lambda snapshot: snapshot.step >= 0.6 * here.num_steps])
    assert part.interrupted
    assert part.num_steps < here.num_steps
    assert part.keep.after == part.num_steps // 10
    resumed = tacthmc.resume(path)
    for other in (resumed, tacthmc.load(path)):
        assert other.until == here.until
        assert not other.interrupted
        assert other.keep == here.keep
        assert np.array_equal(other.counts, here.counts)
        for one, two in zip(other.all_draws, here.all_draws, strict=True):
            assert np.array_equal(one, two)
        for name in here.stats:
            assert np.array_equal(other.stats[name], here.stats[name]), name
        for name in here.trace:
            assert np.array_equal(other.trace[name], here.trace[name]), name
    assert np.array_equal(np.asarray(resumed.to_arviz().posterior["theta"]), here.draws)


def test_a_reached_condition_stays_reached(tmp_path):
    path = tmp_path / "run"
    first = run(store=path, until=tacthmc.effective(100, rhat=1.1))
    lazy = first.to_arviz().posterior["theta"]
    assert np.array_equal(np.asarray(lazy), first.draws)
    assert tacthmc.resume(path).num_steps == first.num_steps
    with pytest.raises(ValueError, match="give another"):
        tacthmc.resume(path, num_steps=10**9)
    more = tacthmc.resume(path, until=tacthmc.effective(200, rhat=1.1))
    assert more.until.reached
    assert more.until.wanted == 200
    assert more.num_steps > first.num_steps
    assert tacthmc.load(path).until == more.until


def test_a_run_without_a_condition_is_resumed_with_one(tmp_path):
    """Draws from before count, and so does the warm-up that it had."""
    path = tmp_path / "run"
    run(500, store=path, keep=tacthmc.Keep(EVERY, after=100))
    more = tacthmc.resume(path, num_steps=10**6, until=tacthmc.effective(200, rhat=1.1))
    assert more.until.reached
    assert more.keep.after == 100
    assert more.until.effective <= min(p.ess for p in more.summary().parameters)


def test_a_driven_program():
    program = tacthmc.Program(SAMPLER, TARGET, tacthmc.Keep(EVERY, after=200), num_chains=4)
    chains = program.start(KEY, jnp.zeros(DIMENSION))
    until = tacthmc.effective(400)
    driven = tacthmc.run.drive(program, chains, 10**8, key=KEY, until=until)
    assert driven.until.reached
    assert driven.keep.after == 200


def test_weighted_draws():
    """The effective draws of weighted means, as in the summary."""
    keep, until = tacthmc.Keep(every=10, temperatures="all"), tacthmc.effective(40, rhat=1.3)
    weighted = tacthmc.sample(
        KEY, tacthmc.tact(0.1), TARGET, jnp.zeros(2), 10**6, 4, keep=keep, until=until
    )
    until, parameters = weighted.until, weighted.summary().parameters
    assert until.reached
    assert weighted.keep.after == weighted.num_steps // 10
    # Weights of the rectangle of draws, and of all draws, differ slightly.
    assert 40 <= until.effective <= 1.01 * min(p.ess for p in parameters)
    assert max(p.rhat for p in parameters) < 1.31


SIDE = 17
"""The coordinate in which the modes differ, which is not among those that `until` looks at."""


def hidden_modes(every):
    """A sampler that jumps between modes every so many steps, and its potential."""
    centers = np.zeros((2, SIDE + 1))
    centers[:, SIDE] = -6.0, 6.0
    modes = Modes(centers, np.ones((2, SIDE + 1)), [0.5, 0.5])

    def energy(x):
        both = jnp.stack([x[SIDE] - 6.0, x[SIDE] + 6.0])
        return 0.5 * jnp.sum(x[:SIDE] ** 2) - jax.nn.logsumexp(-0.5 * both**2)

    return tacthmc.sgnht(0.3, jumps=ModeJumps(modes, every)), tacthmc.potential(energy)


@pytest.mark.parametrize(
    ("every", "reached"), [(400, False), pytest.param(10, True, marks=pytest.mark.slow)]
)
def test_modes_count_that_no_shown_parameter_tells_apart(every, reached):
    """All parameters mix within each mode; whether the run ends depends on the jumps alone."""
    sampler, potential = hidden_modes(every)
    start = jnp.zeros(SIDE + 1).at[SIDE].set(6.0)
    keep, until = tacthmc.Keep(every=10), tacthmc.effective(400, rhat=1.05)
    mixed = tacthmc.sample(KEY, sampler, potential, start, 6_000, 4, keep=keep, until=until)
    # The table has the worst parameter first, which is the one that tells modes apart.
    hidden, *others = mixed.summary().parameters
    assert hidden.name == f"theta[{SIDE}]" or reached
    assert min(p.ess for p in others) >= 400
    assert max(p.rhat for p in others) <= 1.05
    assert mixed.until.reached is reached
    if not reached:
        assert mixed.num_steps == 6_000
        assert mixed.until.of.startswith("the mode at [0, 0, 0")
        assert mixed.until.effective < 200


def shares(labels, weights):
    """What is measured of the shares of modes with these estimates, by mode."""
    modes = Modes(
        np.arange(len(weights), dtype=float)[:, None], np.ones((len(weights), 1)), weights
    )
    table = Table(np.zeros((*labels.shape, 0)), {"energy": labels, "mode": labels})
    found = {q.name: measured(q, None) for q in quantities(table, [], modes)}
    return {k: found.get(f"the mode at [{k}]") for k in range(len(weights))}


def test_shares_of_modes():
    rng = np.random.default_rng(0)
    labels = rng.choice(3, p=[0.6, 0.395, 0.005], size=(4, 1000)).astype(float)
    known = shares(labels, [0.6, 0.395, 0.005])
    assert known[0].holds(tacthmc.effective(1_000))
    assert known[1].holds(tacthmc.effective(1_000))
    assert known[2] is None, "its share is too small to wait for"
    # Three short visits look like independent draws, and say little about a share.
    rare = np.zeros((4, 1000))
    rare[0, [100, 500, 900]] = 1.0
    assert shares(rare, [0.9, 0.1])[1].effective == 3.0
    # One visit of each chain, as long as the other: each half is in one mode.
    once = np.repeat([[0.0, 1.0]] * 4, 500, axis=1)
    assert shares(once, [0.5, 0.5])[0].effective == 0.0
    never = shares(np.zeros((4, 1000)), [0.5, 0.5])[1]
    assert (never.effective, never.rhat) == (0.0, np.inf)
    # A mode with all draws is not waited for if nothing else matters.
    assert shares(np.zeros((4, 1000)), [0.999, 0.001]) == {0: None, 1: None}


def test_chains_with_lists_of_their_own_have_no_common_modes():
    one, other = hidden_modes(10)[0], hidden_modes(10)[0]
    assert known_modes([one, other]).count == 2
    shifted = Modes(np.ones((2, SIDE + 1)), np.ones((2, SIDE + 1)), [0.5, 0.5])
    assert known_modes([one, tacthmc.sgnht(0.3, jumps=ModeJumps(shifted, 10))]) is None
    assert known_modes([SAMPLER]) is None


MAX_RATIO = 1.2
"""The largest allowed ratio of realized and promised errors.

The coordinates are independent. If the promise holds, the mean square of 200 × DIMENSION errors is
below the square of this ratio by seven of its standard errors, and that of the fast test by two.
"""


@pytest.mark.parametrize("seeds", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_the_error_is_as_promised(seeds):
    """Looking again and again for a good moment to stop does not spoil the errors."""
    until, by_summary, by_condition = tacthmc.effective(100, rhat=1.1), [], []
    for seed in range(seeds):
        # From five standard deviations away.
        done = run(seed=seed, start=5.0, until=until)
        assert done.until.reached
        for parameter in done.summary().parameters:
            by_summary.append(parameter.mean / (parameter.sd / np.sqrt(parameter.ess)))
            by_condition.append(parameter.mean * np.sqrt(100))
    assert np.sqrt(np.mean(np.square(by_summary))) <= MAX_RATIO
    assert np.sqrt(np.mean(np.square(by_condition))) <= MAX_RATIO


def test_there_are_few_checks():
    """Their number grows as the logarithm of the length, and they thin what they look at."""
    seen = []
    goal_of = driver.Goal._looked

    def looked(goal, step, is_last):
        seen.append(step)
        return goal_of(goal, step, is_last)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver.Goal, "_looked", looked)
        run(60_000, until=tacthmc.effective(10**5))
    assert seen[-1] == 60_000
    assert len(seen) <= 2 + np.log(60_000 / seen[0]) / np.log(1.1)
    # The last one is at the bound, wherever that is.
    assert np.all(np.diff(seen)[:-1] >= 0.1 * np.array(seen[:-2]))


def fake(values, step):
    """A chunk with these draws of one scalar, one per row."""
    chains, count = values.shape
    rows = {
        "keep": np.ones((chains, count), bool),
        "step": np.tile(step + np.arange(1, count + 1), (chains, 1)),
        "energy": values.astype(np.float32),
    }
    kept = {c: driver.Kept(values[c].astype(np.float32), None, None) for c in range(chains)}
    chunk = monitor.ChunkDraws(None, lambda: kept)
    return monitor.Snapshot(0, 0, 0.0, 1.0, np.zeros(chains), np.ones(chains), rows, chunk)


@pytest.mark.parametrize("sizes", [[1000], [1] * 50 + [950], [7, 300, 693]])
def test_held_draws_are_thinned_by_their_number(sizes):
    values = np.arange(2000.0).reshape(2, 1000)
    held, begun = HeldDraws([(0, (), "x")], 2, most=130), 0
    for size in sizes:
        held.add(fake(values[:, begun : begun + size], begun))
        begun += size
    table = held.table(after=100)
    assert np.array_equal(table.stats["step"][0], np.arange(104, 1000, 8) + 1)
    assert np.array_equal(table.scalars[..., 0], values[:, 104::8])
    assert np.array_equal(table.thinned(2).stats["energy"], values[:, 104::16])


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"until must be made by tacthmc\.effective.*; got 400"):
        condition.check_until(400, KEEP, jnp.zeros((4, DIMENSION)))
    with pytest.raises(ValueError, match=r"'theta\[7\]'.*the nearest is 'theta"):
        run(until=tacthmc.effective(400, parameters=["theta[7]"]))
    with pytest.raises(ValueError, match=r"Keep\.forget"):
        run(keep=tacthmc.Keep(forget=True), until=tacthmc.effective(400))
    with pytest.raises(ValueError, match="draws must be a whole number >= 10"):
        tacthmc.effective(5)
    with pytest.raises(ValueError, match="rhat must be"):
        tacthmc.effective(400, rhat=0.99)
    with pytest.raises(TypeError, match="parameters must be a list"):
        tacthmc.effective(400, parameters="theta[0]")
    # Before tuning begins.
    wrong = tacthmc.effective(400, parameters=["theta[7]"])
    with pytest.raises(ValueError, match=r"theta\[7\]"):
        tacthmc.sample(KEY, tacthmc.tact(), TARGET, jnp.zeros(2), 10**4, 4, until=wrong)


def test_the_display_shows_effective_draws(capsys, monkeypatch):
    monkeypatch.setattr(monitor, "LINE_SECONDS", 0.0)
    run(until=tacthmc.effective(400))
    shown = capsys.readouterr().err.splitlines()
    assert " of 400 effective draws, at most " in shown[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(2_000, until=tacthmc.effective(400), progress=True)
    assert "effective draws" in capsys.readouterr().err
