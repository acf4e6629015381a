"""The paper's Figure 2: two targets in the plane whose modes lie far apart.

The paper shows pictures only; ours are :func:`tacthmc.targets.ring` and ``grid``, with weights
that differ from mode to mode, so that errors show.
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import tacthmc
from tacthmc.dynamics import (
    ContinuousTempering,
    Langevin,
    NoThermostat,
    PowerCoupling,
    ScalarThermostat,
)
from tacthmc.paper.figures import measures
from tacthmc.paper.figures.study import Numbers, Say, Study, new_figure
from tacthmc.report import Table
from tacthmc.run import Keep, Run
from tacthmc.samplers import without_tempering, without_thermostat
from tacthmc.targets import GaussianMixture, grid, ring

TACT, NO_THERMOSTAT, NO_TEMPERING = "TACT-HMC", "without thermostat", "without tempering"
CELLS = 60


@dataclass(frozen=True)
class Config:
    """Sizes and rates. The noise of the force is given in units of 1/sd of the target."""

    steps: int
    chains: int = 8
    step_size: float = 0.04
    """η in units of the modes' variance."""
    xi_step_size: float = 0.01
    noise: float = 0.1
    force_noise: float = 1.5
    energy_noise: float = 1.0
    hottest: float = 9.0
    keep_every: int = 20
    seed: int = 0


TARGETS = {"ring": (ring, 6.0), "grid": (grid, 5.5)}


def samplers(config: Config, scale: float) -> dict[str, Langevin]:
    """TACT-HMC and its ablations at the same settings, with a step that fits the modes."""
    eta, c, xi_eta = config.step_size * scale**2, config.noise, config.xi_step_size
    coupling = PowerCoupling.up_to(config.hottest)
    xi = ContinuousTempering(coupling, step_size=xi_eta)
    bare = ContinuousTempering(coupling, step_size=xi_eta, thermostat=NoThermostat())
    return {
        TACT: tacthmc.tact(eta, noise=c, tempering=xi, thermostat=ScalarThermostat()),
        NO_THERMOSTAT: without_thermostat(eta, noise=c, tempering=bare),
        NO_TEMPERING: without_tempering(eta, noise=c, thermostat=ScalarThermostat()),
    }


def measure(config: Config, say: Say) -> Numbers:
    """Run the three samplers on both targets, from one mode."""
    numbers: Numbers = {}
    for name, (make, reach) in TARGETS.items():
        target = make()
        scale = float(np.asarray(target.scale))
        edges = np.linspace(-reach, reach, CELLS + 1)
        potential = tacthmc.noisy(
            tacthmc.potential(target), force=config.force_noise / scale, energy=config.energy_noise
        )
        truth = measures.cell_shares(target, edges)
        numbers[name] = {
            "means": np.asarray(target.means),
            "weights": np.asarray(target.weights),
            "scale": scale,
            "edges": edges,
            "truth": truth,
            "samplers": {},
        }
        for method, sampler in samplers(config, scale).items():
            say(f"{name}, {method}: {config.chains} chains × {config.steps:,} steps")
            key, start = jax.random.key(config.seed), target.means[0]
            run = tacthmc.sample(
                key,
                sampler,
                potential,
                start,
                config.steps,
                config.chains,
                keep=Keep(every=config.keep_every),
            )
            numbers[name]["samplers"][method] = described(target, run, edges, truth)
    return numbers


def described(target: GaussianMixture, run: Run, edges: np.ndarray, truth: np.ndarray) -> Numbers:
    """Distances from the target: of the picture's cells, of the weights, of the modes' width."""
    chains = [np.asarray(chain, float) for chain in run.all_draws]
    draws = np.concatenate(chains)
    seen = measures.histogram(draws, edges)
    weights = np.asarray(target.weights, float)
    shares = [measures.weights(measures.mode_of(target, c), len(weights)) for c in chains]
    pooled = measures.weights(measures.mode_of(target, draws), len(weights))
    return {
        "draws": len(draws),
        "histogram": seen,
        "total_variation": measures.total_variation(seen, truth),
        "total_variation_of_exact_draws": measures.floor(truth, len(draws)),
        "weights": pooled,
        "weight_error": measures.total_variation(pooled, weights),
        "worst_chain_weight_error": max(measures.total_variation(s, weights) for s in shares),
        "modes_seen_per_chain": [int(np.sum(s > 0)) for s in shares],
        "sd_within_modes": measures.sd_within(target, draws),
        "round_trips": run.round_trips,
        "seconds": run.seconds,
    }


def picture(numbers: Numbers) -> Any:
    """One row per target: the target and each sampler, and below them the weights of the modes."""
    figure = new_figure(11.5, 8.0)
    axes = figure.subplots(2 * len(numbers), 4, height_ratios=[4, 1] * len(numbers))
    for above, below, (name, target) in zip(axes[::2], axes[1::2], numbers.items(), strict=True):
        edges, truth = np.asarray(target["edges"]), np.asarray(target["truth"])
        shown = {"histogram": truth, "weights": target["weights"]}
        panels = {"target": shown, **target["samplers"]}
        for ax, bars, (method, row) in zip(above, below, panels.items(), strict=True):
            seen = np.asarray(row["histogram"]).T
            ax.pcolormesh(
                edges, edges, seen, cmap="magma_r", vmin=0, vmax=truth.max(), rasterized=True
            )
            ax.set(aspect="equal", xticks=[], yticks=[], title=method)
            _bars(bars, row["weights"], target["weights"])
            modes = len(target["weights"])
            text = f"{modes} modes, sd {target['scale']:.1f}"
            bars.set_xlabel(text if method == "target" else _caption(row, modes), fontsize=8)
        above[0].set_ylabel(name)
        below[0].set_ylabel("weights", fontsize=8)
    return figure


def _bars(ax: Any, seen: list[float], truth: list[float]) -> None:
    """The weight of each mode, with a mark where it should be."""
    places = np.arange(len(truth))
    ax.bar(places, seen, color="C0", width=0.8)
    ax.plot(places, truth, "_", color="black", markersize=4 if len(truth) > 10 else 12)
    ax.set(xticks=[], yticks=[], ylim=(0, 1.6 * max(truth)))


def _caption(row: Numbers, modes: int) -> str:
    seen = row["modes_seen_per_chain"]
    span = f"{min(seen)}" if min(seen) == max(seen) else f"{min(seen)} to {max(seen)}"
    return (
        f"TV {row['total_variation']:.3f} (exact draws"
        f" {row['total_variation_of_exact_draws']:.3f})\nTV of weights {row['weight_error']:.3f}"
        f" (worst chain {row['worst_chain_weight_error']:.3f})\n"
        f"{span} of {modes} modes a chain, sd {row['sd_within_modes']:.3f}"
    )


def table(numbers: Numbers) -> Table:
    """The captions as a table."""
    columns = (
        "",
        "total variation (exact draws)",
        "of mode weights",
        "worst chain's",
        "modes seen by a chain",
        "sd within modes (truth)",
    )
    rows = [
        (
            f"{name}, {method}",
            f"{row['total_variation']:.3f} ({row['total_variation_of_exact_draws']:.3f})",
            f"{row['weight_error']:.3f}",
            f"{row['worst_chain_weight_error']:.3f}",
            f"{min(row['modes_seen_per_chain'])} of {len(target['weights'])}",
            f"{row['sd_within_modes']:.3f} ({target['scale']:.1f})",
        )
        for name, target in numbers.items()
        for method, row in target["samplers"].items()
    ]
    return Table(columns, tuple(rows))


STUDY = Study(
    "fig2",
    "a ring and a 5×5 grid of Gaussians in the plane, TACT-HMC and its two ablations",
    Config(steps=200_000, chains=4),
    Config(steps=2_000_000),
    measure,
    picture,
    table,
)
