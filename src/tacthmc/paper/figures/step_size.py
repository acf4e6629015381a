"""Bias against step size, for Euler and the splitting, for every sampler of the family.

Many chains on the mixture of Figure 1, each from an exact draw, with exact gradients: what is
wrong with the spread within modes comes from the integrator. c is a friction per step, so it
shrinks with Δt = √η (c = Δt, γ = 1); else the discretization would have no limit.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

import tacthmc
from tacthmc.dynamics import (
    ContinuousTempering,
    Euler,
    Integrator,
    Langevin,
    ScalarThermostat,
    Splitting,
)
from tacthmc.paper.figures import measures
from tacthmc.paper.figures.study import Numbers, Say, Study, new_figure
from tacthmc.report import Table
from tacthmc.run import Keep
from tacthmc.samplers import without_thermostat
from tacthmc.targets import GaussianMixture

INTEGRATORS: dict[str, Integrator] = {
    "Euler": Euler(),
    "splitting": Splitting(),
}


@dataclass(frozen=True)
class Config:
    """Sizes; Δt = √η."""

    steps: int
    chains: int
    sizes: tuple[float, ...] = (0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4)
    keep_every: int = 10
    seed: int = 0


def samplers(form: Integrator) -> dict[str, Callable[[float], Langevin]]:
    """Each member of the family as a function of Δt."""
    heavy = ScalarThermostat(gamma=1.0)
    xi = ContinuousTempering(thermostat=heavy)
    return {
        "TACT-HMC": lambda dt: tacthmc.tact(
            dt**2, noise=dt, tempering=xi, thermostat=heavy, integrator=form
        ),
        "without thermostat": lambda dt: without_thermostat(dt**2, noise=dt, integrator=form),
        "SGNHT": lambda dt: tacthmc.sgnht(dt**2, noise=dt, thermostat=heavy, integrator=form),
        "SGHMC": lambda dt: tacthmc.sghmc(dt**2, friction=dt, integrator=form),
    }


def measure(config: Config, say: Say) -> Numbers:
    """The relative error of the variance within modes, with its Monte-Carlo standard error."""
    target = tacthmc.targets.three_gaussians()
    draw, key = jax.random.split(jax.random.key(config.seed))
    start = target.draw(draw, config.chains)
    numbers: Numbers = {"sizes": config.sizes, "samplers": {}}
    for form, integrator in INTEGRATORS.items():
        for name, make in samplers(integrator).items():
            say(f"{name}, {form}: {len(config.sizes)} step sizes")
            rows = [at_size(config, target, make(size), start, key) for size in config.sizes]
            numbers["samplers"].setdefault(name, {})[form] = rows
    return numbers


def at_size(
    config: Config, target: GaussianMixture, sampler: Langevin, start: Array, key: PRNGKeyArray
) -> Numbers:
    """The error of one sampler at one step size."""
    potential = tacthmc.potential(target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tacthmc.DivergedWarning)
        run = tacthmc.sample(
            key,
            sampler,
            potential,
            start,
            config.steps,
            config.chains,
            keep=Keep(every=config.keep_every),
        )
    variance = float(np.asarray(target.scale)) ** 2
    squares = [
        np.mean(measures.deviations(target, np.asarray(chain, float)) ** 2)
        for chain in run.all_draws
        if len(chain)
    ]
    error = np.mean(squares) / variance - 1 if squares else np.nan
    noise = np.std(squares, ddof=1) / np.sqrt(len(squares)) / variance if squares else 0
    return {"error": error, "standard_error": noise, "diverged": bool(run.failures)}


def stable(rows: list[Numbers]) -> list[bool]:
    """Whether no chain diverged, at each step size."""
    return [not row["diverged"] for row in rows]


def order(sizes: list[float], rows: list[Numbers]) -> float | None:
    """The slope of log|error| over log Δt, where the error exceeds its noise."""
    clear = [
        (size, abs(row["error"]))
        for size, row, sound in zip(sizes, rows, stable(rows), strict=True)
        if sound and abs(row["error"]) > 5 * row["standard_error"]
    ]
    if len(clear) < 3:
        return None
    logs = np.log(np.array(clear))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def picture(numbers: Numbers) -> Any:
    """One panel per sampler, |error| over Δt, with crosses where chains diverged."""
    figure = new_figure(11.0, 3.3)
    panels = figure.subplots(1, len(numbers["samplers"]), sharey=True)
    sizes = np.asarray(numbers["sizes"])
    for ax, (name, forms) in zip(panels, numbers["samplers"].items(), strict=True):
        for color, (form, rows) in zip(("C3", "C0"), forms.items(), strict=True):
            sound = np.array(stable(rows))
            error = np.array([abs(row["error"] or 0.0) for row in rows])
            noise = np.array([row["standard_error"] for row in rows])
            slope = order(list(sizes), rows)
            label = form if slope is None else f"{form}, slope {slope:.1f}"
            ax.errorbar(
                sizes[sound], error[sound], noise[sound], color=color, marker="o", ms=3, label=label
            )
            ax.plot(sizes[~sound], np.full(np.sum(~sound), 1.0), "x", color=color)
        ax.set(xscale="log", yscale="log", title=name, xlabel="Δt = √η", ylim=(5e-4, 4.0))
        ax.set_xticks(sizes[::2], [f"{size:g}" for size in sizes[::2]])
        ax.minorticks_off()
        ax.legend(frameon=False, fontsize=7, loc="upper left")
    panels[0].set_ylabel("relative error of the variance\nwithin modes (× diverged)")
    return figure


def table(numbers: Numbers) -> Table:
    """One row per sampler and integrator: the error in percent at each Δt."""
    sizes = numbers["sizes"]
    columns = ("", *(f"Δt {size:g}" for size in sizes), "order")
    rows = []
    for name, forms in numbers["samplers"].items():
        for form, each in forms.items():
            cells = [
                f"{100 * row['error']:+.1f}%" if sound else "diverges"
                for row, sound in zip(each, stable(each), strict=True)
            ]
            slope = order(sizes, each)
            rows.append((f"{name}, {form}", *cells, "" if slope is None else f"{slope:.1f}"))
    return Table(columns, tuple(rows))


STUDY = Study(
    "step-size",
    "bias against step size for Euler and the splitting, every sampler of the family",
    Config(steps=10_000, chains=128, sizes=(0.1, 0.2, 0.28, 0.4)),
    Config(steps=20_000, chains=512),
    measure,
    picture,
    table,
)
