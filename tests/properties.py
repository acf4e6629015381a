"""What every sampler's steps and runs must be like, as checks of a function that makes one.

``make(step_size)`` returns a sampler. The samplers of ``tests/table.py`` all go through these
checks, and a new part goes through them from the one file that defines it.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.compiler._random import jump_key, step_keys
from tacthmc.potentials import PrecisionWarning
from tests.table import FROM_THE_START, energy, noisy, same, start

KEY = jax.random.key(0)
STEPS = 100


def some_steps(make, eta, key, position, count):
    sampler, potential = make(eta), noisy()
    first, rest = jax.random.split(key)
    state = sampler.init(first, position)
    for k in jax.random.split(rest, count):
        data_key, step_key = jax.random.split(k)
        batch = potential.batch(data_key, state.position)
        state, info = sampler.step(step_key, state, potential, batch)
    return state, info


def check_step(make):
    """Compiled equals not compiled, mapped equals a loop, and a sweep is a map."""
    keys = jax.random.split(KEY, 2)
    sizes = jnp.array([0.01, 0.02])

    def one(eta, key):
        return some_steps(make, eta, key, start(), 1)

    plain, loop = one(0.01, keys[0]), jax.jit(one)
    same(plain, loop(sizes[0], keys[0]), 2e-5)
    mapped = jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None)))(sizes, keys)
    for i, size in enumerate(sizes):
        for j, key in enumerate(keys):
            same(jax.tree.map(lambda x, i=i, j=j: x[i, j], mapped), loop(size, key), 2e-5)

    # Structure, shapes and dtypes stay what init made them.
    first = make(0.01).init(keys[0], start())
    assert jax.tree.structure(first) == jax.tree.structure(plain[0])
    assert jax.tree.map(jnp.shape, first) == jax.tree.map(jnp.shape, plain[0])
    assert jax.tree.map(lambda x: x.dtype, first) == jax.tree.map(lambda x: x.dtype, plain[0])


def check_half_precision(make):
    """Positions in half precision are kept in single, and a warning says so."""
    with pytest.warns(PrecisionWarning, match="bfloat16"):
        state, _ = jax.eval_shape(
            lambda key: some_steps(make, 0.01, key, start(jnp.bfloat16), 1), jax.random.key(0)
        )
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(state.position))


def check_double_precision(make):
    """Positions in double precision have everything else in it; call it with x64 enabled."""
    shapes = jax.eval_shape(
        lambda key: some_steps(make, 0.01, key, start(jnp.float64), 2), jax.random.key(0)
    )
    floats = [x for x in jax.tree.leaves(shapes) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert len(floats) >= 2
    assert all(x.dtype == jnp.float64 for x in floats)


def weak():
    """A weakly typed start, as jnp.full makes it of a Python number."""
    return {"a": jnp.full((2,), 0.5), "b": jnp.full((1, 1), 0.2)}


def _kind(leaf):
    return leaf.dtype, leaf.weak_type


def check_run(make, keep=FROM_THE_START):
    """No compilation on a second call; the steps are a plain loop's."""
    traces = []

    def counted(position):
        traces.append(1)
        return energy(position)

    potential = tacthmc.noisy(tacthmc.potential(counted), force=1.0, energy=0.5)

    def run(size, seed):
        key = jax.random.key(seed)
        return tacthmc.sample(key, make(size), potential, start(), STEPS, 2, keep=keep)

    whole = run(0.01, 0)
    before = len(traces)
    run(0.02, 1)
    # The abstract look at the potential before a run traces it once; compiling would add more.
    assert len(traces) - before <= 1
    # Nor does a second chunk, whatever the types of the start.
    assert jax.tree.map(_kind, make(0.01).init(KEY, weak())) == jax.tree.map(_kind, whole.state)

    sampler = make(0.01)
    step = eqx.filter_jit(lambda key, state, batch: sampler.step(key, state, potential, batch))
    for chain in range(2):
        start_key, step_key = jax.random.split(jax.random.fold_in(KEY, chain))
        state = sampler.init(jax.random.split(start_key)[0], start())
        for k in range(keep.every):
            noise_key, data_key = step_keys(step_key, k)
            selection = potential.batches.select((), data_key, state.position)[1]
            state, info = step(noise_key, state, potential.batches.fetch(selection))
        state, info = jumped(sampler, state, info, step_key, keep)
        # Ten steps only, before rounding has grown.
        assert np.isclose(whole.trace["energy"][chain, 0], info.energy, rtol=1e-3)
        if info.xi is not None:
            assert np.isclose(whole.trace["xi"][chain, 0], info.xi, rtol=1e-3, atol=1e-4)


def jumped(sampler, state, info, key, keep):
    """The chain at the end of its first interval, after the jump that is due, if any."""
    jumps = getattr(sampler, "jumps", None)
    if jumps is None or jumps.every > keep.every:
        return state, info
    moved, jump = sampler.jump(jump_key(key, state.step), state, noisy())
    if not (jump.accepted and info.at_unit_temperature):
        return state, info
    return moved, info._replace(energy=jump.energy)


class EveryThird(tacthmc.run.Observer):
    """Ends a chunk after every third interval."""

    def __call__(self, snapshot):
        self.snapshots = getattr(self, "snapshots", 0) + 1

    def next_stop(self, done):
        return done + 3


def check_chunks(make, potential, keep=FROM_THE_START):
    """Where chunks end changes nothing, to the last bit; returns the run of two chains."""
    whole, third = sampled(make, potential, 2, keep=keep), EveryThird()
    pieces = sampled(make, potential, 2, keep=keep, callbacks=[third])
    assert third.snapshots >= STEPS // keep.every // 3
    identical(whole, pieces)
    return whole


def check_company(make, potential, whole, keep=FROM_THE_START):
    """Other chains change no chain: the same keys and batches, up to rounding."""
    alone = sampled(make, potential, 1, keep=keep)
    same(whole.trace["energy"][:1, :2], alone.trace["energy"][:, :2], 1e-3)


def check_resumed(make, potential, path, keep=FROM_THE_START):
    """Resumed is uninterrupted, to the last bit; the folder alone has all that it takes."""
    whole = sampled(make, potential, 2, keep=keep)
    sampled(make, potential, 2, steps=40, keep=keep, store=path)
    identical(whole, tacthmc.resume(path, num_steps=STEPS))


def sampled(make, potential, chains, steps=STEPS, **options):
    return tacthmc.sample(KEY, make(0.01), potential, start(), steps, chains, **options)


def identical(one, other):
    """Traces, draws and last states are the same to the last bit."""
    assert one.trace.keys() == other.trace.keys()
    for column in one.trace:
        assert np.array_equal(one.trace[column], other.trace[column]), column
    same(one.state, other.state, 0)
    for a, b in zip(one.all_draws, other.all_draws, strict=True):
        same(a, b, 0)
