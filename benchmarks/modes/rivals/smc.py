"""BlackJAX's adaptive tempered SMC from the reference, with HMC inside."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.modes.judge import Sample
from benchmarks.modes.rivals.rival import Rival, log_density, needs_exact, starts
from benchmarks.modes.targets import Target

PILOT_PARTICLES, PILOT_SEED = 256, 1_000_003
"""A short run that says how many temperatures there are. It is not counted."""
MIN_PARTICLES, MAX_TEMPERATURES = 32, 1_000
ACCEPTANCE = 0.8
"""The acceptance rate to which the step size is led from one temperature to the next."""


class Setting(NamedTuple):
    """Numbers of a run of SMC."""

    leapfrogs: int
    moves: int
    """Metropolis tests at each temperature."""
    target_ess: float


SETTINGS = {
    f"{s.leapfrogs} leapfrogs × {s.moves}, ESS {s.target_ess:g}": s
    for s in (
        Setting(4, 1, 0.9),
        Setting(4, 3, 0.9),
        Setting(8, 1, 0.9),
        Setting(8, 3, 0.9),
        Setting(4, 6, 0.5),
        Setting(8, 3, 0.5),
        Setting(8, 6, 0.5),
        Setting(16, 3, 0.5),
        Setting(16, 1, 0.9),
        Setting(32, 2, 0.8),
    )
}


def cost(target: Target, setting: Setting, temperatures: int) -> float:
    """Gradients of one particle: its leapfrogs, and one evaluation at each temperature.

    That one serves the weights, the next temperature and the first half of the first leapfrog.
    BlackJAX computes these apart, which is not held against it.
    """
    return temperatures * (setting.leapfrogs * setting.moves + 1) * target.full_cost


def run(target: Target, setting: Setting, budget: float, seeds: Sequence[int]) -> list[Sample]:
    """As many particles as the budget pays for."""
    step = make_step(target, setting)
    temperatures = anneal(target, setting, step, PILOT_PARTICLES, PILOT_SEED)[1]
    particles = max(MIN_PARTICLES, int(budget / cost(target, setting, temperatures)))
    samples = []
    for seed in seeds:
        sample, _ = anneal(target, setting, step, particles, seed)
        samples.append(sample)
    return samples


def make_step(target: Target, setting: Setting) -> Any:
    """A compiled step from one temperature to the next."""
    import blackjax
    import blackjax.smc.resampling as resampling

    def log_likelihood(x: Any) -> Any:
        return log_density(target)(x) - target.reference.log_density(x)

    kernel = blackjax.adaptive_tempered_smc.build_kernel(
        target.reference.log_density,
        log_likelihood,
        partial(blackjax.hmc.build_kernel(), num_integration_steps=setting.leapfrogs),
        blackjax.hmc.init,
        resampling.systematic,
        setting.target_ess,
    )

    @jax.jit
    def step(key: Any, state: Any, step_size: Any, variances: Any) -> Any:
        parameters = {"step_size": step_size[None], "inverse_mass_matrix": variances[None]}
        state, info = kernel(key, state, setting.moves, parameters)
        accepted = jnp.mean(info.update_info.acceptance_rate)
        changed = step_size * jnp.exp(accepted - ACCEPTANCE)
        return state, info.log_likelihood_increment, changed

    return step


def anneal(
    target: Target, setting: Setting, step: Any, particles: int, seed: int
) -> tuple[Sample, int]:
    """From the reference to the target, and the number of temperatures on the way.

    The particles at the end are those of the last temperature but one. Their final weights make
    them draws of the target.
    """
    import blackjax

    first, key = jax.random.split(jax.random.key(seed))
    drawn = starts(target, first, particles)
    state = blackjax.adaptive_tempered_smc.init(drawn)
    step_size = jnp.asarray(target.dimension**-0.25, drawn.dtype)
    temperatures, log_z = 0, 0.0
    while float(state.tempering_param) < 1 and temperatures < MAX_TEMPERATURES:
        key, now = jax.random.split(key)
        variances = jnp.var(state.particles, axis=0)
        state, increment, step_size = step(now, state, step_size, variances)
        temperatures, log_z = temperatures + 1, log_z + float(increment)
    weights = np.asarray(state.weights, float)
    if not np.isfinite(weights).all() or float(state.tempering_param) < 1:
        spent = particles * cost(target, setting, temperatures)
        return Sample([], spent, note="the weights are not finite"), temperatures
    sample = Sample(
        [np.asarray(state.particles)],
        particles * cost(target, setting, temperatures),
        weights=weights,
        is_population=True,
        log_z=log_z,
    )
    return sample, temperatures


SMC = Rival(
    "SMC",
    "BlackJAX's `adaptive_tempered_smc` with HMC, from the reference",
    SETTINGS,
    run,
    needs_exact,
)
