"""BlackJAX's nested slice sampling."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.modes.judge import Sample
from benchmarks.modes.rivals.rival import Rival, log_density, needs_exact, starts
from benchmarks.modes.targets import Target

MAX_DIMENSION = 20
"""The largest dimension. Beyond it a budget of some millions does not pay for a few live points."""
PILOT_LIVE, PILOT_SEED, MIN_LIVE, MAX_LIVE = 100, 1_000_003, 40, 20_000
"""A short run says what a live point costs. It is not counted."""
END = -3.0
"""Log of the share of the evidence that live points may still have at the end."""
OVERRUN = 1.5
"""The number of budgets after which a run is given up."""


class Setting(NamedTuple):
    """Numbers of a run of nested sampling."""

    inner: float
    """The number of slices for a new point, in dimensions; at least 2."""
    deleted: float
    """The share of live points that is replaced at once."""


SETTINGS = {
    f"{s.inner:g}·D slices, {s.deleted:.0%} at once": s
    for s in (
        Setting(0.5, 0.1),
        Setting(0.5, 0.5),
        Setting(1, 0.1),
        Setting(1, 0.5),
        Setting(2, 0.1),
        Setting(2, 0.5),
        Setting(4, 0.1),
        Setting(4, 0.5),
    )
}


def run(target: Target, setting: Setting, budget: float, seeds: Sequence[int]) -> list[Sample]:
    """As many live points as the budget pays for."""
    pilot = nested(target, setting, PILOT_LIVE, PILOT_SEED, budget)
    live = int(np.clip(budget * PILOT_LIVE / pilot.gradients, MIN_LIVE, MAX_LIVE))
    return [nested(target, setting, live, seed, budget) for seed in seeds]


def nested(target: Target, setting: Setting, live: int, seed: int, budget: float) -> Sample:
    """Shrink the prior until the live points hold little of the evidence."""
    import blackjax
    from blackjax.ns.utils import finalise, log_weights

    density, reference = log_density(target), target.reference
    algorithm = blackjax.nss(
        reference.log_density,
        lambda x: density(x) - reference.log_density(x),
        num_inner_steps=max(2, round(setting.inner * target.dimension)),
        num_delete=max(1, int(setting.deleted * live)),
    )
    first, second, weigh, key = jax.random.split(jax.random.key(seed), 4)
    state = algorithm.init(starts(target, first, live), second)
    step = jax.jit(algorithm.step)
    dead, spent = [], float(live)
    while float(state.integrator.logZ_live - state.integrator.logZ) > END:
        key, now = jax.random.split(key)
        state, info = step(now, state)
        # An evaluation at each end of the bracket, each expansion and each shrinking.
        slices = info.update_info
        spent += float(np.sum(np.asarray(slices.num_expansions + slices.num_shrink) + 2))
        dead.append(info)
        if spent * target.full_cost > OVERRUN * budget:
            return Sample([], spent * target.full_cost, note="the budget ended before the run")
    whole = finalise(state, dead, update_info=False)
    weights = np.asarray(log_weights(weigh, whole), float)
    log_z = np.logaddexp.reduce(weights, axis=0).mean()
    mean = weights.mean(axis=1)
    return Sample(
        [np.asarray(whole.particles.position)],
        spent * target.full_cost,
        weights=np.exp(mean - mean.max()),
        is_population=True,
        log_z=float(log_z),
    )


def why_not(target: Target, setting: Any, budget: float) -> str:
    """Nested sampling is for few dimensions."""
    large = f"more than {MAX_DIMENSION} dimensions" if target.dimension > MAX_DIMENSION else ""
    return needs_exact(target, setting, budget) or large


NESTED = Rival(
    "nested sampling",
    "BlackJAX's nested slice sampling `nss`, prior = reference",
    SETTINGS,
    run,
    why_not,
)
