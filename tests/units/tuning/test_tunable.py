"""What tuning is given: examples of a stream, and clear refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.potentials import HostBatches
from tacthmc.tuning._tunable import MIN_BATCHES, tunable

DATA = np.random.default_rng(0).normal(1.0, 1.0, (400, 2)).astype(np.float32)
LOADER = HostBatches(DATA, 20, jax.random.key(0))


def log_prior(m):
    return -0.5 * jnp.sum(m**2)


def log_likelihood(m, x):
    return -0.5 * jnp.sum((x - m) ** 2)


def streamed(loader=LOADER, num_data=400):
    return tacthmc.streamed(log_prior, log_likelihood, loader, num_data)


def test_gathered_examples_stand_for_all_data():
    """Each batch counts N/n times, with the N of the stream."""
    held = tunable(streamed(num_data=4_000), progress=False)
    batch = held.batch(jax.random.key(1), jnp.zeros(2))
    assert batch.shape == (20, 2)
    expected = -log_prior(jnp.ones(2)) - 200 * sum(log_likelihood(jnp.ones(2), x) for x in batch)
    assert np.isclose(held.estimate(jnp.ones(2), batch).total, expected, rtol=1e-5)


def test_no_more_is_read_than_the_loader_goes_through_once():
    batches = [DATA[i : i + 20] for i in range(0, 400, 20)]
    held = tunable(streamed(batches), progress=False)
    assert np.array_equal(held.examples, DATA)


def test_large_batches_are_gathered_often_enough():
    wide = [np.zeros((5_000, 1), np.float32)] * 30
    held = tunable(streamed(wide, 150_000), progress=False)
    assert held.examples.shape == (MIN_BATCHES * 5_000, 1)


def test_wrappers_stay():
    held = tunable(tacthmc.temper_likelihood(streamed()), progress=False)
    energy = held.estimate(jnp.ones(2), jnp.asarray(DATA[:20]))
    assert float(energy.fixed) == 1.0


def test_a_loader_that_can_be_read_once_is_refused():
    with pytest.raises(ValueError, match="loader must be an iterable that can be started again"):
        tunable(streamed(x for x in [DATA[:20]]), progress=False)


def test_a_stream_is_tuned_and_sampled():
    """The mean and the width are those of all data, within some ten standard errors."""
    run = tacthmc.sample(
        jax.random.key(0), tacthmc.tact(), streamed(), jnp.zeros(2), 4_000, 4, progress=False
    )
    assert run.tuning is not None
    mean, sd = DATA.sum(0) / 401, 401**-0.5
    assert np.all(np.abs(run.draws.mean((0, 1)) - mean) < 0.7 * sd)
    assert np.all(np.abs(run.draws.std((0, 1)) / sd - 1) < 0.4)
