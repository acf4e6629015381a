"""The bare loop: a batch, its gradient and normals per step, which any sampler needs."""

import time
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from benchmarks.speed.clock import Lap, Ready, enough

# Not public: the bare loop's random numbers have to cost what those of a step cost.
from tacthmc.compiler._random import normals, step_keys
from tacthmc.potentials import Potential

Part = Literal["all", "gradient", "normals"]
RATE, SMALL = 1e-6, 1e-6


@eqx.filter_jit
def bare_loop(
    potential: Potential, key: Array, position: Any, steps: Array, part: Part, chains: int
) -> tuple[Any, Array]:
    """Steps of θ ← θ − ε·∇Ũ + δ·normals, or of one part of that; returns θ and ΣŨ.

    "gradient" takes the same batch at every step, "normals" has no gradient. All results are used,
    so that the compiler removes nothing.
    """

    def chain(key: Array) -> tuple[Any, Array]:
        data_key, loop_key = jax.random.split(key)
        batches = potential.batches
        memory = batches.init(data_key)
        fixed = potential.batch(data_key, position)

        def body(i: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            theta, total = carry
            noise_key, batch_key = step_keys(loop_key, i)
            moved = theta
            if part != "normals":
                batch = fixed
                if part == "all":
                    batch = batches.fetch(batches.select(memory, batch_key, theta)[1])
                value, gradient = potential.value_and_grad(theta, batch)
                moved = jax.tree.map(lambda x, g: x - RATE * g, moved, gradient)
                total = total + value
            if part != "gradient":
                # As many as a step of tact draws, with two more for ξ.
                random, extra = normals(noise_key, theta, extra=2)
                moved = jax.tree.map(lambda x, n: x + SMALL * n, moved, random)
                total = total + jnp.sum(extra)
            return moved, total

        zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(position)))
        return jax.lax.fori_loop(0, steps, body, (position, zero))

    return jax.vmap(chain)(jax.random.split(key, chains))


def bare_ready(
    potential: Potential, position: Any, part: Part, *, chains: int, seconds: float, seed: int
) -> Ready:
    """Compile, then find the number of steps that takes about ``seconds``."""
    key = jax.random.key(seed)

    def run(steps: int) -> float:
        begun = time.perf_counter()
        count = jnp.asarray(steps)
        _, total = jax.block_until_ready(bare_loop(potential, key, position, count, part, chains))
        took = time.perf_counter() - begun
        if not bool(jnp.isfinite(total).all()):
            raise FloatingPointError("the bare loop is no longer finite")
        return took

    compile_seconds = run(0)
    run(1)
    steps = enough(run, seconds, unit=5)
    facts = {"steps": steps, "chains": chains}
    return Ready(lambda: Lap(run(steps), steps * chains), compile_seconds, facts)
