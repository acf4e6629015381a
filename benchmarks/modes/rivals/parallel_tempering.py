"""Non-reversible parallel tempering from the reference to the target, with MALA on each rung.

The path is log ρ + β·(−U − log ρ) from the reference ρ at β = 0, of which every round draws
afresh, to the target at β = 1. Swaps of even and odd pairs take turns. In the rounds before the one
that counts, each rung adapts its step size, and the ladder is made anew so that all pairs would
reject alike (Syed, Bouchard-Côté, Deligiannidis, Doucet, JRSS B 2022).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.modes.judge import Sample
from benchmarks.modes.rivals.rival import Rival, log_density, needs_exact, starts, thinning
from benchmarks.modes.targets import Target

ROUNDS = (1 / 64, 1 / 32, 1 / 16, 1 / 8)
"""The shares of the budget by which step sizes and ladder are found. They count."""
ACCEPTANCE = 0.574
MIN_SCANS = 8


class Setting(NamedTuple):
    """Numbers of a run of parallel tempering."""

    rungs: int
    """The number of temperatures besides the reference."""
    moves: int
    """The number of steps between swaps."""


SETTINGS = {
    f"{s.rungs} rungs, swap every {s.moves}": s
    for s in (
        Setting(3, 1),
        Setting(5, 1),
        Setting(5, 5),
        Setting(10, 1),
        Setting(10, 5),
        Setting(20, 1),
        Setting(20, 5),
        Setting(40, 1),
        Setting(40, 5),
        Setting(80, 1),
        Setting(80, 5),
    )
}


class Rungs(NamedTuple):
    """The positions on all rungs, from the reference to the target, and their step sizes."""

    position: Any
    log_step: Any


class Counts(NamedTuple):
    """What is learned during a round."""

    rejection: Any
    """The mean rejection probability of each pair of neighbors."""
    ratios: Any
    """The sum over scans of exp((β_{k+1} − β_k)·V) with V = −U − log ρ, as a logarithm."""


def run(target: Target, setting: Setting, budget: float, seeds: Sequence[int]) -> list[Sample]:
    """All seeds side by side, each with its own ladder."""
    per_scan = setting.rungs * setting.moves + 1
    scans = budget / target.full_cost / per_scan
    adapt, record = program(target, setting)
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    positions = jax.vmap(lambda k: starts(target, k, setting.rungs + 1))(keys)
    steps = jnp.full((len(seeds), setting.rungs), np.log(target.scale), positions.dtype)
    rungs, betas = Rungs(positions, steps), np.tile(first_ladder(setting.rungs), (len(seeds), 1))
    spent = 0
    for number, share in enumerate(ROUNDS):
        count = max(MIN_SCANS, int(share * scans))
        now = jax.vmap(lambda k, n=number: jax.random.fold_in(k, n + 1))(keys)
        rungs, counts = adapt(now, rungs, jnp.asarray(betas, positions.dtype), count)
        betas = np.array([spaced(b, r) for b, r in zip(betas, counts.rejection, strict=True)])
        spent += count
    every = thinning(target, int(scans))
    kept = max(MIN_SCANS, int((scans - spent) / every))
    last = jax.vmap(lambda k: jax.random.fold_in(k, 0))(keys)
    counts, draws = record(last, rungs, jnp.asarray(betas, positions.dtype), kept, every)
    cost = (spent + kept * every) * per_scan * target.full_cost
    log_z = np.sum(np.asarray(counts.ratios, float) - np.log(kept * every), axis=1)
    return [
        Sample([chain], cost, log_z=float(one))
        for chain, one in zip(np.asarray(draws), log_z, strict=True)
    ]


def first_ladder(rungs: int) -> np.ndarray:
    """β from 0 to 1, at first geometric from 0.001 on.

    >>> first_ladder(3).round(3).tolist()
    [0.0, 0.001, 0.032, 1.0]
    """
    return np.append(0.0, np.geomspace(1e-3, 1, rungs) if rungs > 1 else [1.0])


def spaced(betas: np.ndarray, rejection: Any) -> np.ndarray:
    """The ladder on which every pair rejects alike, from the rejections on another one.

    >>> spaced(np.array([0.0, 0.5, 1.0]), np.array([0.6, 0.2])).round(2).tolist()
    [0.0, 0.33, 1.0]
    """
    # A little more than what was seen, so that the barrier rises everywhere.
    barrier = np.append(0.0, np.cumsum(np.asarray(rejection, float) + 1e-3))
    found = np.interp(np.linspace(0, barrier[-1], len(betas)), barrier, betas)
    found[0], found[-1] = 0.0, 1.0
    return found


def program(target: Target, setting: Setting) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compiled rounds of all seeds: one that adapts, and one that keeps draws."""
    density, reference = log_density(target), target.reference

    def parts(x: Any) -> tuple[Any, Any]:
        """V = −U − log ρ and log ρ."""
        base = reference.log_density(x)
        return density(x) - base, base

    def tempered(x: Any, beta: Any) -> Any:
        v, base = parts(x)
        return base + beta * v

    def move(key: Any, x: Any, beta: Any, log_step: Any) -> tuple[Any, Any]:
        """One step of MALA, and its acceptance probability.

        The gradient here was computed by the step before: it is not counted twice.
        """
        noise_key, test_key = jax.random.split(key)
        size = jnp.exp(log_step)
        value, slope = jax.value_and_grad(tempered)(x, beta)
        noise = jax.random.normal(noise_key, x.shape, x.dtype)
        there = x + 0.5 * size**2 * slope + size * noise
        new_value, new_slope = jax.value_and_grad(tempered)(there, beta)
        back = (x - there - 0.5 * size**2 * new_slope) / size
        ratio = new_value - value + 0.5 * jnp.sum(noise**2) - 0.5 * jnp.sum(back**2)
        ratio = jnp.where(jnp.isfinite(ratio), ratio, -jnp.inf)
        accepted = jnp.log(jax.random.uniform(test_key, dtype=x.dtype)) < ratio
        return jnp.where(accepted, there, x), jnp.minimum(1.0, jnp.exp(ratio))

    def explored(key: Any, rungs: Rungs, betas: Any, gain: Any) -> Rungs:
        """A fresh draw of the reference, and moves on all other rungs."""
        fresh, rest = jax.random.split(key)

        def moved(carry: Any, now: Any) -> tuple[Any, None]:
            x, log_step = carry
            each = jax.random.split(now, setting.rungs)
            x, accepted = jax.vmap(move)(each, x, betas[1:], log_step)
            return (x, log_step + gain * (accepted - ACCEPTANCE)), None

        carry = rungs.position[1:], rungs.log_step
        (x, log_step), _ = jax.lax.scan(moved, carry, jax.random.split(rest, setting.moves))
        return Rungs(jnp.concatenate([reference.draw(fresh)[None], x]), log_step)

    def scan(carry: Any, key: Any, betas: Any, adapt: bool) -> Any:
        rungs, counts, number = carry
        explore, swap = jax.random.split(key)
        gain = jax.lax.rsqrt(1.0 + number.astype(betas.dtype)) * float(adapt)
        rungs = explored(explore, rungs, betas, gain)
        v = jax.vmap(parts)(rungs.position)[0]
        difference = jnp.diff(betas)
        odds = difference * (v[:-1] - v[1:])
        probability = jnp.where(jnp.isfinite(odds), jnp.minimum(1.0, jnp.exp(odds)), 0.0)
        pairs = jnp.arange(setting.rungs)
        uniform = jax.random.uniform(swap, (setting.rungs,), betas.dtype)
        moved = ((uniform < probability) & (pairs % 2 == number % 2)).astype(int)
        order = jnp.arange(setting.rungs + 1) + jnp.pad(moved, (0, 1)) - jnp.pad(moved, (1, 0))
        ratios = jnp.logaddexp(counts.ratios, difference * v[:-1])
        counts = Counts(counts.rejection + 1 - probability, ratios)
        return Rungs(rungs.position[order], rungs.log_step), counts, number + 1

    def scans(key: Any, carry: Any, betas: Any, count: Any, adapt: bool) -> Any:
        def one(_: Any, carry: Any) -> Any:
            return scan(carry, jax.random.fold_in(key, carry[2]), betas, adapt)

        return jax.lax.fori_loop(0, count, one, carry)

    def begun(rungs: Rungs) -> Any:
        nothing = jnp.zeros_like(rungs.log_step)
        return rungs, Counts(nothing, nothing - jnp.inf), jnp.zeros((), int)

    def mean(counts: Counts, number: Any) -> Counts:
        return Counts(counts.rejection / number.astype(counts.rejection.dtype), counts.ratios)

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0, 0, None))
    def adapt(key: Any, rungs: Rungs, betas: Any, count: Any) -> Any:
        rungs, counts, number = scans(key, begun(rungs), betas, count, True)
        return rungs, mean(counts, number)

    @partial(jax.jit, static_argnums=3)
    @partial(jax.vmap, in_axes=(0, 0, 0, None, None))
    def record(key: Any, rungs: Rungs, betas: Any, kept: Any, every: Any) -> Any:
        def one(carry: Any, _: Any) -> Any:
            carry = scans(key, carry, betas, every, False)
            return carry, carry[0].position[-1]

        (_, counts, number), draws = jax.lax.scan(one, begun(rungs), length=kept)
        return mean(counts, number), draws

    return adapt, record


PARALLEL_TEMPERING = Rival(
    "parallel tempering",
    "non-reversible parallel tempering with MALA, from the reference, ladder and steps adapted",
    SETTINGS,
    run,
    needs_exact,
)
