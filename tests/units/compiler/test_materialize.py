"""Arrays that are written out once are the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.compiler import computed_once
from tacthmc.compiler._materialize import MIN_MATERIALIZED_SIZE


def test_a_leaf_computed_once_is_the_same_to_the_last_bit():
    leaf = jax.random.normal(jax.random.key(0), (MIN_MATERIALIZED_SIZE,))
    leaf = leaf.at[:6].set(jnp.array([0.0, -0.0, 2e-38, 3e38, jnp.inf, jnp.nan]))
    found = np.asarray(jax.jit(computed_once)(leaf))
    expected = np.asarray(leaf)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[:5]), np.signbit(expected[:5]))
    assert (jax.grad(lambda x: jnp.sum(computed_once(x)))(leaf) == 1).all()


def test_a_short_leaf_is_left_alone():
    short = jnp.array([1.0, jnp.inf])
    assert computed_once(short) is short
