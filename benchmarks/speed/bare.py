"""The bare loop: what any sampler on mini-batches has to do, and nothing else."""

import time
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from benchmarks.speed.clock import Lap, Completion, enough
from tacthmc._typing import PRNGKey
from tacthmc.compiler._random import step_keys
from tacthmc.compiler._random import normals
from tacthmc.potentials._base import Potential

Part = Literal["all", "gradient", "normals"]
RATE, SMALL = 1e-6, 1e-6


@eqx.filter_jit
def bare_loop(
    potential: Potential, key: PRNGKey, position: Any, steps: Array, part: Part, chains: int
) -> tuple[Any, Array]:
    """So many steps of θ ← θ − ε·∇Ũ + δ·normals, of all that or of one part; θ, and ΣŨ.

    "gradient" takes the same batch each time, "normals" has no gradient. All results are used,
    so that the compiler cannot leave anything out.
    """

    def chain(key: PRNGKey) -> tuple[Any, Array]:
        data_key, loop_key = jax.random.split(key)
        memory = potential.init_data(data_key)
        fixed = potential.batch(data_key, position)

        def body(i: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            theta, total = carry
            noise_key, batch_key = step_keys(loop_key, i)
            moved = theta
            if part != "normals":
                batch = fixed
                if part == "all":
                    batch = potential.fetch(potential.select(memory, batch_key, theta)[1])
                value, gradient = potential.value_and_grad(theta, batch)
                moved = jax.tree.map(lambda x, g: x - RATE * g, moved, gradient)
                total = total + value
            if part != "gradient":
                # As many as a step of tact draws: two more, for ξ.
                random, extra = normals(noise_key, theta, extra=2)
                moved = jax.tree.map(lambda x, n: x + SMALL * n, moved, random)
                total = total + jnp.sum(extra)
            return moved, total

        zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(position)))
        return jax.lax.fori_loop(0, steps, body, (position, zero))

    return jax.vmap(chain)(jax.random.split(key, chains))


def bare_ready(
    potential: Potential, position: Any, part: Part, *, chains: int, seconds: float, seed: int
) -> Completion:
    """Compile, then find how many steps take about so long."""
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
    return Completion(lambda: Lap(run(steps), steps * chains), compile_seconds, facts)
