"""When an array is there."""

import time

import jax
import jax.numpy as jnp

from tacthmc.compiler._async_jit import async_jit
from tacthmc.run._driver import Completion


@async_jit
def _work(x, turns):
    return jax.lax.fori_loop(0, turns, lambda _, x: x @ x / jnp.max(x), x)


def test_a_host_that_waits_learns_when_it_was_computed():
    x = jnp.eye(300)
    _work(x, jnp.asarray(1)).block_until_ready()
    launched = time.perf_counter()
    found = _work(x, jnp.asarray(200))
    assert not found.is_ready()
    at = Completion(found).wait()
    assert found.is_ready()
    assert launched < at <= time.perf_counter()


def test_a_host_that_looks_late_learns_the_same():
    ready = Completion(jnp.ones(3).block_until_ready())
    ready.wait()
    looked = time.perf_counter()
    assert ready.wait() < looked
    assert ready.wait() == ready.wait()


def test_an_error_is_left_to_the_reader_of_the_array():
    array = jnp.ones(3)
    array.delete()
    assert Completion(array).wait() <= time.perf_counter()
