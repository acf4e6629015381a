"""Round trips of ξ against the dimension: where tempering gets hard.

Two unit Gaussians in D dimensions, six apart, with weights 0.7 and 0.3. The energy fluctuates by
about T·√(D/2), so that a passage through the temperatures takes more and more steps.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.dynamics import ContinuousTempering, ScalarThermostat
from tacthmc.paper.figures import measures
from tacthmc.paper.figures.study import Numbers, Say, Study, new_figure
from tacthmc.report import Table
from tacthmc.run import Run
from tacthmc.targets import GaussianMixture

WEIGHTS = (0.7, 0.3)


@dataclass(frozen=True)
class Config:
    """Sizes and rates."""

    steps: int
    dimensions: tuple[int, ...]
    chains: int = 4
    step_size: float = 0.04
    xi_step_size: float = 0.01
    """η_ξ up to D = 16, beyond that in proportion to 1/D: the energy's variance grows with D, and
    with it the stiffness of ξ."""
    noise: float = 0.1
    apart: float = 6.0
    seed: int = 0


def pair(dimension: int, apart: float) -> GaussianMixture:
    """Two unit Gaussians at ±apart/2 along the first axis."""
    means = jnp.zeros((2, dimension)).at[:, 0].set(jnp.array([-apart / 2, apart / 2]))
    return GaussianMixture(means, jnp.array(WEIGHTS), 1.0)


def measure(config: Config, say: Say) -> Numbers:
    """One run per dimension, with exact energies and gradients, from the heavier mode."""
    rows = []
    for dimension in config.dimensions:
        say(f"D = {dimension}: {config.chains} chains × {config.steps:,} steps")
        target = pair(dimension, config.apart)
        xi_step_size = config.xi_step_size * min(1.0, 16 / dimension)
        sampler = tacthmc.tact(
            config.step_size,
            noise=config.noise,
            thermostat=ScalarThermostat(),
            tempering=ContinuousTempering(step_size=xi_step_size),
        )
        run = tacthmc.sample(
            jax.random.key(config.seed),
            sampler,
            tacthmc.potential(target),
            target.means[0],
            config.steps,
            config.chains,
        )
        rows.append(described(run, dimension, xi_step_size))
    return {"weights": WEIGHTS, "rows": rows}


def described(run: Run, dimension: int, xi_step_size: float) -> Numbers:
    """Round trips, the weight of the first mode, and how ξ moved."""
    firsts = [np.asarray(chain[:, 0], float) for chain in run.all_draws]
    shares = [float(np.mean(first < 0)) if len(first) else float("nan") for first in firsts]
    made = run.num_steps - (run.keep.after or 0)
    modes = [(first > 0).astype(int) for first in firsts]
    has_draws = any(len(first) for first in firsts)
    return {
        "dimension": dimension,
        "round_trips_per_million": 1e6 * run.round_trips / made,
        "weight_per_chain": shares,
        "weight": float(np.mean(np.concatenate(firsts) < 0)) if has_draws else np.nan,
        "indicator_ess_per_million": [
            1e6 * measures.indicator_ess(m, 2) / made if len(m) > 3 else 0.0 for m in modes
        ],
        "xi_step_size": xi_step_size,
        "plateau_share": run.plateau_share,
        "xi_kinetic_temperature": float(np.mean(run.after_warmup("xi_kinetic_temperature"))),
        "seconds": run.seconds,
    }


def picture(numbers: Numbers) -> Any:
    """Round trips with a line of slope −1 for the eye, and the weight of the first mode."""
    figure = new_figure(9.0, 3.4)
    trips, weights = figure.subplots(1, 2)
    rows = numbers["rows"]
    sizes = np.array([row["dimension"] for row in rows])
    means = np.array([np.mean(row["round_trips_per_million"]) for row in rows])
    for row in rows:
        each = row["round_trips_per_million"]
        trips.plot([row["dimension"]] * len(each), each, "o", color="C0", alpha=0.4, markersize=4)
        shares = row["weight_per_chain"]
        weights.plot([row["dimension"]] * len(shares), shares, "o", color="C0", alpha=0.4)
    trips.plot(sizes, means, color="C0")
    trips.plot(sizes, means[-1] * sizes[-1] / sizes, ":", color="0.5", label="∝ 1/D")
    trips.set(
        xscale="log", yscale="log", xlabel="dimension D", title="round trips of ξ per 10⁶ steps"
    )
    trips.set_ylim(bottom=max(min(means[means > 0], default=1) / 4, 0.5))
    trips.legend(frameon=False)
    weights.plot(sizes, [row["weight"] for row in rows], color="C0")
    weights.axhline(numbers["weights"][0], color="black", linewidth=0.8)
    weights.set(xscale="log", ylim=(0, 1), xlabel="dimension D", title="weight of the first mode")
    return figure


def table(numbers: Numbers) -> Table:
    """One row per dimension."""
    columns = (
        "D",
        "round trips per 10⁶ steps",
        "plateau share (20% if uniform)",
        "ξ's kinetic temperature (1)",
        "weight of the first mode (0.7)",
        "per chain",
    )
    rows = [
        (
            str(row["dimension"]),
            f"{np.mean(row['round_trips_per_million']):,.0f}",
            f"{np.mean(row['plateau_share']):.0%}",
            f"{row['xi_kinetic_temperature']:.2f}",
            _share(row["weight"]),
            " ".join(_share(weight) for weight in row["weight_per_chain"]),
        )
        for row in numbers["rows"]
    ]
    return Table(columns, tuple(rows))


def _share(weight: float | None) -> str:
    """A weight, or a dash for a chain without draws."""
    return "–" if weight is None else f"{weight:.2f}"


STUDY = Study(
    "dimension",
    "round trips of ξ against the dimension",
    Config(steps=200_000, dimensions=(1, 4, 16, 64)),
    Config(steps=2_000_000, dimensions=(1, 4, 16, 64, 256, 1024)),
    measure,
    picture,
    table,
)
