"""Kept losses: unbiased, exact sums, less noise, and not in the draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.potentials import control_variates, forces, loss_table, measure_noise

KEY = jax.random.key(0)
N, SIZE = 60, 12
X = jax.random.normal(jax.random.key(1), (N, 2))
Y = (X[:, 0] + 0.5 * jax.random.normal(jax.random.key(2), (N,)) > 0).astype(jnp.float32)


def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def log_likelihood(w, example):
    x, y = example
    return y * jnp.dot(w, x) - jax.nn.softplus(jnp.dot(w, x))


def model(**options):
    return tacthmc.posterior(log_prior, log_likelihood, (X, Y), SIZE, **options)


@eqx.filter_jit
def walked(potential, key, steps, path):
    """Errors Ũ − U along a given path of positions, and the model state after it."""

    def step(state, k):
        here = path(k)
        batch = potential.batch(jax.random.fold_in(key, k), here)
        energy = potential.estimate(here, batch, state)
        return energy.model, energy.total - potential.energy(here)

    return jax.lax.scan(step, potential.init_model(), jnp.arange(steps))


def slowly(k):
    t = 2e-3 * k.astype(jnp.float32)
    return jnp.stack([2 * jnp.sin(t), jnp.cos(0.7 * t)])


@pytest.mark.parametrize("steps", [1, 3, 40])
def test_unbiased_from_the_first_step(steps):
    """Over many keys the mean error is zero at any age of the table, filled or not."""
    potential = loss_table(model())
    keys = jax.random.split(KEY, 2_000)
    errors = np.asarray(jax.vmap(lambda key: walked(potential, key, steps, slowly)[1])(keys))
    last = errors[:, -1].astype(float)
    assert abs(last.mean()) < 5.2 * last.std() / np.sqrt(len(last)) + 1e-3
    plain = measure_noise(KEY, model(), slowly(jnp.asarray(steps)), 512).energy
    assert last.var() < (1.3 if steps < 40 else 0.05) * plain


def test_the_gradient_is_the_ordinary_one():
    plain, table = model(), loss_table(model())
    state, _ = walked(table, KEY, 30, slowly)
    batch = table.batch(KEY, jnp.ones(2))
    _, ordinary = plain.value_and_grad(jnp.ones(2), batch.examples)
    found = forces(table, jnp.ones(2), batch, state)
    gradient, after = found.gradient, found.model
    np.testing.assert_allclose(gradient, ordinary, rtol=1e-5)
    # Of what is kept, the batch's is new and all else is as it was.
    fresh = jax.vmap(lambda i: log_likelihood(jnp.ones(2), (X[i], Y[i])))(batch.indices)
    np.testing.assert_allclose(after.last[batch.indices], fresh, rtol=1e-6)
    others = np.setdiff1d(np.arange(N), batch.indices)
    assert np.array_equal(after.last[others], state.last[others])


def test_the_sum_does_not_drift():
    """10⁵ batches with many repeated examples, along a path on which losses change a lot."""
    state, _ = walked(loss_table(model()), KEY, 100_000, slowly)
    exact = np.asarray(state.last, float).sum()
    assert int(state.unseen) == 0
    assert abs(float(state.total) + float(state.lost) - exact) < 5e-5 * abs(exact)


def test_a_table_keeps_its_types():
    """Others after the first chunk of a run would mean to compile again."""
    table, here = loss_table(model()), jnp.zeros(2)
    before = table.init_model()
    after = table.estimate(here, table.batch(KEY, here), before).model
    types = [[(x.dtype, x.weak_type) for x in jax.tree.leaves(tree)] for tree in (before, after)]
    assert types[0] == types[1]


def test_an_example_that_is_there_twice_counts_once():
    potential = loss_table(model())
    indices = jnp.array([3, 7, 3, 3])
    batch = potential.batches.fetch(indices)
    here = jnp.array([1.0, -1.0])
    state = potential.estimate(here, batch, potential.init_model()).model
    assert int(state.unseen) == N - 2
    assert float(state.total) == pytest.approx(float(state.last[3] + state.last[7]), rel=1e-6)


def test_with_tempering_stored_and_gone_on_with(tmp_path):
    """Tables go on with the chains, bit for bit, and are not kept with the draws."""
    split = tacthmc.temper_likelihood(loss_table(model()))
    sampler, keep = tacthmc.tact(1e-2), tacthmc.Keep(every=20, after=0)
    whole = tacthmc.sample(KEY, sampler, split, jnp.zeros(2), 400, 2, keep=keep)
    assert whole.model_states is None
    assert whole.state.model.last.shape == (2, N)
    assert not np.array_equal(whole.state.model.last[0], whole.state.model.last[1])
    path = tmp_path / "run"
    tacthmc.sample(KEY, sampler, split, jnp.zeros(2), 200, 2, keep=keep, store=path)
    longer = tacthmc.resume(path, num_steps=400, sampler=sampler, potential=split)
    assert np.array_equal(longer.trace["xi_energy"], whole.trace["xi_energy"])
    assert np.array_equal(longer.state.model.last, whole.state.model.last)
    assert not [p for p in path.rglob("*") if "model_state" in p.name]
    assert np.isfinite(longer.expectation(lambda w: w[0]))
    assert "z_xi" not in [law.name for law in whole.thermostats]


def test_the_model_s_own_state_is_kept_with_draws():
    def counting(w, batch, count):
        x, y = batch
        return y * (x @ w) - jax.nn.softplus(x @ w), count + 1

    counted = tacthmc.posterior(
        log_prior, counting, (X, Y), SIZE, batched=True, model_state=jnp.zeros(())
    )
    sampler, keep = tacthmc.sgld(1e-3), tacthmc.Keep(every=10, after=0)
    run = tacthmc.sample(KEY, sampler, loss_table(counted), jnp.zeros(2), 50, 2, keep=keep)
    assert run.model_states[0].tolist() == [10, 20, 30, 40, 50]


def test_refused():
    with pytest.raises(ValueError, match='needs batches="replacement"'):
        loss_table(model(batches="epochs"))
    with pytest.raises(TypeError, match=r"must be a tacthmc\.posterior itself"):
        loss_table(tacthmc.temper_likelihood(model()))
    with pytest.raises(ValueError, match="control_variates and loss_table do not go together"):
        control_variates(loss_table(model()), jnp.zeros(2))
    with pytest.raises(TypeError, match="which examples a batch has"):
        loss_table(model()).estimate(jnp.zeros(2), (X, Y))
