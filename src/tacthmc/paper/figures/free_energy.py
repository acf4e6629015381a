"""A(ξ) and the flatness of ξ's histogram under each bias, on the mixture of Figure 1.

In one dimension the free energy is known: A(ξ) = −log ∫exp(−λ(ξ)U(θ))dθ, by quadrature.
Metadynamics runs with ξ's momentum redrawn every K steps, and once without.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.diagnostics import flatness
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    Bias,
    ContinuousTempering,
    Coupling,
    Langevin,
    LiteralAdaptiveBiasingForce,
    Metadynamics,
    NoBias,
    Refresh,
    ScalarThermostat,
    well_tempered,
)
from tacthmc.paper.figures.study import Numbers, Say, Study, new_figure
from tacthmc.report import Table
from tacthmc.run import Keep, Run

ABF, META, TEMPERED, ALONE, LITERAL, NONE = (
    "adaptive biasing force",
    "metadynamics, r_ξ redrawn",
    "well-tempered metadynamics, r_ξ redrawn",
    "metadynamics alone",
    "ABF averaged with 1/k (Algorithm 1)",
    "no bias",
)
BINS, CHECKPOINTS = 40, 12


@dataclass(frozen=True)
class Config:
    """Sizes, rates and the biases' settings; the target and its noise are Figure 1's."""

    steps: int
    chains: int = 8
    step_size: float = 1e-2
    noise: float = 0.1
    keep_every: int = 10
    height: float = 1e-3
    boost: float = 5.0
    """ΔT of well-tempered metadynamics."""
    force_noise: float = 3.0
    energy_noise: float = 1.0
    seed: int = 0


def samplers(config: Config) -> dict[str, Langevin]:
    """A sampler with each bias, by its name."""
    plain = Metadynamics(height=config.height)
    biases: dict[str, Bias] = {
        ABF: AdaptiveBiasingForce(),
        META: plain,
        TEMPERED: well_tempered(config.boost, height=10 * config.height),
        ALONE: plain,
        LITERAL: LiteralAdaptiveBiasingForce(),
        NONE: NoBias(),
    }
    again = Refresh(config.keep_every, everywhere=True)
    return {
        name: tacthmc.tact(
            config.step_size,
            noise=config.noise,
            thermostat=ScalarThermostat(),
            tempering=ContinuousTempering(
                bias=bias, refresh=again if name in (META, TEMPERED) else None
            ),
        )
        for name, bias in biases.items()
    }


def exact(coupling: Coupling, xi: np.ndarray) -> np.ndarray:
    """A(ξ) by quadrature, zero on the plateau."""
    theta = jnp.linspace(-40.0, 40.0, 8001)
    energies = np.asarray(jax.vmap(tacthmc.targets.three_gaussians())(theta[:, None]), float)
    inverse = 1 / np.asarray(coupling.temperature(jnp.asarray(xi)), float)
    sums = np.exp(-np.multiply.outer(inverse, energies)).sum(axis=1)
    cold = np.exp(-energies).sum()
    return -np.log(sums / cold)


def measure(config: Config, say: Say) -> Numbers:
    """One run per bias."""
    target = tacthmc.targets.three_gaussians()
    potential = tacthmc.noisy(
        tacthmc.potential(target), force=config.force_noise, energy=config.energy_noise
    )
    # Every bias runs with the default coupling.
    coupling = ContinuousTempering().coupling
    grid = np.linspace(-float(coupling.wall), float(coupling.wall), 201)
    numbers: Numbers = {
        "plateau": float(coupling.plateau),
        "wall": float(coupling.wall),
        "xi": grid,
        "exact": exact(coupling, grid),
        "boost": config.boost,
        "biases": {},
    }
    for name, sampler in samplers(config).items():
        say(f"{name}: {config.chains} chains × {config.steps:,} steps")
        key, start = jax.random.key(config.seed), jnp.array([-4.0])
        run = tacthmc.sample(
            key,
            sampler,
            potential,
            start,
            config.steps,
            config.chains,
            keep=Keep(every=config.keep_every),
        )
        numbers["biases"][name] = described(run, coupling, learns=name != NONE)
    return numbers


def described(run: Run, coupling: Coupling, learns: bool) -> Numbers:
    """The profile learned, ξ's histogram, and flatness over time, of all chains together."""
    xi, wall = run.after_warmup("xi"), float(coupling.wall)
    edges = np.linspace(-wall, wall, BINS + 1)
    counts = np.histogram(xi, edges)[0]
    rows = np.unique(np.geomspace(20, run.trace["xi"].shape[1], CHECKPOINTS).astype(int))
    so_far = [flatness(run.trace["xi"][:, :n].reshape(1, -1), wall)[0] for n in rows]
    found: Numbers = {
        "histogram_edges": edges,
        "histogram": counts / counts.sum() / np.diff(edges),
        "flatness": flatness(xi.reshape(1, -1), wall)[0],
        "flatness_steps": run.trace["step"][0][rows - 1],
        "flatness_so_far": so_far,
        "plateau_share": run.plateau_share,
        "round_trips_per_million": 1e6 * float(np.mean(run.round_trips)) / run.num_steps,
        "xi_kinetic_temperature": float(np.mean(run.after_warmup("xi_kinetic_temperature"))),
        "seconds": run.seconds,
    }
    if learns:
        profile = run.free_energy()
        away = profile.value - exact(coupling, profile.xi)
        found |= {
            "profile_xi": profile.xi,
            "profile": profile.value,
            "profile_error": float(np.sqrt(np.mean((away - away.mean()) ** 2))),
        }
    return found


def picture(numbers: Numbers) -> Any:
    """A(ξ) against quadrature, ξ's histogram, and its distance from uniform over time."""
    figure = new_figure(11.0, 3.6)
    profiles, histograms, times = figure.subplots(1, 3)
    profiles.plot(numbers["xi"], numbers["exact"], color="black", linewidth=2.5, alpha=0.35)
    wall = numbers["wall"]
    histograms.axhline(1 / (2 * wall), color="black", linewidth=0.8)
    for ax in (profiles, histograms):
        ax.axvspan(-numbers["plateau"], numbers["plateau"], color="0.92")
        ax.set_xlabel("ξ")
    for place, (name, row) in enumerate(numbers["biases"].items()):
        color = f"C{place}"
        if "profile" in row:
            profiles.plot(row["profile_xi"], row["profile"], color=color, linewidth=1)
        histograms.stairs(row["histogram"], row["histogram_edges"], color=color, linewidth=1)
        times.loglog(
            row["flatness_steps"], row["flatness_so_far"], color=color, label=name, marker="."
        )
    # The limits keep the other biases visible where one runs off.
    profiles.set(title="free energy A(ξ); gray: by quadrature", ylim=(-5, 1.5))
    histograms.set(title="histogram of ξ; line: uniform", ylim=(0, 1.0))
    times.set(title="ξ's distance from uniform so far", xlabel="step", ylabel="total variation")
    times.legend(frameon=False, fontsize=7)
    return figure


def table(numbers: Numbers) -> Table:
    """One row per bias."""
    columns = (
        "",
        "ξ's distance from uniform",
        "plateau share (20% if uniform)",
        "round trips per 10⁶ steps",
        "ξ's kinetic temperature (1)",
        "rms error of A(ξ)",
    )
    rows = [
        (
            name,
            f"{row['flatness']:.3f}",
            f"{np.mean(row['plateau_share']):.1%}",
            f"{row['round_trips_per_million']:,.0f}",
            f"{row['xi_kinetic_temperature']:.2f}",
            f"{row['profile_error']:.3f}" if "profile_error" in row else "",
        )
        for name, row in numbers["biases"].items()
    ]
    return Table(columns, tuple(rows))


STUDY = Study(
    "free-energy",
    "A(ξ) and the flatness of ξ under each bias",
    Config(steps=200_000, chains=4),
    Config(steps=2_000_000),
    measure,
    picture,
    table,
)
