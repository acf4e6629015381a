"""Every sampler's run: chunks, chains, batches, compilation.

``make test`` takes samplers that have different code; ``make test-slow`` takes the others.
"""

import jax
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import Refresh
from tacthmc.potentials._batches import Epochs
from tests import properties
from tests.properties import KEY, STEPS
from tests.table import (
    FROM_THE_START,
    SAMPLERS,
    every_sampler,
    keep_of,
    minibatched,
    mislabeled,
    noisy,
    same,
    start,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize(
    "name",
    every_sampler("tact", "sgld"),
)
def test_run(name):
    """No compilation on a second call; the steps are a plain loop's."""
    properties.check_run(SAMPLERS[name], keep_of(name))


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("name", "make", "batches"),
    [
        ("tact", minibatched, "replacement"),
        slow("tact-jumps", minibatched, "replacement"),
        slow("sgnht-jumps", minibatched, "epochs"),
        slow("psgld", mislabeled, "epochs"),
        slow("restarted", minibatched, "replacement"),
        slow("sgnht", minibatched, "epochs"),
        slow("tact-authors", minibatched, "epochs"),
        slow("tact-scheduled", minibatched, "replacement"),
        slow("psgld", minibatched, "replacement"),
        slow("momentum-sgd", minibatched, "epochs"),
        slow("replica-exchange", minibatched, "replacement"),
        slow("cyclical", minibatched, "epochs"),
        slow("tact", mislabeled, "epochs"),
        slow("sgnht", mislabeled, "replacement"),
    ],
)
def test_chunks_and_company(name, make, batches):
    """Neither chunks nor other chains change a chain."""
    potential, keep = make(batches), keep_of(name)
    whole = properties.check_chunks(SAMPLERS[name], potential, keep)
    properties.check_company(SAMPLERS[name], potential, whole, keep)


@pytest.mark.parametrize("name", every_sampler("tact"))
def test_resumed_is_uninterrupted(name, tmp_path):
    potential = minibatched("replacement")
    properties.check_resumed(SAMPLERS[name], potential, tmp_path / "run", keep_of(name))


def test_the_room_of_a_chunk_changes_nothing():
    """A program with room for three intervals is another one, and gives the same numbers."""
    potential, sampler = minibatched("replacement"), SAMPLERS["tact"](0.01)
    whole = properties.sampled(SAMPLERS["tact"], potential, 2, keep=FROM_THE_START)
    small = tacthmc.Program(sampler, potential, FROM_THE_START, num_chains=2, room=3)
    chains = small.start(KEY, start())
    properties.identical(whole, tacthmc.run.drive(small, chains, STEPS, key=KEY))
    with pytest.raises(ValueError, match="intervals is 4, but the program has room for 3"):
        small.advance(chains, 4)


def test_an_epoch_visits_every_example_once():
    order = Epochs(23, 5)
    memory = order.init(jax.random.key(0))
    seen = []
    following = jax.jit(order.next)
    for k in range(23):
        memory, indices = following(memory, jax.random.key(k + 1))
        seen.extend(np.asarray(indices).tolist())
    epochs = np.array(seen).reshape(5, 23)
    assert all(set(epoch) == set(range(23)) for epoch in epochs)
    assert not any(np.array_equal(epochs[0], epoch) for epoch in epochs[1:])


def test_a_sweep_is_one_program():
    """Chains with settings of their own: each is the run it would be with one setting for all."""
    sizes, potential = [0.01, 0.02], minibatched("replacement")
    samplers = [SAMPLERS["tact"](size) for size in sizes]
    swept = tacthmc.sample(KEY, samplers, potential, start(), STEPS, keep=FROM_THE_START)
    assert swept.num_chains == 2
    assert [float(s.step_size) for s in swept.samplers] == pytest.approx(sizes)
    for chain, sampler in enumerate(samplers):
        alone = tacthmc.sample(KEY, sampler, potential, start(), STEPS, 2, keep=FROM_THE_START)
        same(swept.trace["energy"][chain, :2], alone.trace["energy"][chain, :2], 1e-3)
    assert "plateau share" in str(swept.summary())
    assert swept.thermostats == []


def test_sweeps_that_are_none():
    def run(samplers, chains=1):
        return tacthmc.sample(KEY, samplers, noisy(), start(), STEPS, chains)

    with pytest.raises(ValueError, match=r"sampler\[1\] differs from sampler\[0\]"):
        run([tacthmc.sgnht(0.1), tacthmc.sgnht(0.1, refresh=Refresh(every=7))])
    with pytest.raises(ValueError, match=r"sampler\[1\] differs from sampler\[0\]"):
        run([tacthmc.sgnht(0.1), tacthmc.sgld(0.1)])
    with pytest.raises(ValueError, match="there are 2 samplers"):
        run([tacthmc.sgnht(0.1), tacthmc.sgnht(0.2)], 3)
    with pytest.raises(ValueError, match="empty list"):
        run([])
