"""θ half a drift ahead between draws: the same steps, in small and in large positions."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.compiler._materialize import MANY, with_sum
from tacthmc.dynamics import Splitting
from tacthmc.run import _chunk as chunk
from tacthmc.run import _plan as plan
from tests.table import SAMPLERS, minibatched, noisy, same, start

LEADING = [name for name, make in SAMPLERS.items() if make(0.01).can_lead]


class Halting(Splitting):
    """Moves nothing."""

    def advance(self, parts, now, noise, state, *rest):
        moved = super().advance(parts, now, noise, state, *rest)
        return moved._replace(state=replace(moved.state, position=state.position))


def steps(sampler, count, led):
    """So many steps, one by one."""
    potential, key = noisy(), jax.random.key(1)
    state = sampler.init(jax.random.key(0), start())
    for k in range(count):
        if led and k % sampler.keep_every == 0:
            state = sampler.led(state)
        noise_key, data_key = jax.random.split(jax.random.fold_in(key, k))
        _, selection = potential.select((), data_key, state.position)
        noise = sampler.noise(noise_key, state.position)
        advance = sampler.advance_led if led else sampler.advance
        state, info = advance(noise, state, potential, potential.fetch(selection))
    return state, info


@pytest.mark.parametrize("name", ["tact", "sgnht"])
def test_the_same_to_the_last_bit(name):
    sampler = SAMPLERS[name](0.01)
    for plain, led in zip(
        *(jax.tree.leaves(steps(sampler, 2 * sampler.keep_every, led)) for led in (False, True)),
        strict=True,
    ):
        np.testing.assert_array_equal(plain, led)


def test_between_draws_it_is_ahead_by_half_a_drift():
    sampler = SAMPLERS["tact"](0.01)
    (plain, _), (led, _) = (steps(sampler, 3, led) for led in (False, True))
    same(led.position, sampler.led(plain).position, 1e-6)
    assert not np.array_equal(led.position["a"], plain.position["a"])


def test_who_can():
    assert set(LEADING) >= {"tact", "tact-matrix", "tact-swept", "sgnht", "sghmc"}
    others = {"tact-euler", "tact-breathing", "tact-heated-block", "sgld", "adam", "restarted"}
    assert not others & set(LEADING)
    assert not tacthmc.sgnht(lambda step: 0.01 / (1 + step)).can_lead
    # Nobody knows what a part of your own does with half a drift.
    assert not tacthmc.sgnht(0.01, integrator=Halting()).can_lead
    with pytest.raises(TypeError, match="whole steps only"):
        tacthmc.sgld(0.01).led(None)
    with pytest.raises(TypeError, match="whole steps only"):
        tacthmc.sgld(0.01).advance_led(None, None, noisy(), ())


@pytest.mark.parametrize("name", ["tact", "tact-swept", "sgnht", "sghmc"])
def test_a_run_is_the_same(name, monkeypatch):
    """Of positions so large that random numbers are drawn a step at a time."""

    def run():
        sampler, potential = SAMPLERS[name](0.01), minibatched("replacement")
        return tacthmc.sample(jax.random.key(0), sampler, potential, start(), 40, 2, num_warmup=0)

    plain = run()
    monkeypatch.setattr(chunk, "BLOCK_NUMBERS", 1)
    # Another shape, for which the program is made anew.
    monkeypatch.setattr(plan, "CHUNK_INTERVALS", 7)
    led = run()
    for column in plain.trace:
        same(plain.trace[column][:, :2], led.trace[column][:, :2], 1e-3)
    same(plain.state.position, led.state.position, 1e-2)


def test_a_large_run_with_an_integrator_of_your_own():
    sampler, target = tacthmc.sgnht(0.01, integrator=Halting()), tacthmc.potential(jnp.sum)
    run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(20_000), 100, num_warmup=0)
    assert not np.any(run.draws)


@pytest.mark.parametrize("size", [3, MANY])
def test_new_momenta_and_their_sum_with_the_old(size):
    old, new = (jax.random.normal(jax.random.key(k), (size,)) for k in range(2))
    found, both = jax.jit(with_sum)(new, old)
    np.testing.assert_allclose(both, old + new, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found, new, rtol=1e-6, atol=1e-6)
    spoilt = new.at[0].set(jnp.inf)
    assert not np.isfinite(np.asarray(with_sum(spoilt, old)[0])).all()
