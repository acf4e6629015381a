"""This package's ``replica_exchange`` with ladders set by hand."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import tacthmc
from benchmarks.modes.judge import Sample
from benchmarks.modes.rivals.blackjax_gradients import descended
from benchmarks.modes.rivals.rival import Rival, starts, thinning
from benchmarks.modes.targets import Target
from tacthmc.potentials import measure_noise

CHAINS, BURN, FRICTION, SWAP_EVERY = 4, 0.2, 0.3, 5


class Setting(NamedTuple):
    """Numbers of a ladder, and the step size in units of the square of the narrowest sd."""

    replicas: int
    hottest: float
    step_size: float


LADDERS = ((4, 10), (8, 10), (8, 100), (16, 100), (16, 1_000), (32, 10))
EXACT_STEPS, NOISY_STEPS = (0.4, 0.1), (0.1, 0.01, 0.001)
SETTINGS = {
    f"{replicas} replicas to T = {hottest:g}, step {step:g}": Setting(replicas, hottest, step)
    for step in sorted({*EXACT_STEPS, *NOISY_STEPS}, reverse=True)
    for replicas, hottest in LADDERS
}


def why_not(target: Target, setting: Setting, budget: float) -> str:
    """Small steps are for noisy gradients, large ones for exact gradients."""
    del budget
    steps = EXACT_STEPS if target.kind == "exact" else NOISY_STEPS
    return "" if setting.step_size in steps else f"steps here are {', '.join(map(str, steps))}"


def sampler(target: Target, setting: Setting) -> Any:
    """The sampler; the variance of its forces' noise was measured beforehand."""
    noisy = target.kind != "exact"
    variance = 0.0
    if noisy:
        places = target.scale * descended(target, jax.random.split(jax.random.key(1), 4), 2_000)
        found = [measure_noise(jax.random.key(2), target.potential, x).mean_force for x in places]
        # More than all of the injected noise cannot be taken off.
        step = setting.step_size * target.scale**2
        variance = min(float(np.mean(found)), 1.9 * FRICTION / step)
    return tacthmc.replica_exchange(
        setting.step_size * target.scale**2,
        temperatures=tuple(float(t) for t in np.geomspace(1, setting.hottest, setting.replicas)),
        swap_every=SWAP_EVERY,
        noise=FRICTION,
        noise_estimate=variance,
        energy_noise="measured" if noisy else 0.0,
    )


def run(target: Target, setting: Setting, budget: float, seeds: Sequence[int]) -> list[Sample]:
    """The chains of all seeds in one run, each from a draw of the reference."""
    steps = max(10, int(budget / CHAINS / setting.replicas))
    every = thinning(target, steps * CHAINS)
    places = np.concatenate([starts(target, jax.random.key(seed), CHAINS) for seed in seeds])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tacthmc.DivergedWarning)
        done = tacthmc.sample(
            jax.random.key(seeds[0]),
            sampler(target, setting),
            target.potential,
            tacthmc.PerChain(places),
            steps,
            len(places),
            keep=tacthmc.Keep(every=every, after=int(BURN * steps)),
            progress=False,
        )
    if done.failures:
        # One chain that is no longer finite stops all of them.
        return [Sample([], budget, note=str(done.failures[0])) for _ in seeds]
    cost = float(done.num_steps * CHAINS * setting.replicas)
    groups = np.arange(len(places)).reshape(len(seeds), CHAINS)
    return [Sample([done.all_draws[c] for c in group], cost) for group in groups]


REPLICAS = Rival(
    "replica_exchange",
    "`tacthmc.replica_exchange` with a ladder set by hand, 4 chains from draws of the reference",
    SETTINGS,
    run,
    why_not,
)
