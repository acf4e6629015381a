"""BlackJAX's NUTS with window adaptation, from many starts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.modes.judge import Sample
from benchmarks.modes.rivals.rival import Rival, log_density, needs_exact, starts, thinning
from benchmarks.modes.targets import Target

WARMUP_SHARE = 0.3
"""The largest share of a chain's budget that adaptation gets."""
TYPICAL_LEAPFROGS = 8
"""The number of leapfrogs by which the number of steps of adaptation is chosen."""
MIN_GRADIENTS = 1_000
"""The smallest number of full-data gradients that a chain is started for."""
BLOCK = 50
"""The number of draws between two looks at the budget."""


class Setting(NamedTuple):
    """Numbers of a run of NUTS."""

    chains: int
    acceptance: float
    warmup: int
    """The largest number of steps of adaptation."""


SETTINGS = {
    f"{s.chains} chain{'s' * (s.chains > 1)}, acceptance {s.acceptance:g}": s
    for s in (
        Setting(1, 0.8, 1_000),
        Setting(4, 0.65, 1_000),
        Setting(4, 0.9, 1_000),
        Setting(16, 0.65, 500),
        Setting(16, 0.9, 500),
        Setting(64, 0.65, 300),
        Setting(64, 0.9, 300),
        Setting(256, 0.65, 150),
        Setting(256, 0.9, 150),
    )
}


def run(target: Target, setting: Setting, budget: float, seeds: Sequence[int]) -> list[Sample]:
    """The chains of all seeds side by side, each until its own share of the budget is spent."""
    each = budget / target.full_cost / setting.chains
    keys = jnp.concatenate([jax.random.split(jax.random.key(s), setting.chains) for s in seeds])
    warmup = max(20, min(setting.warmup, int(WARMUP_SHARE * each / TYPICAL_LEAPFROGS)))
    every = min(BLOCK, thinning(target, int(budget / target.full_cost / TYPICAL_LEAPFROGS)))
    adapt, advance = programs(target, setting, warmup, every)
    states, parameters, spent = adapt(keys)
    spent = np.asarray(spent, float)
    draws, costs, number = [], [spent], 0
    while np.any(costs[-1] < each) and number < each:
        states, positions, leapfrogs = advance(keys, states, parameters, number)
        made = costs[-1][:, None] + np.cumsum(np.asarray(leapfrogs, float), axis=1)
        paid = (made <= each)[:, every - 1 :: every, None]
        draws.append(np.where(paid, np.asarray(positions), np.nan))
        costs.append(made[:, -1])
        number += BLOCK
    if not draws:
        draws = [np.asarray(states.position)[:, None]]
    chains = [_kept(chain) for chain in np.concatenate(draws, axis=1)]
    total = np.minimum(costs[-1], np.maximum(each, spent)) * target.full_cost
    groups = np.arange(len(chains)).reshape(len(seeds), setting.chains)
    return [
        Sample(_thinned(target, [chains[c] for c in group]), float(total[group].sum()))
        for group in groups
    ]


def _kept(chain: np.ndarray) -> np.ndarray:
    """The draws that the budget paid for."""
    return chain[np.isfinite(chain).all(axis=1)]


def _thinned(target: Target, chains: list[np.ndarray]) -> list[np.ndarray]:
    every = thinning(target, sum(map(len, chains)))
    return [chain[::every] for chain in chains]


def programs(target: Target, setting: Setting, warmup: int, every: int) -> tuple[Any, Any]:
    """Compiled functions that adapt all chains, and that make a block of draws, kept thinned."""
    import blackjax
    from blackjax.adaptation.base import get_filter_adapt_info_fn

    density = log_density(target)
    adaptation = blackjax.window_adaptation(
        blackjax.nuts,
        density,
        target_acceptance_rate=setting.acceptance,
        adaptation_info_fn=get_filter_adapt_info_fn(info_keys={"num_integration_steps"}),
    )
    kernel = blackjax.nuts.build_kernel()

    def adapt(key: Any) -> Any:
        start, now = jax.random.split(key)
        position = starts(target, start, 1)[0]
        (state, parameters), info = adaptation.run(now, position, num_steps=warmup)
        parameters = {name: parameters[name] for name in ("step_size", "inverse_mass_matrix")}
        return state, parameters, jnp.sum(info.info.num_integration_steps)

    def advance(key: Any, state: Any, parameters: Any, number: Any) -> Any:
        keys = jax.random.split(jax.random.fold_in(key, 1 + number), BLOCK)

        def one(state: Any, key: Any) -> Any:
            state, info = kernel(key, state, density, **parameters)
            return state, (state.position, info.num_integration_steps)

        state, (positions, leapfrogs) = jax.lax.scan(one, state, keys)
        return state, positions[every - 1 :: every], leapfrogs

    return jax.jit(jax.vmap(adapt)), jax.jit(jax.vmap(advance, (0, 0, 0, None)))


def why_not(target: Target, setting: Setting, budget: float) -> str:
    """Chains have to be long enough to adapt."""
    each = budget / target.full_cost / setting.chains
    short = f"a chain would have {each:,.0f} gradients" if each < MIN_GRADIENTS else ""
    return needs_exact(target, setting, budget) or short


NUTS = Rival(
    "NUTS",
    "BlackJAX's NUTS with window adaptation, from draws of the reference",
    SETTINGS,
    run,
    why_not,
)
