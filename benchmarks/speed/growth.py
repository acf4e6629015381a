"""How the time of a step grows with the dimension, the chains and the draws kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks.speed.case import Case, number, shown
from benchmarks.speed.clock import Contestant, by_turns, made_ready
from benchmarks.speed.ours import Driven
from tacthmc.paper.figures.study import Numbers, Say
from tacthmc.report import Table

STEP_SIZE, FORCE_NOISE, ENERGY_NOISE = 1e-2, 3.0, 1.0
# Small enough for ξ's force in 10⁶ dimensions, which grows with the dimension as the energy does;
# only the speed is measured.
LARGE_STEP_SIZE = 1e-8
AXES = {
    "dimension": "dimension of a Gaussian, one chain",
    "chains": "chains on the 1-D mixture",
    "kept": "draws kept a step (1/K), 8 chains on the 1-D mixture",
}


@dataclass(frozen=True)
class Config:
    """Sizes on each axis; a lap takes about ``seconds``."""

    dimensions: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
    chains: tuple[int, ...] = (1, 4, 16, 64, 256, 1_024)
    keep_every: tuple[int, ...] = (1_000, 300, 100, 30, 10, 3, 1)
    kept_chains: int = 8
    seconds: float = 1.0
    repeats: int = 5
    seed: int = 0


QUICK = Config(
    dimensions=(1, 1_000, 100_000),
    chains=(1, 16, 256),
    keep_every=(1_000, 30, 1),
    seconds=0.1,
    repeats=3,
)


def measure(config: Config, say: Say) -> Numbers:
    """Steps a second along each axis, and the slope of a step's time over its upper half."""
    along = {
        "dimension": (config.dimensions, lambda size: _gaussian(size, config)),
        "chains": (config.chains, lambda size: _mixture(size, 50, config)),
        "kept": (
            tuple(1 / every for every in config.keep_every),
            lambda share: _mixture(config.kept_chains, round(1 / share), config),
        ),
    }
    return {
        "unit": "steps of a chain per second, all chains together",
        **{
            name: _axis(name, sizes, driven, config, say) for name, (sizes, driven) in along.items()
        },
    }


def _gaussian(dimension: int, config: Config) -> Driven:
    target = tacthmc.potential(lambda theta: 0.5 * jnp.sum(theta**2))
    noisy = tacthmc.noisy(target, force=FORCE_NOISE, energy=ENERGY_NOISE)
    return Driven(tacthmc.tact(LARGE_STEP_SIZE), noisy, jnp.zeros(dimension), 1, config.seed)


def _mixture(chains: int, keep_every: int, config: Config) -> Driven:
    target = tacthmc.potential(tacthmc.targets.three_gaussians())
    noisy = tacthmc.noisy(target, force=FORCE_NOISE, energy=ENERGY_NOISE)
    start = jnp.array([-4.0])
    return Driven(tacthmc.tact(STEP_SIZE), noisy, start, chains, config.seed, every=keep_every)


def _axis(
    name: str,
    sizes: Sequence[float | int],
    driven: Callable[..., Driven],
    config: Config,
    say: Say,
) -> Numbers:
    say(f"{AXES[name]}: {', '.join(number(size) for size in sizes)}")
    contestants = [
        Contestant(str(size), lambda size=size: driven(size).ready(config.seconds))
        for size in sizes
    ]
    ready, absent = made_ready(contestants, say)
    results = by_turns(ready, config.repeats, say) | absent
    points = [{"size": size, **results[str(size)]} for size in sizes]
    for point in points:
        if "rate" in point:
            # The time of a step of all chains, which is what a user waits for.
            point["step_seconds"] = point["chains"] / point["rate"]["median"]
    known = [point for point in points if "rate" in point]
    times = [(point["size"], point["step_seconds"]) for point in known]
    return {"axis": AXES[name], "points": points, "slope": slope(times)}


def slope(times: Sequence[tuple[float | int, float]]) -> float | None:
    """d log(seconds)/d log(size) by least squares over the upper half of the sizes.

    >>> slope([(1, 5.0), (10, 5.0), (100, 10.0), (1_000, 100.0)])
    1.0
    """
    upper = times[len(times) // 2 :]
    if len(upper) < 2:
        return None
    size, seconds = np.log(np.asarray(upper, float)).T
    return round(float(np.polyfit(size, seconds, 1)[0]), 6)


def tables(numbers: Numbers) -> Sequence[tuple[str, Table]]:
    """A table for each axis."""
    made = []
    for name in AXES:
        part = numbers[name]
        rows = []
        for point in part["points"]:
            time = point.get("step_seconds")
            micro = "–" if time is None else number(1e6 * time)
            rows.append((number(point["size"]), *shown(point), micro))
        fitted = "–" if part["slope"] is None else f"{part['slope']:.2f}"
        title = f"growth: {part['axis']}; time ∝ size^{fitted} over the upper half"
        made.append((title, Table((name, "chain-steps/s", "range", "µs a step"), tuple(rows))))
    return made


CASE = Case(
    name="growth",
    about="Steps per second of tact against dimension, chains, and draws kept",
    quick=QUICK,
    full=Config(),
    measure=measure,
    tables=tables,
)
