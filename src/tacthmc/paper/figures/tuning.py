"""ESS per gradient: this library's default against the paper's Algorithm 1, both tuned.

Both search one grid of (η, c, γ, K) on the mixture of Figure 1. A setting counts if no chain
diverged, the standard deviation within modes is off by at most the bound and the total variation of
the modes' weights is at most 0.1. The setting with the most effective draws per gradient is the
sampler's best. It runs again, longer and with another seed, and has to keep to the bound there too;
else the next best takes its place.
"""

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.diagnostics import mean_ess
from tacthmc.dynamics import ContinuousTempering, Langevin, ScalarThermostat
from tacthmc.paper.figures import measures
from tacthmc.paper.figures.study import Numbers, Say, Study, new_figure
from tacthmc.report import Table
from tacthmc.run import Keep, Run
from tacthmc.samplers import tact_from_tuple
from tacthmc.targets import GaussianMixture

DEFAULT, ALGORITHM_1 = "our default", "Algorithm 1"
MAX_WEIGHT_ERROR = 0.1
"""The largest total variation of the modes' weights that noise explains."""


@dataclass(frozen=True)
class Config:
    """The grid, and the size of the run at each of its points."""

    steps: int
    chains: int = 16
    step_sizes: tuple[float, ...] = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
    noises: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3)
    inertias: tuple[float, ...] = (0.1, 1.0, 10.0)
    keep_every: tuple[int, ...] = (10, 50)
    sd_bound: float = 0.03
    """How far the standard deviation within modes may be off, relatively."""
    force_noise: float = 3.0
    energy_noise: float = 1.0
    again: int = 8
    """How many times longer the best settings run again."""
    seed: int = 0


def sampler(name: str, eta: float, c: float, gamma: float, every: int) -> Langevin:
    """Either sampler at a point of the grid, the same numbers for θ and ξ."""
    if name == ALGORITHM_1:
        # One datum: the tuple's rates are those of the energy as it is.
        return tact_from_tuple([eta, eta, c, c, gamma, gamma, every], num_data=1)
    inertia = ScalarThermostat(gamma=gamma)
    xi = ContinuousTempering(thermostat=inertia)
    return tacthmc.tact(eta, noise=c, tempering=xi, thermostat=inertia)


def measure(config: Config, say: Say) -> Numbers:
    """The whole grid for both samplers, then the best of each again."""
    target = tacthmc.targets.three_gaussians()
    numbers: Numbers = {"sd_bound": config.sd_bound, "grid": {}, "best": {}}
    axes = (config.keep_every, config.step_sizes, config.noises, config.inertias)
    for name in (DEFAULT, ALGORITHM_1):
        rows = []
        for every, eta, c, gamma in itertools.product(*axes):
            if (c, gamma) == (config.noises[0], config.inertias[0]):
                say(f"{name}: K = {every}, η = {eta:g}")
            found = at_point(config, target, name, (eta, c, gamma, every), config.steps, 0)
            rows.append(found)
        numbers["grid"][name] = rows
        for what in ("theta", "indicator"):
            best = confirmed(config, target, name, rows, what, say)
            if best is not None:
                numbers["best"].setdefault(what, {})[name] = best
    numbers["ratio"] = {
        what: best[DEFAULT][f"{what}_ess_per_thousand"]
        / best[ALGORITHM_1][f"{what}_ess_per_thousand"]
        for what, best in numbers["best"].items()
        if len(best) == 2
    }
    return numbers


def confirmed(
    config: Config, target: GaussianMixture, name: str, rows: list[Numbers], what: str, say: Say
) -> Numbers | None:
    """The best setting that keeps to the bound also in a longer run; None if none does."""
    admitted = [row for row in rows if admissible(row, config.sd_bound)]
    for row in sorted(admitted, key=lambda row: -row[f"{what}_ess_per_thousand"]):
        point = (row["eta"], row["c"], row["gamma"], row["K"])
        say(f"{name}: the best for {what} again, at η, c, γ, K = {point}")
        again = at_point(config, target, name, point, config.again * config.steps, 1)
        if admissible(again, config.sd_bound):
            return again
    return None


def at_point(
    config: Config,
    target: GaussianMixture,
    name: str,
    point: tuple[float, float, float, int],
    steps: int,
    stream: int,
) -> Numbers:
    """One run. Its effective draws are those after warm-up, per gradient after warm-up."""
    potential = tacthmc.noisy(
        tacthmc.potential(target), force=config.force_noise, energy=config.energy_noise
    )
    eta, c, gamma, every = point
    key = jax.random.fold_in(jax.random.key(config.seed), stream)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tacthmc.DivergedWarning)
        run = tacthmc.sample(
            key,
            sampler(name, *point),
            potential,
            jnp.array([-4.0]),
            steps,
            config.chains,
            keep=Keep(every=every),
        )
    settings = {"eta": eta, "c": c, "gamma": gamma, "K": every}
    return {**settings, **described(target, run)}


def described(target: GaussianMixture, run: Run) -> Numbers:
    """Bias and effective draws per thousand gradients, of θ and of the mode indicator."""
    if run.failures or run.num_draws < 20:
        return {"diverged": bool(run.failures), "draws": int(run.counts.sum())}
    gradients = (run.num_steps - (run.keep.after or 0)) * run.num_chains
    draws = np.asarray(run.draws, float)
    # The rectangle leaves out the draws of chains that have more: count as if all were in.
    scale = 1000 * float(run.counts.mean()) / run.num_draws / gradients
    modes = measures.mode_of(target, draws)
    indicator = [measures.pooled_indicator_ess(modes == k) for k in range(len(target.weights))]
    pooled = np.concatenate([np.asarray(chain, float) for chain in run.all_draws])
    sd = measures.sd_within(target, pooled)
    shares = measures.weights(measures.mode_of(target, pooled), len(target.weights))
    return {
        "diverged": False,
        "draws": int(run.counts.sum()),
        "sd_within_modes": sd,
        "sd_error": sd / float(np.asarray(target.scale)) - 1,
        "weights": shares,
        "weight_error": measures.total_variation(shares, np.asarray(target.weights, float)),
        "plateau_share": float(np.mean(run.plateau_share)),
        "theta_ess_per_thousand": scale * mean_ess(draws[..., 0]),
        "indicator_ess_per_thousand": scale * min(indicator),
        "seconds": run.seconds,
    }


def admissible(row: Numbers, bound: float) -> bool:
    """Whether a setting sampled the target, up to the bound."""
    return (
        "sd_error" in row
        and abs(row["sd_error"]) <= bound
        and row["weight_error"] <= MAX_WEIGHT_ERROR
    )


def picture(numbers: Numbers) -> Any:
    """Every point of the grid: effective draws per gradient over the error of the sd."""
    figure = new_figure(9.0, 3.8)
    panels = figure.subplots(1, 2, sharex=True)
    bound = numbers["sd_bound"]
    for ax, what, title in zip(
        panels, ("theta", "indicator"), ("of θ", "of the mode indicator"), strict=True
    ):
        ax.axvspan(-100 * bound, 100 * bound, color="0.92")
        for color, (name, rows) in zip(("C0", "C3"), numbers["grid"].items(), strict=True):
            points = [row for row in rows if "sd_error" in row]
            ax.plot(
                [100 * row["sd_error"] for row in points],
                [row[f"{what}_ess_per_thousand"] for row in points],
                "o",
                color=color,
                markersize=3,
                alpha=0.6,
                label=name,
            )
            best = numbers["best"].get(what, {}).get(name)
            if best is not None:
                place = (100 * best["sd_error"], best[f"{what}_ess_per_thousand"])
                ax.plot(*place, "*", color=color, markersize=13, markeredgecolor="black")
        ax.set(title=f"effective draws {title}", yscale="log", xlim=(-16, 16))
        ax.set_ylabel("per 1,000 gradients")
        ax.set_xlabel("error of the sd within modes (%)")
        ax.legend(frameon=False, loc="lower left")
    return figure


def table(numbers: Numbers) -> Table:
    """The best of each, run again."""
    columns = (
        "",
        "η",
        "c",
        "γ",
        "K",
        "error of the sd within modes",
        "plateau share",
        "ESS per 1,000 gradients",
        "ratio",
    )
    labels = {"theta": "θ", "indicator": "mode indicator"}
    rows = []
    for what, best in numbers["best"].items():
        for name, row in best.items():
            ratio = numbers["ratio"].get(what)
            rows.append(
                (
                    f"{labels[what]}, {name}",
                    f"{row['eta']:g}",
                    f"{row['c']:g}",
                    f"{row['gamma']:g}",
                    str(row["K"]),
                    f"{row['sd_error']:+.1%}",
                    f"{row['plateau_share']:.1%}",
                    f"{row[f'{what}_ess_per_thousand']:.2f}",
                    f"{ratio:.1f}" if name == DEFAULT and ratio is not None else "",
                )
            )
    return Table(columns, tuple(rows))


STUDY = Study(
    "tuning",
    "ESS per gradient of the default and of Algorithm 1, both at the best of one grid",
    Config(steps=20_000, step_sizes=(0.005, 0.02, 0.08), noises=(0.1,), inertias=(1.0,)),
    Config(steps=50_000),
    measure,
    picture,
    table,
)
