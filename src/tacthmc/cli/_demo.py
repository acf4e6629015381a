"""``tacthmc demo``: TACT-HMC beside SGNHT and SGHMC on a mixture, in less than a minute."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.paper.figures import measures
from tacthmc.report import ReferenceDensity
from tacthmc.run._result import Run

STEP_SIZE, STEPS, CHAINS, FORCE_NOISE = 1e-2, 400_000, 4, 3.0
DESCRIPTION = (
    "Three Gaussians at −4, 0, 4 with weights .3 .4 .3 and sd ½. The gradient has noise of sd"
    f" {FORCE_NOISE:g}, which is unknown to the samplers. All chains start at −4."
)


def demo(out: Path, steps: int = STEPS, seed: int = 0) -> Path:
    """Sample the 1-D mixture with three samplers, print a table and write a report."""
    from rich.console import Console

    console = Console()
    console.print(DESCRIPTION + "\n")
    target = tacthmc.targets.three_gaussians()
    potential = tacthmc.noisy(tacthmc.potential(target), force=FORCE_NOISE, energy=1.0)
    runs: dict[str, Run] = {}
    for name, sampler in {
        "TACT-HMC": tacthmc.tact(STEP_SIZE),
        "SGNHT": tacthmc.sgnht(STEP_SIZE),
        "SGHMC": tacthmc.sghmc(STEP_SIZE),
    }.items():
        console.print(f"{name}: {CHAINS} chains × {steps:,} steps …")
        runs[name] = tacthmc.sample(
            jax.random.key(seed), sampler, potential, jnp.array([-4.0]), steps, CHAINS
        )
    console.print(table(runs, target))
    x = np.linspace(-7, 7, 401)
    density = np.exp(-np.asarray(jax.vmap(target)(jnp.asarray(x, jnp.float32)[:, None])))
    path = tacthmc.write_report(
        runs,
        out / "report.html",
        title="Three samplers on three Gaussians",
        references={"theta[0]": ReferenceDensity(x, density)},
    )
    console.print(f"\nOpen [bold]{path}[/bold] in a browser.", soft_wrap=True)
    return path


def table(runs: dict[str, Run], target: tacthmc.targets.GaussianMixture) -> Any:
    """The table of the demo, with a row for each sampler."""
    from rich.table import Table

    found = Table(title="results")
    for column in (
        "",
        "weights of modes\n(.30 .40 .30)",
        "worst chain's\ntotal variation",
        "sd within\nmodes (.500)",
        "effective draws of\nthe mode per chain",
        "round trips\nper chain",
    ):
        justify = "left" if not column else "right"
        found.add_column(column, justify=justify, no_wrap="weights" in column)
    edges = np.linspace(-7, 7, 57)
    truth = measures.cell_shares(target, edges)
    for name, run in runs.items():
        found.add_row(name, *_cells(run, target, edges, truth))
    return found


def _cells(
    run: Run, target: tacthmc.targets.GaussianMixture, edges: np.ndarray, truth: np.ndarray
) -> list[str]:
    """The row of one sampler."""
    chains = [np.asarray(chain, float) for chain in run.all_draws]
    modes = [measures.mode_of(target, chain) for chain in chains]
    shares = measures.weights(np.concatenate(modes), 3)
    far = [measures.total_variation(measures.histogram(c, edges), truth) for c in chains]
    effective = [measures.indicator_ess(m, 3) for m in modes if len(m) > 3]
    return [
        " ".join(f"{share:.2f}" for share in shares),
        f"{max(far):.3f}",
        f"{measures.sd_within(target, np.concatenate(chains)):.3f}",
        f"{np.mean(effective):.0f}" if effective else "",
        f"{np.mean(run.round_trips):.0f}" if run.has_tempering else "",
    ]
