"""This package's ``restarted(sgnht)``: a new draw of the reference every so often."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

import tacthmc
from benchmarks.modes.judge import Sample
from benchmarks.modes.rivals.rival import Rival, needs_noise, starts, thinning
from benchmarks.modes.targets import Target

CHAINS = 16


class Setting(NamedTuple):
    """The steps between restarts, and the step size in units of the narrowest sd's square."""

    every: int
    step_size: float


SETTINGS = {
    f"every {every:,} steps, step {step:g}": Setting(every, step)
    for every in (1_000, 5_000, 20_000)
    for step in (0.1, 0.01, 0.001)
}


class Start(eqx.Module):
    """A draw of the reference, as ``restarted`` wants it."""

    reference: Any

    def __call__(self, key: Any) -> Any:
        """A draw."""
        return self.reference.draw(key)


def run(target: Target, setting: Setting, budget: float, seeds: Sequence[int]) -> list[Sample]:
    """The chains of all seeds in one run; what is between two restarts counts as a chain."""
    steps = int(budget / CHAINS)
    every = max(2, thinning(target, steps * CHAINS))
    again = min(setting.every, max(4, steps // 2))
    places = np.concatenate([starts(target, jax.random.key(seed), CHAINS) for seed in seeds])
    sampler = tacthmc.restarted(
        tacthmc.sgnht(setting.step_size * target.scale**2), again, Start(target.reference)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tacthmc.DivergedWarning)
        done = tacthmc.sample(
            jax.random.key(seeds[0]),
            sampler,
            target.potential,
            tacthmc.PerChain(places),
            steps,
            len(places),
            keep=tacthmc.Keep(every=every, after=0),
            progress=False,
        )
    if done.failures:
        # One chain that is no longer finite stops all of them.
        return [Sample([], budget, note=str(done.failures[0])) for _ in seeds]
    # A restart takes place at the beginning of the step after `again`, 2·`again`, …
    numbers = (np.asarray(done.stats["step"]) - 1) // again
    samples = []
    for group in np.arange(len(places)).reshape(len(seeds), CHAINS):
        chains = []
        for c in group:
            draws = done.draws[c]
            cuts = np.flatnonzero(np.diff(numbers[c])) + 1
            chains += [piece for piece in np.split(draws, cuts) if len(piece)]
        samples.append(Sample(chains, float(done.num_steps * CHAINS)))
    return samples


RESTARTS = Rival(
    "restarts",
    "`tacthmc.restarted(sgnht)`, 16 chains, each restart from a draw of the reference",
    SETTINGS,
    run,
    needs_noise,
)
