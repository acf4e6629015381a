"""Adding to one place of each table."""

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.compiler import _scatter as scatter


def test_tables_of_many_chains_by_a_loop_or_a_mask():
    table = jax.random.normal(jax.random.key(0), (3, 5))
    index, amount = jnp.array([4, 0, 2]), jnp.array([1.0, -2.0, 0.5])
    expected = np.asarray(table).copy()
    expected[np.arange(3), index] += np.asarray(amount)
    assert np.allclose(scatter._one_by_one(table, index, amount), expected)
    assert np.allclose(jax.vmap(scatter._masked)(table, index, amount), expected)
    assert np.allclose(jax.jit(jax.vmap(scatter.add_at))(table, index, amount), expected)
    twice = jax.vmap(jax.vmap(scatter.add_at))(table[None], index[None], amount[None])
    assert np.allclose(twice[0], expected)
