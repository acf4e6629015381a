"""A compiled function that is not waited for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.compiler._async_jit import async_jit


def test_it_returns_before_its_result_is_there():
    @async_jit
    def function(x, turns):
        return jax.lax.fori_loop(0, turns, lambda _, x: x @ x / jnp.max(x), x)

    x = jnp.eye(300)
    function(x, jnp.asarray(1)).block_until_ready()
    # Some seconds of work: to be asked takes far less.
    found = function(x, jnp.asarray(2000))
    assert not found.is_ready()
    assert found.block_until_ready().tolist() == x.tolist()


def test_arrays_are_traced_and_all_else_is_fixed():
    traces = []

    class Part(eqx.Module):
        weight: jax.Array
        name: str = eqx.field(static=True)
        shift: float

    @async_jit
    def function(part, number, extra):
        traces.append(part.name)
        return part.weight * number + part.shift + (0 if extra is None else extra)

    part = Part(jnp.ones(2), "a", 0.5)
    assert function(part, jnp.asarray(2.0), None).tolist() == [2.5, 2.5]
    function(Part(jnp.zeros(2), "a", 0.5), np.float32(3.0), None)
    function(part, jnp.asarray(3.0), None)
    assert len(traces) <= 2  # NumPy's number is strongly typed
    before = len(traces)
    function(Part(jnp.ones(2), "b", 0.5), jnp.asarray(2.0), None)
    function(Part(jnp.ones(2), "a", 0.25), jnp.asarray(2.0), None)
    assert len(traces) == before + 2


def test_what_is_equal_may_not_be_the_same():
    @async_jit
    def kind(x, fixed):
        return x + (10 if fixed is True else 20)

    zero = jnp.zeros(())
    assert [kind(zero, 1).item(), kind(zero, True).item(), kind(zero, 1.0).item()] == [20, 10, 20]
