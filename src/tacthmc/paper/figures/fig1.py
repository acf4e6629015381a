"""The paper's Figure 1: a 1-D mixture of three Gaussians with noisy gradients.

The paper gives no numbers for its target; ours is :func:`tacthmc.targets.three_gaussians`. All
samplers make the same number of steps, one gradient each, from the leftmost mode.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

import tacthmc
from tacthmc.diagnostics import autocorrelation, mean_ess, thermostat_laws
from tacthmc.dynamics import Langevin, ScalarThermostat
from tacthmc.paper.figures import measures
from tacthmc.paper.figures.study import Numbers, Say, Study, new_figure
from tacthmc.report import Table
from tacthmc.run import Keep, Run
from tacthmc.samplers import without_tempering, without_thermostat

TACT, NO_THERMOSTAT, SGNHT, SGHMC = (
    "TACT-HMC",
    "without thermostat",
    "without tempering (SGNHT)",
    "SGHMC",
)
EDGES = np.linspace(-7, 7, 113)
LAGS, WINDOW, TRAJECTORY, POINTS = 60, 400, 1500, 200


@dataclass(frozen=True)
class Config:
    """Sizes and rates; η and c are those of all four samplers, γ = 1."""

    steps: int
    chains: int = 8
    step_size: float = 1e-2
    noise: float = 0.1
    keep_every: int = 50
    force_noise: float = 3.0
    energy_noise: float = 1.0
    start: float = -4.0
    ess_draws: int = 100_000
    """n in the paper's "ESS out of n kept samples", over all chains together."""
    seed: int = 0


def samplers(config: Config) -> dict[str, Langevin]:
    """The four samplers at the same settings."""
    eta, c = config.step_size, config.noise
    return {
        TACT: tacthmc.tact(eta, noise=c, thermostat=ScalarThermostat()),
        NO_THERMOSTAT: without_thermostat(eta, noise=c),
        SGNHT: without_tempering(eta, noise=c, thermostat=ScalarThermostat()),
        SGHMC: tacthmc.sghmc(eta, friction=c),
    }


def measure(config: Config, say: Say) -> Numbers:
    """Run the four samplers and compute what the figure and its table show."""
    target = tacthmc.targets.three_gaussians()
    potential = tacthmc.noisy(
        tacthmc.potential(target), force=config.force_noise, energy=config.energy_noise
    )
    numbers: Numbers = {
        "edges": EDGES,
        "truth": measures.cell_shares(target, EDGES),
        "samplers": {},
    }
    for name, sampler in samplers(config).items():
        say(f"{name}: {config.chains} chains × {config.steps:,} steps")
        run = tacthmc.sample(
            jax.random.key(config.seed),
            sampler,
            potential,
            jnp.array([config.start]),
            config.steps,
            config.chains,
            keep=Keep(every=config.keep_every),
        )
        numbers["samplers"][name] = described(config, target, run)
        if name == TACT:
            numbers["detail"] = detail(config, run)
    return numbers


def described(config: Config, target: tacthmc.targets.GaussianMixture, run: Run) -> Numbers:
    """Distances from the target, and three kinds of effective draws."""
    chains = [np.asarray(chain, float) for chain in run.all_draws]
    pooled = np.concatenate(chains)
    truth = measures.cell_shares(target, EDGES)
    shares = [measures.histogram(chain, EDGES) for chain in chains]
    seen = measures.histogram(pooled, EDGES)
    modes = [measures.mode_of(target, chain) for chain in chains]
    count = len(target.weights)
    each = min(config.ess_draws // config.chains, *(len(chain) for chain in chains))
    first = np.stack([chain[:each] for chain in chains])
    sd = measures.sd_within(target, pooled)
    indicator = [measures.indicator_ess(m, count) for m in modes]
    return {
        "gradients_per_chain": run.num_steps,
        "draws": len(pooled),
        "histogram": seen,
        "total_variation": measures.total_variation(seen, truth),
        "worst_chain_total_variation": max(measures.total_variation(s, truth) for s in shares),
        "weights": measures.weights(np.concatenate(modes), count),
        "sd_within_modes": sd,
        "sd_error": abs(sd - float(np.asarray(target.scale))),
        "ess_of": each * config.chains,
        "ess_paper": measures.sum_of_ess(first[..., 0]),
        "ess_theta": mean_ess(first[..., 0]),
        "ess_within_modes": mean_ess(measures.deviations(target, first)[..., 0]),
        "ess_indicator": sum(measures.indicator_ess(m[:each], count) for m in modes),
        "indicator_ess_per_chain": indicator,
        "indicator_ess_per_million_gradients": 1e6 * float(np.mean(indicator)) / run.num_steps,
        "autocorrelation": autocorrelation(first[..., 0], LAGS),
        "seconds": run.seconds,
    }


def detail(config: Config, run: Run) -> Numbers:
    """The paper's panels I to V of one chain, with the theory at the true noise levels."""
    laws = {}
    theory = thermostat_laws(
        run.tempered_sampler(),
        run.one_draw(0, 0),
        np.array([config.force_noise**2]),
        config.energy_noise**2,
        run.after_warmup,
    )
    columns = {"z_theta": "thermostat", "z_xi": "xi_thermostat"}
    for law in theory:
        if law.name not in columns:
            laws[law.name] = {"mean": law.mean, "theory": law.expected_mean}
            continue
        column = np.asarray(run.trace[columns[law.name]][0], float)
        running = np.cumsum(column) / np.arange(1, len(column) + 1)
        rows = np.unique(np.geomspace(1, len(column), POINTS).astype(int)) - 1
        edges = law.expected_mean + law.expected_sd * np.linspace(-4, 4, 61)
        seen = np.asarray(run.after_warmup(columns[law.name]), float)
        laws[law.name] = {
            "mean": law.mean,
            "theory": law.expected_mean,
            "sd": law.sd,
            "sd_theory": law.expected_sd,
            "steps": run.trace["step"][0][rows],
            "running_mean": running[rows],
            "edges": edges,
            "density": np.histogram(seen, edges)[0] / seen.size / np.diff(edges),
        }
    begin = run.trace["xi"].shape[1] // 2
    window = slice(begin, begin + WINDOW)
    return {
        "trajectory": run.all_draws[0][:TRAJECTORY, 0],
        "laws": laws,
        "window_steps": run.trace["step"][0][window],
        "window_temperature": run.trace["temperature"][0][window],
        "plateau_share": run.plateau_share,
        "round_trips": run.round_trips,
        "flatness": run.flatness,
    }


def picture(numbers: Numbers) -> Any:
    """(a) histograms over the target; (b) panels I to V; and the mode indicator's ESS."""
    figure = new_figure(11.0, 8.5)
    rows = figure.add_gridspec(3, 1, height_ratios=[1, 1, 1])
    _histograms(figure, rows[0].subgridspec(1, 3), numbers)
    middle, below = rows[1].subgridspec(1, 3), rows[2].subgridspec(1, 4)
    detail = numbers["detail"]
    ax = figure.add_subplot(middle[0])
    ax.plot(detail["trajectory"], ".", markersize=1.5)
    ax.set(title="I  trajectory (kept draws)", xlabel="draw", ylabel="θ")
    ax = figure.add_subplot(middle[1])
    for name, color in (("z_theta", "C0"), ("z_xi", "C1")):
        law = detail["laws"][name]
        ax.semilogx(law["steps"], law["running_mean"], color=color, label=_symbol(name))
        ax.axhline(law["theory"], color="C3", linewidth=0.8)
    ax.set(title="II  thermostats, cumulative average", xlabel="step")
    ax.legend(frameon=False)
    ax = figure.add_subplot(middle[2])
    ax.plot(detail["window_steps"], detail["window_temperature"], linewidth=0.8)
    ax.axhline(1, color="C3", linewidth=0.8)
    ax.set(title="V  effective temperature", xlabel="step", ylabel="1/λ(ξ)")
    for place, name in ((0, "z_theta"), (1, "z_xi")):
        ax = figure.add_subplot(below[place])
        law = detail["laws"][name]
        edges = np.asarray(law["edges"])
        ax.stairs(law["density"], edges, fill=True, color="C0", alpha=0.4)
        ax.plot(edges, norm.pdf(edges, law["theory"], law["sd_theory"]), color="black", lw=1)
        ax.set(title=f"III  {_symbol(name)} and Theorem 1", yticks=[])
    ax = figure.add_subplot(below[2])
    for name, row in numbers["samplers"].items():
        ax.plot(row["autocorrelation"], label=name, linewidth=1)
    ax.axhline(0, color="0.5", linewidth=0.6)
    ax.set(title="IV  autocorrelation of kept θ", xlabel="lag")
    ax.legend(frameon=False, fontsize=7)
    _indicators(figure.add_subplot(below[3]), numbers)
    return figure


def _histograms(figure: Any, places: Any, numbers: Numbers) -> None:
    edges = np.asarray(numbers["edges"])
    width = np.diff(edges)
    middles = (edges[1:] + edges[:-1]) / 2
    first = None
    for place, name in enumerate((TACT, NO_THERMOSTAT, SGNHT)):
        row = numbers["samplers"][name]
        first = ax = figure.add_subplot(places[place], sharey=first)
        ax.stairs(np.asarray(row["histogram"]) / width, edges, fill=True, color="C0", alpha=0.45)
        ax.plot(middles, np.asarray(numbers["truth"]) / width, color="black", linewidth=1)
        ax.set(title=f"(a) {name}", xlabel="θ")
        ax.text(
            0.02,
            0.97,
            f"TV {row['total_variation']:.3f}\nsd in modes {row['sd_within_modes']:.3f}",
            transform=ax.transAxes,
            va="top",
            fontsize=8,
        )


def _indicators(ax: Any, numbers: Numbers) -> None:
    rows = numbers["samplers"]
    for place, row in enumerate(rows.values()):
        rates = 1e6 * np.asarray(row["indicator_ess_per_chain"]) / row["gradients_per_chain"]
        ax.plot(rates, np.full(len(rates), place), "o", markersize=4, alpha=0.6)
    ax.set_yticks(range(len(rows)), [name.replace(" (", "\n(") for name in rows])
    ax.invert_yaxis()
    ax.set(xscale="log", title="ESS of the mode indicator", xlabel="per 10⁶ gradients, each chain")


def _symbol(name: str) -> str:
    return {"z_theta": "z_θ", "z_xi": "z_ξ"}[name]


def table(numbers: Numbers) -> Table:
    """The figure in numbers."""
    columns = (
        "",
        "total variation",
        "worst chain's",
        "sd within modes (0.5)",
        f"ESS of {numbers['samplers'][TACT]['ess_of']:,} draws: within modes",
        "of θ",
        "of the mode indicator",
        "the last per chain and 10⁶ gradients",
    )
    rows = [
        (
            name,
            f"{row['total_variation']:.3f}",
            f"{row['worst_chain_total_variation']:.3f}",
            f"{row['sd_within_modes']:.3f}",
            f"{row['ess_within_modes']:,.0f}",
            f"{row['ess_theta']:,.0f}",
            f"{row['ess_indicator']:,.0f}",
            f"{row['indicator_ess_per_million_gradients']:,.0f}",
        )
        for name, row in numbers["samplers"].items()
    ]
    return Table(columns, tuple(rows))


STUDY = Study(
    "fig1",
    "TACT-HMC, its two ablations and SGHMC on three Gaussians in one dimension",
    Config(steps=500_000, chains=4, ess_draws=7_000),
    Config(steps=3_600_000),
    measure,
    picture,
    table,
)
