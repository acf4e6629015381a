"""Random numbers by counter: their law, and that no two keys share them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

from tacthmc.compiler import _random as generator
from tacthmc.compiler._random import MAX_FLAT_SIZE, normals, step_keys
from tests.budget import PER_CHECK, QUANTILE

COUNT = 2_000_000


def test_words_are_those_of_jax():
    key = jax.random.key(3)
    words = generator.words_of(key)
    counters = jnp.arange(10, dtype=jnp.uint32)
    ours = jnp.concatenate(generator.threefry(words, counters[:5], counters[5:]))
    assert (ours == threefry_2x32(words, counters)).all()


def test_moments_and_distribution_of_normals():
    draws = np.asarray(generator.normal(jax.random.key(0), (COUNT,), jnp.float32), float)
    for power in range(1, 9):
        # E n^k and the variance of n^k, from the moments (2m − 1)!! of a normal.
        truth = 0.0 if power % 2 else float(np.prod(np.arange(1, power, 2)))
        spread = float(np.prod(np.arange(1, 2 * power, 2))) - truth**2
        assert abs(np.mean(draws**power) - truth) < QUANTILE * np.sqrt(spread / COUNT), power
    assert stats.kstest(draws, "norm").pvalue > PER_CHECK


def test_tails_reach_beyond_five():
    """One in 1.7 million lies beyond ±5: a 23-bit uniform would know few such values."""
    draw = jax.jit(lambda key: jnp.sum(jnp.abs(generator.normal(key, (1 << 22,), "float32")) > 5))
    seen = sum(int(draw(jax.random.key(i))) for i in range(8))
    expected = 8 * (1 << 22) * 2 * stats.norm.sf(5)
    low, high = stats.poisson.ppf([PER_CHECK / 2, 1 - PER_CHECK / 2], expected)
    assert low <= seen <= high


def test_the_cosine_is_right_to_rounding():
    turn = np.linspace(-1, 1, 100_001).astype(np.float32)
    over, under = generator._cosine(jnp.asarray(turn))
    error = np.asarray(over / under, float) - np.cos(np.pi * turn.astype(float))
    assert np.abs(error).max() < 5e-7


def test_neighbouring_steps_and_streams_are_independent():
    """Keys of consecutive steps differ in a bit or two; numbers must not know of each other."""
    steps = 40_000

    @jax.jit
    def drawn(key):
        noise, data = jax.vmap(lambda k: step_keys(key, k))(jnp.arange(steps))
        draw = jax.vmap(lambda key: generator.normal(key, (3,), jnp.float32))
        return jnp.concatenate([draw(noise), draw(data)], axis=1)

    both = [np.asarray(drawn(key), float) for key in jax.random.split(jax.random.key(1))]
    columns = np.concatenate(both, axis=1)
    for lag in (0, 1, 2, 4, 1024):
        before, after = columns[: steps - lag], columns[lag:]
        for one, other in ((before, after), (before**2 - 1, after**2 - 1)):
            table = one.T @ other / len(before)
            # Products of two normals have variance 1, of two (n² − 1) variance 4.
            bound = QUANTILE * (1.0 if one is before else 2.0) / np.sqrt(len(before))
            if lag == 0:
                np.fill_diagonal(table, 0.0)
            assert np.abs(table).max() < bound, lag


def test_indices_are_uniform():
    below, count = 1000, 1_000_000
    drawn = np.asarray(generator.indices(jax.random.key(2), count, below))
    seen = np.bincount(drawn, minlength=below)
    assert len(seen) == below
    assert stats.chisquare(seen).pvalue > PER_CHECK


@pytest.mark.parametrize("number", [1, 7, 1 << 16, 112_800, (1 << 31) - 1])
def test_products_of_words_are_exact(number):
    words = np.random.default_rng(0).integers(0, 1 << 32, 1000, dtype=np.uint32)
    high, low = generator._product(jnp.asarray(words), number)
    exact = words.astype(object) * number
    assert (np.asarray(high).astype(object) == exact >> 32).all()
    assert (np.asarray(low).astype(object) == exact % (1 << 32)).all()


def test_leaf_by_leaf_or_all_at_once_is_the_same():
    few = {"a": jnp.zeros((3, 4)), "b": jnp.zeros(5)}
    tree, extra = normals(jax.random.key(0), few, extra=2)
    flat = generator.normal(jax.random.key(0), (19,), jnp.float32)
    assert jnp.array_equal(jnp.concatenate([tree["a"].ravel(), tree["b"], extra]), flat)
    many, last = normals(
        jax.random.key(0), {"a": jnp.zeros(MAX_FLAT_SIZE), "b": jnp.zeros(5)}, extra=1
    )
    flat = generator.normal(jax.random.key(0), (MAX_FLAT_SIZE + 6,), jnp.float32)
    assert jnp.allclose(jnp.concatenate([many["a"], many["b"], last]), flat, atol=1e-6)


def test_double_precision(x64):
    draws = np.asarray(generator.normal(jax.random.key(0), (200_000,), jnp.float64))
    assert draws.dtype == np.float64
    assert stats.kstest(draws, "norm").pvalue > PER_CHECK


def test_keys_of_another_generator():
    key = jax.random.key(0, impl="rbg")
    noise, data = step_keys(key, 3)
    draws = [np.asarray(generator.normal(k, (1000,), jnp.float32)) for k in (noise, data)]
    assert abs(np.corrcoef(*draws)[0, 1]) < QUANTILE / np.sqrt(1000)
