"""Running sums for log Z: batches of steps, errors, and the terms of noisy energies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacthmc.samplers._replica_sums import BATCHES, RecentSums, bridge_terms, log_ratio
from tests.budget import QUANTILE

RNG = np.random.default_rng(0)


def after(energies, lam):
    """The sums after steps with these energies, by step and rung."""

    def step(sums, tempered):
        now = sums.now.plus(jnp.zeros(1), bridge_terms(tempered, lam), None)
        return sums.after(now), None

    return jax.lax.scan(step, RecentSums.empty(2, jnp.float32), energies)[0]


@pytest.mark.parametrize("steps", [1, 7, 100, 1_000])
def test_sums_are_those_of_the_later_steps(steps):
    lam = jnp.array([1.0, 0.4])
    energies = jnp.asarray(RNG.normal(1e4, 3.0, (steps, 2)), jnp.float32)
    sums = jax.jit(after)(energies, lam)
    full, length = int(sums.full), int(sums.length)
    assert full < BATCHES
    assert full * length + int(sums.now.steps) == steps
    later = np.asarray(energies, float)[full // 4 * length :]
    assert len(later) >= 0.7 * steps
    assert np.isclose(sums.mean("rejected")[0], 0.0)
    top = np.log(np.mean(np.exp(-0.3 * (later[:, 1] - 1e4))))
    bottom = np.log(np.mean(np.exp(0.3 * (later[:, 0] - 1e4))))
    assert log_ratio(sums).value == pytest.approx(top - bottom - 0.6 * 1e4, abs=0.01)


def test_the_error_of_one_chain_and_of_several():
    """Energies that are independent from step to step, in 100 groups of chains."""
    lam, steps = jnp.array([1.0, 0.0]), 400
    # Gaussian energies for which both sides of the bridge are right.
    energies = jnp.asarray(RNG.normal([-0.5, 0.5], size=(400, steps, 2)), jnp.float32)
    sums = jax.jit(jax.vmap(lambda e: after(e, lam)))(energies)
    for size in (1, 4):
        groups = [
            jax.tree.map(lambda x, k=k, n=size: x[k : k + n], sums) for k in range(0, 400, size)
        ]
        found = [log_ratio(one) for one in groups]
        values, errors = (np.array([getattr(f, n) for f in found]) for n in ("value", "error"))
        # The larger one of two errors is on the safe side.
        assert 0.6 < values.std() / np.sqrt(np.mean(errors**2)) < 1.15
        assert abs(values.mean()) < QUANTILE * values.std() / np.sqrt(len(values))


def test_noise_of_the_energy_does_not_bias_log_z():
    """Three estimates at each place, with more noise on the hotter rung."""
    count, lam = 400_000, jnp.array([1.0, 0.0])
    place = RNG.normal([-0.5, 0.5], size=(count, 1, 2))
    seen = jnp.asarray(RNG.normal(place, [0.5, 1.5], (count, 3, 2)), jnp.float32)
    terms = jax.vmap(lambda e: bridge_terms(e[0], lam, e[1:], jnp.asarray(True)))(seen)
    for (exponent, weight), mean, sign in ((terms.above, 0.5, -1), (terms.below, -0.5, 1)):
        values = np.asarray(weight * jnp.exp(exponent), float)[:, 0]
        truth = np.exp(sign * 0.5 * mean + 0.125)
        assert abs(values.mean() - truth) < QUANTILE * values.std() / np.sqrt(count)
    # As it is, a single estimate is off by the noise.
    plain = np.exp(-0.5 * np.asarray(seen[:, 0, 1], float)).mean()
    assert plain == pytest.approx(np.exp(-0.25 + 0.125 + 1.5**2 / 8), rel=0.02)


def test_steps_with_a_swap_in_between_do_not_count():
    lam, ones = jnp.array([1.0, 0.0]), jnp.ones(2)
    terms = bridge_terms(ones, lam, jnp.ones((2, 2)), jnp.asarray(False))
    sums = RecentSums.empty(2, jnp.float32).now.plus(jnp.zeros(1), terms, None)
    assert (int(sums.steps), int(sums.seen), float(sums.above.rest[0])) == (1, 0, 0.0)
