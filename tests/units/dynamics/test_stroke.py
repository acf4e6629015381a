"""What a thermostat sums over a step: the halves left out, to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacthmc.dynamics._thermostat import Conditions, Stroke


@pytest.mark.parametrize("mass", [np.float32(0.3), np.linspace(0.1, 7.0, 1000, dtype=np.float32)])
def test_sums_without_the_halves_are_the_same_numbers(mass):
    keys = jax.random.split(jax.random.key(0))
    before, after = (1e-4 * jax.random.normal(key, (1000,)) for key in keys)
    one = jnp.ones(())
    at = Conditions(*[one] * len(Conditions._fields))
    stroke = Stroke(after, before + after, jnp.asarray(mass), at, one, one)

    def summed(m, r):
        return m * jnp.sum(r * r) if m.ndim == 0 else jnp.sum(m * r * r)

    expected = summed(stroke.mass, stroke.mean)
    assert float(expected) > 0
    np.testing.assert_array_equal(summed(stroke.quarter_mass, stroke.twice_mean), expected)
