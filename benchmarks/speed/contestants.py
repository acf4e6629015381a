"""The contestants on the 1-D mixture: our samplers, and every way to write a peer's loop."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp

import tacthmc
from benchmarks.speed import blackjax_loops, posteriors_loops
from benchmarks.speed.clock import Contestant
from benchmarks.speed.ours import Driven
from tacthmc.dynamics import Sampler

STEP_SIZE, FORCE_NOISE, ENERGY_NOISE, START = 1e-2, 3.0, 1.0, -4.0
OURS: dict[str, Callable[..., Sampler]] = {
    "tact": tacthmc.tact,
    "sgnht": tacthmc.sgnht,
    "sghmc": tacthmc.sghmc,
    "sgld": tacthmc.sgld,
}


@dataclass(frozen=True)
class Config:
    """Sizes; a lap of ours and of PyTorch takes about ``seconds``, one of BlackJAX ``steps``."""

    chains: int = 8
    seconds: float = 2.0
    blackjax_steps: int = 400_000
    keep_every: int = 50
    heats: int = 3
    """Rounds between the ways to write a peer's loop, before the fastest meets ours."""
    repeats: int = 5
    seed: int = 0


def ours(config: Config) -> list[Contestant]:
    """Our samplers, each through ``tacthmc.sample``."""
    target = tacthmc.potential(tacthmc.targets.three_gaussians())
    noisy = tacthmc.noisy(target, force=FORCE_NOISE, energy=ENERGY_NOISE)

    def contestant(name: str, make: Callable[..., Sampler]) -> Contestant:
        start = jnp.array([START])
        driven = Driven(
            make(STEP_SIZE), noisy, start, config.chains, config.seed, every=config.keep_every
        )
        return Contestant(name, lambda: driven.ready(config.seconds))

    return [contestant(name, make) for name, make in OURS.items()]


def blackjax(config: Config) -> dict[str, list[Contestant]]:
    """BlackJAX's samplers, each in every way."""
    return {
        f"BlackJAX {name}": blackjax_loops.contestants(
            name,
            tacthmc.targets.three_gaussians(),
            jnp.array([START]),
            force_noise=FORCE_NOISE,
            chains=config.chains,
            steps=config.blackjax_steps,
            keep_every=config.keep_every,
            seed=config.seed,
        )
        for name in ("sgnht", "sghmc", "sgld")
    }


def posteriors(config: Config) -> dict[str, list[Contestant]]:
    """The SGNHT of ``posteriors``, in every way."""
    ways = posteriors_loops.contestants(
        tacthmc.targets.three_gaussians(),
        force_noise=FORCE_NOISE,
        chains=config.chains,
        seconds=config.seconds / 2,
        keep_every=config.keep_every,
        seed=config.seed,
    )
    return {"posteriors sgnht": ways}
