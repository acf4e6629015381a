"""Every sampler's run: chunks, chains, batches, compilation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.compiler._random import step_keys
from tacthmc.potentials._batches import Epochs
from tacthmc.run import _plan as plan
from tests.table import SAMPLERS, energy, minibatched, mislabelled, noisy, same, start


def weak():
    """A weakly typed start, as jnp.full makes it of a Python number."""
    return {"a": jnp.full((2,), 0.5), "b": jnp.full((1, 1), 0.2)}


def _kind(leaf):
    return leaf.dtype, leaf.weak_type


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_run(name):
    """No compilation on a second call; the steps are a plain loop's."""
    traces = []

    def counted(position):
        traces.append(1)
        return energy(position)

    potential = tacthmc.noisy(tacthmc.potential(counted), force=1.0, energy=0.5)

    def run(size, seed):
        key = jax.random.key(seed)
        return tacthmc.sample(key, SAMPLERS[name](size), potential, start(), 100, 2, num_warmup=0)

    whole = run(0.01, 0)
    before = len(traces)
    run(0.02, 1)
    # The abstract look at the potential before a run traces it once; compiling would add more.
    assert len(traces) - before <= 1
    # Nor does a second chunk, whatever the types of the start.
    assert jax.tree.map(
        _kind, SAMPLERS[name](0.01).init(jax.random.key(0), weak())
    ) == jax.tree.map(_kind, whole.state)

    sampler = SAMPLERS[name](0.01)
    step = eqx.filter_jit(lambda key, state, batch: sampler.step(key, state, potential, batch))
    for chain in range(2):
        start_key, step_key = jax.random.split(jax.random.fold_in(jax.random.key(0), chain))
        state = sampler.init(jax.random.split(start_key)[0], start())
        for k in range(sampler.keep_every):
            noise_key, data_key = step_keys(step_key, k)
            selection = potential.select((), data_key, state.position)[1]
            state, info = step(noise_key, state, potential.fetch(selection))
        # Ten steps only, before rounding has grown.
        assert np.isclose(whole.trace["energy"][chain, 0], info.energy, rtol=1e-3)
        if info.xi is not None:
            assert np.isclose(whole.trace["xi"][chain, 0], info.xi, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "make", "batches"),
    [
        ("tact", minibatched, "replacement"),
        ("tact-authors", minibatched, "epochs"),
        ("tact-swept", minibatched, "replacement"),
        ("sgnht", minibatched, "epochs"),
        ("psgld", minibatched, "replacement"),
        ("momentum-sgd", minibatched, "epochs"),
        ("replica-exchange", minibatched, "replacement"),
        ("cyclical", minibatched, "epochs"),
        ("restarted", minibatched, "replacement"),
        ("tact", mislabelled, "epochs"),
        ("sgnht", mislabelled, "replacement"),
    ],
)
def test_chunks_and_company(name, make, batches, monkeypatch):
    """Neither chunks nor other chains change a chain."""

    def run(chains):
        return tacthmc.sample(
            jax.random.key(0),
            SAMPLERS[name](0.01),
            make(batches),
            start(),
            100,
            chains,
            num_warmup=0,
        )

    whole = run(2)
    alone = run(1)
    # The same keys and batch indices; floats agree to rounding over a short run.
    same(whole.trace["energy"][:1, :2], alone.trace["energy"][:, :2], 1e-3)
    monkeypatch.setattr(plan, "CHUNK_INTERVALS", 3)
    pieces = run(2)
    for column in whole.trace:
        assert np.array_equal(whole.trace[column], pieces.trace[column]), column
    same(whole.state, pieces.state, 0)


def test_double_precision_run(x64):
    run = tacthmc.sample(
        jax.random.key(0), SAMPLERS["tact"](0.01), noisy(), start(jnp.float64), 200, num_warmup=0
    )
    assert all(x.dtype == np.float64 for x in jax.tree.leaves(run.draws))
    assert run.trace["energy"].dtype == np.float64


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
    sizes = [0.005, 0.01, 0.02]
    samplers = [SAMPLERS["tact"](size) for size in sizes]
    swept = tacthmc.sample(jax.random.key(0), samplers, noisy(), start(), 100, num_warmup=0)
    assert swept.num_chains == 3
    assert [float(s.step_size) for s in swept.samplers] == pytest.approx(sizes)
    for chain, sampler in enumerate(samplers):
        alone = tacthmc.sample(jax.random.key(0), sampler, noisy(), start(), 100, 3, num_warmup=0)
        same(swept.trace["energy"][chain, :2], alone.trace["energy"][chain, :2], 1e-3)
    assert "plateau share" in str(swept.summary())
    assert swept.thermostats == []


def test_sweeps_that_are_none():
    def run(samplers, chains=1):
        return tacthmc.sample(jax.random.key(0), samplers, noisy(), start(), 100, chains)

    with pytest.raises(ValueError, match=r"sampler\[1\] differs from sampler\[0\]"):
        run([tacthmc.sgnht(0.1), tacthmc.sgnht(0.1, keep_every=7)])
    with pytest.raises(ValueError, match=r"sampler\[1\] differs from sampler\[0\]"):
        run([tacthmc.sgnht(0.1), tacthmc.sgld(0.1)])
    with pytest.raises(ValueError, match="there are 2 samplers"):
        run([tacthmc.sgnht(0.1), tacthmc.sgnht(0.2)], 3)
    with pytest.raises(ValueError, match="empty list"):
        run([])
