"""Some leaves of a pytree are sampled, the others held fixed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.potentials import subset

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)


def test_a_frozen_subtree_is_not_sampled():
    def energy(p):
        return jnp.sum((p["w"] - p["b"]) ** 2)

    whole = {"w": jnp.zeros(2), "b": jnp.full(2, 5.0)}
    some, start = subset(tacthmc.potential(energy), whole, {"w": True, "b": False})
    run = tacthmc.sample(KEY, tacthmc.sghmc(0.02), some, start, 20_000, 4)
    assert run.draws["b"] is None
    assert np.isclose(run.draws["w"].mean(), 5.0, atol=0.2)
    assert np.array_equal(run.whole(run.draws)["b"], whole["b"])


def test_an_equinox_model_with_other_leaves():
    model = eqx.nn.MLP(2, 1, 4, 1, key=KEY)
    data = jax.random.normal(jax.random.key(1), (16, 2))

    def log_prior(m):
        return -0.5 * sum(jnp.sum(w**2) for w in jax.tree.leaves(eqx.filter(m, eqx.is_array)))

    potential = tacthmc.posterior(log_prior, lambda m, x: -0.5 * jnp.sum(m(x) ** 2), data, 8)
    some, start = subset(potential, model, eqx.is_inexact_array)
    keep = tacthmc.Keep(every=5, after=0)
    run = tacthmc.sample(KEY, tacthmc.sgnht(1e-3), some, start, 500, 2, keep=keep)
    assert run.draws.layers[0].weight.shape[2:] == (4, 2)
    assert callable(run.whole(run.draws).activation)
    # The data are found through the wrapper that holds the rest fixed.
    assert run.to_arviz()["observed_data"]["data"].shape == (16, 2)


class Repeated(eqx.Module):
    """Adds its weight again and again."""

    weight: jax.Array
    times: int

    def __call__(self, x):
        for _ in range(self.times):
            x = x + self.weight
        return x


def test_numbers_in_the_frozen_part_stay_numbers():
    potential = tacthmc.potential(lambda m: jnp.sum(m(0.0) ** 2))
    some, start = subset(potential, Repeated(jnp.zeros(2), 3), eqx.is_inexact_array)
    run = tacthmc.sample(KEY, tacthmc.sgld(0.01), some, start, 200)
    assert run.draws.times is None
    with pytest.raises(ValueError, match="picks no leaf"):
        subset(potential, Repeated(jnp.zeros(2), 3), lambda leaf: False)


def test_a_filter_must_be_booleans_or_functions():
    potential = tacthmc.potential(lambda p: jnp.sum(p["w"] ** 2 + p["b"] ** 2))
    whole = {"w": jnp.zeros(2), "b": jnp.zeros(2)}
    with pytest.raises(TypeError, match=r"sampled must be True, False or a function.*got 'w'"):
        subset(potential, whole, "w")
    with pytest.raises(TypeError, match=r"sampled\['w'\] must be True.*got 'yes'"):
        subset(potential, whole, {"w": "yes", "b": False})
    with pytest.raises(ValueError, match="sampled must be a prefix of the position, with its keys"):
        subset(potential, whole, {"z": True})
