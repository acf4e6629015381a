"""BlackJAX's stochastic-gradient samplers, with the loop around them written in several ways.

A kernel of BlackJAX makes one step; its user writes the loop around it. How that loop makes its
keys and what it keeps decides the speed in low dimension, so every way is measured and the fastest
counts. The noise of the gradient stands for the mini-batch, which a kernel takes as an argument.

``tacthmc.configure_cpu`` changes settings of the compiler for the whole process, and so makes
BlackJAX's loops several times faster too. A user of BlackJAX alone does not have these settings:
:mod:`benchmarks.speed.plain` measures the loops without them.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from benchmarks.speed.clock import Contestant, Lap, Ready, Skipped

STEP_SIZE, FRICTION = 0.1, 1.0


class Way(NamedTuple):
    """How a loop is written."""

    keys: str
    nested: bool
    """Whether only every K-th position is kept, by a scan inside a scan."""
    about: str


WAYS = (
    Way("before", False, "keys split and noise drawn before the scan, all positions kept"),
    Way("before", True, "keys split and noise drawn before nested scans, every K-th kept"),
    Way("carried", False, "key carried and split in the scan, all positions kept"),
    Way("carried", True, "key carried and split in nested scans, every K-th kept"),
    Way("folded", False, "step number folded into the key, noise indexed, all positions kept"),
    Way("folded", True, "step number folded into the key, noise indexed, every K-th kept"),
    Way("blocks", True, "keys split and noise drawn K steps at a time, every K-th kept"),
)


class Kernel(NamedTuple):
    """One of BlackJAX's samplers; ``gradients`` are the steps that one call of it makes."""

    init: Callable[..., Any]
    step: Callable[..., Any]
    gradients: int


def kernel(name: str, energy: Callable[[Array], Array], force_noise: float) -> Kernel:
    """sgnht, sghmc or sgld on exp(−energy), with a gradient that carries noise.

    A call of its sghmc makes ten steps with fresh momenta first, and one batch for all ten: a
    tenth of the noise that the others draw. Its steps are counted, not its calls.
    """
    try:
        import blackjax
    except ImportError as error:
        raise Skipped("BlackJAX is not installed: pip install 'tacthmc[blackjax]'") from error

    def gradient(position: Array, noise: Array) -> Array:
        return force_noise * noise - jax.grad(energy)(position)

    size = STEP_SIZE**2 if name == "sgld" else STEP_SIZE
    inner = 10 if name == "sghmc" else 1
    made: Any = {
        "sgnht": lambda: blackjax.sgnht(gradient, FRICTION),
        "sghmc": lambda: blackjax.sghmc(gradient, inner, FRICTION),
        "sgld": lambda: blackjax.sgld(gradient),
    }[name]()

    def step(key: Array, state: Any, noise: Array) -> Any:
        return made.step(key, state, noise, size)

    return Kernel(made.init, step, inner)


def loop(kernel: Kernel, way: Way, steps: int, keep_every: int) -> Callable[[Array, Array], Array]:
    """A function from a key and a first position to the kept positions of one chain."""
    calls, block = steps // kernel.gradients, max(1, keep_every // kernel.gradients)

    def chain(key: Array, position: Array) -> Array:
        start, rest, noise_key = jax.random.split(key, 3)
        state = kernel.init(position, start)
        if way.keys == "blocks":
            return _blocks(kernel, state, rest, position.shape, calls // block, block)
        noise = jax.random.normal(noise_key, (calls, *position.shape))
        xs: Any = noise
        carry: Any = state
        if way.keys == "before":
            xs = (jax.random.split(rest, calls), noise)

            def one(carry: Any, x: Any) -> Any:
                return kernel.step(x[0], carry, x[1])
        elif way.keys == "carried":
            carry = (state, rest)

            def one(carry: Any, x: Any) -> Any:
                state, key = carry
                key, now = jax.random.split(key)
                return kernel.step(now, state, x), key
        else:
            xs = jnp.arange(calls)

            def one(carry: Any, x: Any) -> Any:
                return kernel.step(jax.random.fold_in(rest, x), carry, noise[x])

        position_of = (lambda c: _position(c[0])) if way.keys == "carried" else _position
        if not way.nested:
            return jax.lax.scan(partial(_kept, one, position_of), carry, xs)[1]
        xs = jax.tree.map(lambda x: x.reshape(calls // block, block, *x.shape[1:]), xs)

        def outer(carry: Any, xs: Any) -> tuple[Any, Array]:
            carry = jax.lax.scan(lambda c, x: (one(c, x), None), carry, xs)[0]
            return carry, position_of(carry)

        return jax.lax.scan(outer, carry, xs)[1]

    return chain


def _kept(one: Any, position_of: Any, carry: Any, x: Any) -> tuple[Any, Array]:
    carry = one(carry, x)
    return carry, position_of(carry)


def _blocks(
    kernel: Kernel, state: Any, key: Array, shape: tuple[int, ...], count: int, block: int
) -> Array:
    def outer(state: Any, key: Array) -> tuple[Any, Array]:
        first, second = jax.random.split(key)
        xs = (jax.random.split(first, block), jax.random.normal(second, (block, *shape)))
        state = jax.lax.scan(lambda s, x: (kernel.step(x[0], s, x[1]), None), state, xs)[0]
        return state, _position(state)

    return jax.lax.scan(outer, state, jax.random.split(key, count))[1]


def _position(state: Any) -> Array:
    return getattr(state, "position", state)


def contestants(
    name: str,
    energy: Callable[[Array], Array],
    init: Array,
    *,
    force_noise: float,
    chains: int,
    steps: int,
    keep_every: int,
    seed: int,
) -> list[Contestant]:
    """One of its samplers in every way."""

    def prepare(way: Way) -> Ready:
        made = kernel(name, energy, force_noise)
        keys = jax.random.split(jax.random.key(seed), chains)
        positions = jnp.broadcast_to(init, (chains, *init.shape))
        begun = time.perf_counter()
        lowered = jax.jit(jax.vmap(loop(made, way, steps, keep_every))).lower(keys, positions)
        run = lowered.compile()
        compile_seconds = time.perf_counter() - begun
        # Once before the clock runs: memory is touched for the first time here.
        kept = jax.block_until_ready(run(keys, positions))
        if not bool(jnp.isfinite(kept).all()):
            raise FloatingPointError("a chain is no longer finite")

        def go() -> Lap:
            begun = time.perf_counter()
            jax.block_until_ready(run(keys, positions))
            return Lap(time.perf_counter() - begun, steps * chains)

        facts = {"way": way.about, "steps": steps, "chains": chains}
        return Ready(go, compile_seconds, facts)

    return [Contestant(way_name(way), partial(prepare, way)) for way in WAYS]


def way_name(way: Way) -> str:
    """A short name of a way."""
    return f"{way.keys}{', nested' if way.nested and way.keys != 'blocks' else ''}"
