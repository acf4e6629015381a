"""Models that carry a state from batch to batch: batch norm, carried, saved, kept per draw."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.potentials import subset

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (64, 3)) * 2.0 + 1.0
Y = X[:, 0] - X[:, 1]


class Net(eqx.Module):
    """Batch norm, then a linear layer."""

    norm: eqx.nn.BatchNorm
    linear: eqx.nn.Linear

    def __init__(self, key):
        self.norm = eqx.nn.BatchNorm(3, axis_name="batch", mode="ema", momentum=0.9)
        self.linear = eqx.nn.Linear(3, 1, key=key)

    def __call__(self, x, state):
        x, state = self.norm(x, state)
        return self.linear(x)[0], state


def log_prior(net):
    leaves = jax.tree.leaves(eqx.filter(net, eqx.is_inexact_array))
    return -0.5 * sum((jnp.sum(x**2) for x in leaves), jnp.zeros(()))


def log_likelihood(net, batch, state):
    x, y = batch
    run = jax.vmap(net, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        means, state = run(x, state)
    return -0.5 * (y - means) ** 2, state


@pytest.fixture(scope="module")
def setting():
    net, state = eqx.nn.make_with_state(Net)(jax.random.key(1))
    potential = tacthmc.posterior(
        log_prior, log_likelihood, (X, Y), 16, batched=True, model_state=state
    )
    return net, state, potential


EVERY_20TH = tacthmc.Keep(every=20, after=0)


def run(setting, sampler, num_steps=400, keep=EVERY_20TH, store=None):
    net, _, potential = setting
    some, start = subset(potential, net, eqx.is_inexact_array)
    return tacthmc.sample(KEY, sampler, some, start, num_steps, 2, keep=keep, store=store)


def test_carried_kept_saved_and_resumed(setting, tmp_path):
    sampler = tacthmc.sgnht(1e-4)
    whole = run(setting, sampler)
    averages = [x for x in jax.tree.leaves(whole.model_states) if x.shape[2:] == (3,)]
    assert averages[0].shape == (2, 20, 3)
    # Each chain saw its own batches; the running mean comes near the data's.
    assert not np.array_equal(averages[0][0], averages[0][1])
    assert np.allclose(averages[0][:, -1], X.mean(axis=0), atol=0.7)
    run(setting, sampler, 200, store=tmp_path / "run")
    longer = tacthmc.resume(tmp_path / "run", num_steps=400)
    for other in (longer, tacthmc.load(tmp_path / "run")):
        for a, b in zip(
            jax.tree.leaves((other.draws, other.model_states)),
            jax.tree.leaves((whole.draws, whole.model_states)),
            strict=True,
        ):
            assert np.array_equal(a, b)

    def predict(net, state):
        net, state = eqx.nn.inference_mode(net), state
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            return net(X[0], state)[0]

    one = longer.whole(jax.tree.map(lambda x: jnp.asarray(x[0, 0]), longer.draws))
    state = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), longer.model_states)
    assert np.isfinite(predict(one, state))
    assert np.isfinite(longer.expectation(predict))


@pytest.mark.parametrize(
    "sampler", [tacthmc.tact(1e-4), tacthmc.sgld(1e-4), tacthmc.samplers.adam(1e-3)]
)
def test_every_kind_of_sampler_carries_it(setting, sampler):
    net, first, potential = setting
    state = sampler.init(KEY, eqx.filter(net, eqx.is_inexact_array), first)
    part, _ = subset(potential, net, eqx.is_inexact_array)
    moved, _ = eqx.filter_jit(sampler.step)(KEY, state, part, (X[:16], Y[:16]))
    direct = log_likelihood(net, (X[:16], Y[:16]), first)[1]
    same = [
        np.allclose(a, b, atol=0.05)
        for a, b in zip(jax.tree.leaves(moved.model), jax.tree.leaves(direct), strict=True)
    ]
    assert all(same)
    assert any(
        not np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(moved.model), jax.tree.leaves(first), strict=True)
    )


def test_refused(setting):
    _, state, potential = setting
    with pytest.raises(ValueError, match="model_state needs batched=True"):
        tacthmc.posterior(log_prior, log_likelihood, (X, Y), 16, model_state=state)
    with pytest.raises(ValueError, match="no full-data energy"):
        potential.energy(jnp.zeros(3))
    with pytest.raises(ValueError, match="wrong weights"):
        run(setting, tacthmc.tact(1e-4), keep=tacthmc.Keep(temperatures="all"))
    wrong = tacthmc.posterior(
        lambda w: -0.5 * jnp.sum(w**2),
        lambda w, batch, s: (-(batch[1] ** 2), jnp.zeros(3)),
        (X, Y),
        16,
        batched=True,
        model_state=jnp.zeros(2),
    )
    with pytest.raises(ValueError, match="new model state in the shape"):
        tacthmc.sample(KEY, tacthmc.sgld(1e-4), wrong, jnp.zeros(3), 100)
