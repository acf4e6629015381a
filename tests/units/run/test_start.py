"""How an ``init`` is read: one position for all chains, or one for each."""

import jax.numpy as jnp
import pytest

import tacthmc
from tacthmc.run._start import chain_positions

TARGET = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
PAIR = tacthmc.potential(lambda x: 0.5 * (x[0] ** 2 + x[1] ** 2))


@pytest.mark.parametrize(
    ("potential", "init", "shape"),
    [
        (TARGET, jnp.zeros(4), (4,)),
        (TARGET, tacthmc.PerChain(jnp.zeros(4)), ()),
        (TARGET, jnp.zeros((4, 2)), (2,)),
        (TARGET, jnp.zeros(()), ()),
        # Only one of both readings makes sense.
        (PAIR, jnp.zeros((4, 2)), (2,)),
        (PAIR, jnp.zeros(2), (2,)),
    ],
)
def test_a_vector_is_one_position_and_a_matrix_one_for_each_chain(potential, init, shape):
    assert chain_positions(potential, init, 4).shape == (4, *shape)


def test_per_chain_needs_an_axis_of_chains():
    with pytest.raises(ValueError, match="leading axis of num_chains=3"):
        chain_positions(TARGET, tacthmc.PerChain(jnp.zeros(2)), 3)
