"""An interval's steps on random numbers drawn in blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.run._interval import block_steps

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize(
    ("every", "size", "expected"),
    [(50, 1, 50), (100, 1, 50), (50, 100_000, 1), (7, 1, 7), (997, 1, 50), (58, 1, 29)],
)
def test_blocks_of_steps(every, size, expected):
    assert block_steps(every, size) == expected


def test_a_block_that_does_not_divide_the_interval():
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))

    def energies(every):
        keep, sampler = tacthmc.Keep(every=every), tacthmc.sgnht(0.01)
        run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(2), 106, 2, keep=keep)
        return run.trace["energy"]

    # The last of 53 = 50 + 3 steps is the one that an interval of 106 = 2·53 has in its middle.
    assert block_steps(53, 2) == 50
    assert np.allclose(energies(53), energies(1)[:, [52, 105]], rtol=1e-3)
