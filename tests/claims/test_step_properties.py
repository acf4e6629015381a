"""Every sampler's step: jit, vmap, sweeps, dtypes."""

import jax
import jax.numpy as jnp
import pytest

from tests.table import SAMPLERS, noisy, same, start


def some_steps(make, eta, key, position, count):
    sampler, potential = make(eta), noisy()
    first, rest = jax.random.split(key)
    state = sampler.init(first, position)
    for k in jax.random.split(rest, count):
        data_key, step_key = jax.random.split(k)
        batch = potential.batch(data_key, state.position)
        state, info = sampler.step(step_key, state, potential, batch)
    return state, info


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_step(name):
    """Compiled equals not compiled, mapped equals a loop, and a sweep is a map."""
    make, keys = SAMPLERS[name], jax.random.split(jax.random.key(0), 2)
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


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_half_precision_positions_are_kept_in_single(name):
    state, _ = jax.eval_shape(
        lambda key: some_steps(SAMPLERS[name], 0.01, key, start(jnp.bfloat16), 1),
        jax.random.key(0),
    )
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(state.position))


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_double_precision(name, x64):
    shapes = jax.eval_shape(
        lambda key: some_steps(SAMPLERS[name], 0.01, key, start(jnp.float64), 2),
        jax.random.key(0),
    )
    floats = [x for x in jax.tree.leaves(shapes) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert len(floats) >= 2
    assert all(x.dtype == jnp.float64 for x in floats)
