"""The SGNHT of ``posteriors`` (PyTorch), several chains at once in the ways it allows.

Its thermostat is one scalar for all parameters. Chains of their own therefore need ``torch.vmap``
over its update; as one vector they share a thermostat, which is another sampler, but less work.
"""

import importlib
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.speed.clock import Contestant, Lap, Ready, Skipped, enough
from tacthmc.targets import GaussianMixture

STEP_SIZE, FRICTION = 0.1, 1.0
WAYS = {
    "vmap": "torch.vmap over its update: every chain with its own thermostat",
    "vector": "all chains as one vector with one thermostat in common",
    "vector, in place": "the same, with the state changed in place",
}


def load() -> tuple[Any, Any]:
    """PyTorch and its SGNHT; warnings of its dependencies at import are not ours to show."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch = importlib.import_module("torch")
            sgnht = importlib.import_module("posteriors.sgmcmc.sgnht")
    except ImportError as error:
        raise Skipped(
            "posteriors is not installed: pip install torch==2.13.0 posteriors==0.1.3"
        ) from error
    return torch, sgnht


def stepper(
    torch: Any, sgnht: Any, target: GaussianMixture, way: str, force_noise: float, chains: int
) -> tuple[Any, Callable[[Any], Any]]:
    """The first state, and a function that makes one step of all chains of a 1-D mixture."""
    means = torch.tensor(np.asarray(target.means)[:, 0])
    logs = torch.log(torch.tensor(np.asarray(target.weights)))
    scale = float(target.scale)
    nothing = torch.tensor([])

    def log_posterior(theta: Any, noise: Any) -> tuple[Any, Any]:
        # Any number of chains at once; one alone inside vmap. The noise enters as n·(θ − θ*) at
        # θ* = θ: nothing in the value, n in the gradient.
        exponents = logs - 0.5 * ((theta[..., None] - means) / scale) ** 2
        added = force_noise * (noise * (theta - theta.detach())).sum()
        return torch.logsumexp(exponents, -1).sum() + added, nothing

    made = sgnht.build(log_posterior, lr=STEP_SIZE, alpha=FRICTION)
    if way == "vmap":
        state = torch.vmap(made.init, randomness="different")(torch.zeros(chains, 1))
        update = torch.vmap(lambda s, n: made.update(s, n)[0], randomness="different")
        return state, lambda state: update(state, torch.randn(chains, 1))
    in_place = way == "vector, in place"

    def step(state: Any) -> Any:
        return made.update(state, torch.randn(chains), inplace=in_place)[0]

    return made.init(torch.zeros(chains)), step


def contestants(
    target: GaussianMixture,
    *,
    force_noise: float,
    chains: int,
    seconds: float,
    keep_every: int,
    seed: int,
) -> list[Contestant]:
    """Its SGNHT in every way; a lap takes about ``seconds``."""

    def prepare(way: str) -> Ready:
        torch, sgnht = load()
        torch.manual_seed(seed)
        first, step = stepper(torch, sgnht, target, way, force_noise, chains)

        def run(steps: int) -> float:
            # A copy, since one of the ways changes it.
            state, kept = first.clone(), []
            # Its tensors have a handful of numbers: nothing that threads could share.
            torch.set_num_threads(1)
            begun = time.perf_counter()
            for number in range(steps):
                state = step(state)
                if number % keep_every == 0:
                    kept.append(state.params.clone())
            took = time.perf_counter() - begun
            if not bool(torch.isfinite(torch.stack(kept)).all()):
                raise FloatingPointError("a chain is no longer finite")
            return took

        run(keep_every)
        steps = enough(run, seconds, keep_every)
        facts = {"way": WAYS[way], "steps": steps, "chains": chains}
        return Ready(lambda: Lap(run(steps), steps * chains), None, facts)

    return [Contestant(way, partial(prepare, way)) for way in WAYS]
