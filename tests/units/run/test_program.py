"""A program by itself: chains started, advanced, picked, packed, and driven."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.run import drive

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
TARGET = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
KEEP = tacthmc.Keep(every=10)


@pytest.fixture(scope="module")
def program():
    return tacthmc.Program(tacthmc.sgnht(0.1), TARGET, KEEP, num_chains=3, room=4)


@pytest.fixture(scope="module")
def chains(program):
    return program.start(jax.random.split(KEY, 3), jnp.zeros(2))


def energies(program, chains, intervals=4):
    after, chunk = program.advance(chains, intervals)
    return after, np.asarray(chunk.rows.energy[:, :intervals])


def test_intervals_at_once_or_one_by_one_are_the_same(program, chains):
    _, whole = energies(program, chains)
    parts = []
    for _ in range(4):
        chains, part = energies(program, chains, 1)
        parts.append(part)
    assert np.array_equal(np.concatenate(parts, axis=1), whole)
    with pytest.raises(ValueError, match="intervals is 5, but the program has room for 4"):
        program.advance(chains, 5)


def test_chains_with_keys_of_their_own_do_not_depend_on_company(program, chains):
    _, together = energies(program, chains)
    pair = tacthmc.Program(tacthmc.sgnht(0.1), TARGET, KEEP, num_chains=2, room=4)
    picked = program.pick(chains, [2, 0])
    started = pair.start(jax.random.split(KEY, 3)[jnp.array([2, 0])], jnp.zeros(2))
    for some in (picked, started):
        _, found = energies(pair, some)
        np.testing.assert_allclose(found, together[[2, 0]], rtol=1e-5)


def test_words_bring_chains_back_and_damage_is_noticed(program, chains):
    chains, _ = program.advance(chains, 2)
    words = program.pack(chains)
    assert words.shape == program.packed_shape(chains).shape
    again = program.unpack(words, chains)
    assert np.array_equal(energies(program, again)[1], energies(program, chains)[1])
    with pytest.raises(ValueError, match="damaged: their checksum differs"):
        program.unpack(words.at[1, 2].set(words[1, 2] ^ 1), chains)


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_failed_chain_ends_the_run_unless_the_others_are_to_go_on(keep_going):
    steep = tacthmc.potential(lambda x: jnp.sum(x**4))
    program = tacthmc.Program(tacthmc.sghmc(0.02), steep, KEEP, num_chains=2, room=10)
    chains = program.start(KEY, jnp.array([[0.1, 0.1], [100.0, 100.0]]))
    with pytest.warns(tacthmc.DivergedWarning, match="chain 1 stopped being finite"):
        run = drive(program, chains, 20_000, key=KEY, keep_going=keep_going)
    assert [failure.chain for failure in run.failures] == [1]
    assert (run.num_steps == 20_000) == keep_going
    assert run.counts[1] == 0
    assert run.counts[0] * 10 == run.num_steps


class Total(tacthmc.run.Observer):
    """Adds up the draws of chunks that end at every 30th interval, after which nothing ran yet."""

    run_ahead = False

    def __init__(self, last=None):
        self.total, self.last, self.ends = np.zeros(2), last, []

    def __call__(self, snapshot):
        for kept in snapshot.draws.values():
            self.total = self.total + np.asarray(kept.position, float).sum(axis=0)
        self.ends.append(snapshot.step)
        return snapshot.step == self.last

    def memory(self):
        return {"total": self.total}

    def remember(self, memory):
        self.total = memory["total"]

    def next_stop(self, done):
        return done - done % 30 + 30


def test_an_observer_is_stored_with_the_run_and_goes_on(tmp_path):
    keep = tacthmc.Keep(every=10, after=0, forget=True)

    def run(observer, store=None):
        return tacthmc.sample(
            KEY,
            tacthmc.sgnht(0.1),
            TARGET,
            jnp.zeros(2),
            1_200,
            keep=keep,
            store=store,
            callbacks=[observer],
        )

    whole, first, second, third = Total(), Total(last=600), Total(), Total()
    run(whole)
    stopped = run(first, tmp_path / "run")
    assert (stopped.num_steps, stopped.interrupted) == (600, True)
    finished = tacthmc.resume(tmp_path / "run", callbacks=[second])
    np.testing.assert_allclose(second.total, whole.total, rtol=1e-12)
    assert {300, 600, 900, 1_200} <= {*first.ends, *second.ends} >= {*whole.ends} - {*first.ends}
    # The draws are gone, what was made of them is there.
    loaded = tacthmc.load(tmp_path / "run", callbacks=[third])
    assert np.array_equal(third.total, second.total)
    assert finished.num_steps == loaded.num_steps == 1_200
    assert finished.counts.tolist() == loaded.counts.tolist() == [0]
    assert loaded.trace["energy"].shape == (1, 120)
