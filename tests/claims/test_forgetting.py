"""A bias that forgets: it follows a mean that drifts, and without a window nothing changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    BiasInput,
    ContinuousTempering,
    PowerCoupling,
    load_bias,
    save_bias,
)

COUPLING = PowerCoupling()


def learned(bias, energies, xis):
    """The table after these energies at these places, and its mean energies on the way."""

    def step(table, given):
        energy, xi = given
        at = BiasInput(xi, COUPLING.value_and_slope(xi)[1], energy, jnp.zeros((), int))
        table = bias.update(table, at, COUPLING)
        return table, table.mean

    return jax.lax.scan(step, bias.init(jnp.float32), (energies, xis))


def two_places(count):
    return jnp.where(jnp.arange(count) % 4 == 0, 1.5, 0.5)


def test_it_follows_a_drift_in_each_bin_s_own_visits():
    count, window = 8_000, 100.0
    energies = jnp.linspace(1000.0, 0.0, count)
    bias = AdaptiveBiasingForce(bins=10, window=window)
    table, _ = learned(bias, energies, two_places(count))
    everything, _ = learned(AdaptiveBiasingForce(bins=10), energies, two_places(count))
    cold, hot = (int(bias._bin(jnp.asarray(x), COUPLING)) for x in (0.5, 1.5))
    # The lag is the window, in visits of the bin: every fourth step, or three of four.
    slope = 1000.0 / count
    assert float(table.mean[hot]) == pytest.approx(4 * slope * window, rel=0.03)
    assert float(table.mean[cold]) == pytest.approx(4 / 3 * slope * window, rel=0.05)
    assert float(everything.mean[hot]) == pytest.approx(500.0, rel=0.01)
    assert np.array_equal(table.visits, everything.visits)


def test_its_noise_is_that_of_two_windows():
    energies = jax.random.normal(jax.random.key(0), (40_000,))
    _, means = learned(AdaptiveBiasingForce(bins=2, window=50.0), energies, jnp.full(40_000, 0.1))
    assert np.var(np.asarray(means)[500:, 0]) == pytest.approx(1 / (2 * 50 - 1), rel=0.15)


def test_until_the_window_is_full_it_is_the_plain_mean():
    energies = jax.random.normal(jax.random.key(0), (60,))
    tables = [
        learned(AdaptiveBiasingForce(bins=4, **options), energies, two_places(60))[0]
        for options in ({}, {"window": None}, {"window": 60.0})
    ]
    for one in tables[1:]:
        for a, b in zip(tables[0], one, strict=True):
            assert np.array_equal(a, b)


def test_chains_count_by_what_they_remember():
    bias = AdaptiveBiasingForce(bins=2, window=10.0)
    tables = jax.tree.map(
        lambda *x: jnp.stack(x),
        *(
            bias.empty(jnp.float32)._replace(visits=jnp.full(2, n), mean=jnp.full(2, m))
            for n, m in ((1000.0, 4.0), (10.0, 2.0), (0.0, 0.0))
        ),
    )
    pooled = bias.pooled(tables)
    assert pooled.mean.tolist() == [3.0, 3.0]
    assert pooled.visits.tolist() == [1010.0, 1010.0]


@pytest.mark.parametrize("window", [None, 250.0])
def test_saved_and_loaded(tmp_path, window):
    bias = AdaptiveBiasingForce(bins=4, window=window)
    save_bias(tmp_path / "bias.npz", bias, bias.empty(jnp.float32))
    assert load_bias(tmp_path / "bias.npz").window == window


def test_a_sampler_with_it():
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    xi = ContinuousTempering(bias=AdaptiveBiasingForce(window=500.0), step_size=5e-3)
    sampler = tacthmc.tact(0.1, tempering=xi)
    run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(4), 100_000, 8)
    assert abs(np.mean(run.plateau_share) - 0.2) < 0.05
    assert np.mean(run.draws**2) == pytest.approx(1.0, abs=0.1)


def test_refused():
    with pytest.raises(ValueError, match="window must be"):
        AdaptiveBiasingForce(window=0.5)
    with pytest.raises(ValueError, match="window must be a finite number > 0"):
        AdaptiveBiasingForce(window=-1.0)
