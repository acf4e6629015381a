"""The SGHMC of ``posteriors`` (PyTorch), many chains as one tensor.

Its update treats every number alike, so the rows of one tensor are independent chains. Gradients
come from JAX, and reach it as log p = ⟨g, θ⟩ with g = ∇log p(θ) of this step's batch.
"""

import importlib
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.modes.judge import Sample
from benchmarks.modes.rivals.blackjax_gradients import (
    BURN,
    DESCENT,
    HAMILTONIAN_SETTINGS,
    Setting,
    descended,
    estimated,
    noise_variance,
)
from benchmarks.modes.rivals.rival import Rival, needs_noise, thinning
from benchmarks.modes.targets import Target

CHAINS = 64


def load() -> tuple[Any, Any]:
    """PyTorch and the sampler; warnings of their imports are not ours to show."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("torch"), importlib.import_module("posteriors.sgmcmc.sghmc")


def run(target: Target, setting: Setting, budget: float, seeds: Sequence[int]) -> list[Sample]:
    """The chains of all seeds as rows of one tensor, in z = θ/scale."""
    torch, sghmc = load()
    torch.manual_seed(seeds[0])
    count = CHAINS * len(seeds)
    keys = jnp.concatenate([jax.random.split(jax.random.key(seed), CHAINS) for seed in seeds])
    descent = max(1, int(DESCENT * budget / CHAINS))
    places = descended(target, keys, descent)
    steps = max(2, int(budget / CHAINS) - descent)
    every = thinning(target, steps * CHAINS)
    nothing = torch.tensor([])
    made = sghmc.build(
        lambda z, slope: (torch.sum(slope * z), nothing),
        lr=setting.step_size,
        alpha=setting.friction,
        beta=setting.removed(noise_variance(target, places)),
    )

    @jax.jit
    def slopes(z: Any, number: Any) -> Any:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seeds[0]), number), count)
        return jax.vmap(estimated(target))(z, keys)

    state, kept = made.init(torch.tensor(np.array(places))), []
    for number in range(steps):
        slope = np.array(slopes(jnp.asarray(state.params.numpy()), number))
        state, _ = made.update(state, torch.from_numpy(slope))
        if number >= BURN * steps and number % every == 0:
            kept.append(target.scale * state.params.numpy())
    draws = np.stack(kept, axis=1)
    return [
        Sample(list(some), float((descent + steps) * CHAINS))
        for some in draws.reshape(len(seeds), CHAINS, *draws.shape[1:])
    ]


def why_not(target: Target, setting: Any, budget: float) -> str:
    """It is optional."""
    if reason := needs_noise(target, setting, budget):
        return reason
    try:
        load()
    except ImportError:
        return "posteriors is not installed"
    return ""


POSTERIORS = Rival(
    "posteriors SGHMC",
    "the SGHMC of `posteriors`, 64 chains, begun with Adam from draws of the reference",
    HAMILTONIAN_SETTINGS,
    run,
    why_not,
)
