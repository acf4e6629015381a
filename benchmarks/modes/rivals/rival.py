"""What a contestant of ``modes`` is, and what contestants share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.modes.judge import Sample
from benchmarks.modes.targets import Target
from tacthmc.potentials import Posterior

MIN_FULL_GRADIENTS = 2_000
"""The number of full-data gradients below which a sampler that needs them is not tried."""
MAX_NUMBERS = 20_000_000
"""The number of coordinates of all draws of a repeat that are kept."""
MAX_DRAWS = 100_000
"""The largest number of draws of a repeat that are kept."""


class Rival(NamedTuple):
    """A sampler with a grid of settings, of which the best one counts."""

    name: str
    about: str
    settings: Mapping[str, Any]
    run: Callable[[Target, Any, float, Sequence[int]], list[Sample]]
    """From a target, a setting, a budget in gradients and seeds to one sample for each seed."""
    why_not: Callable[[Target, Any, float], str]
    """Why it cannot run on a target in a setting with a budget; empty if it can."""


def needs_exact(target: Target, setting: Any, budget: float) -> str:
    """Why a sampler with a Metropolis test or with weights cannot run.

    >>> from benchmarks.modes.targets import target
    >>> needs_exact(target("wells"), None, 1e6)
    'it needs exact energies'
    """
    del setting
    if target.kind == "noisy":
        return "it needs exact energies"
    if budget / target.full_cost < MIN_FULL_GRADIENTS:
        return f"a full-data gradient costs {target.full_cost:,.0f} of those counted"
    return ""


def needs_noise(target: Target, setting: Any, budget: float) -> str:
    """Stochastic-gradient samplers run where gradients are noisy.

    >>> from benchmarks.modes.targets import target
    >>> needs_noise(target("banana"), None, 1e6)
    'gradients are exact'
    """
    del setting, budget
    return "gradients are exact" if target.kind == "exact" else ""


def log_density(target: Target) -> Callable[[Any], Any]:
    """−U(θ) of all data, in one piece."""
    potential = target.potential
    if not isinstance(potential, Posterior):
        return lambda x: -potential.energy(x)
    prior, likelihood, data = potential.log_prior, potential.log_likelihood, potential.data
    return lambda x: prior(x) + jnp.sum(likelihood(x, data))


def starts(target: Target, key: Any, count: int) -> Any:
    """Over-dispersed starts: draws from the reference."""
    return jax.vmap(target.reference.draw)(jax.random.split(key, count))


def thinning(target: Target, draws: int) -> int:
    """K, so that no more than what fits is kept of so many draws.

    >>> from benchmarks.modes.targets import target
    >>> thinning(target("banana"), 1_000_000)
    10
    """
    room = min(MAX_DRAWS, MAX_NUMBERS // target.dimension)
    return max(1, -(-draws // room))


def runs_always(target: Target, setting: Any, budget: float) -> str:
    """A sampler that runs on all targets."""
    del target, setting, budget
    return ""
