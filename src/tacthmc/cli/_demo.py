"""What the sampler does that others cannot, in less than a minute: ``tacthmc demo``."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.paper.figures import measures
from tacthmc.report._shown import Truth
from tacthmc.run._result import Run

STEP_SIZE, STEPS, CHAINS, FORCE_NOISE = 1e-2, 400_000, 4, 3.0
WHAT = (
    "Three Gaussians at −4, 0, 4 with weights .3 .4 .3 and sd ½. The gradient carries noise of sd"
    f" {FORCE_NOISE:g} that no sampler knows of. All chains start at −4."
)


def demo(out: Path, steps: int = STEPS, seed: int = 0) -> Path:
    """Sample the paper's 1-D mixture with three samplers; print a table, write the report."""
    from rich.console import Console

    console = Console()
    console.print(WHAT + "\n")
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
        truth={"theta[0]": Truth(x, density)},
    )
    console.print(f"\nOpen [bold]{path}[/bold] in a browser.", soft_wrap=True)
    return path


def table(runs: dict[str, Run], target: tacthmc.targets.GaussianMixture) -> Any:
    """The demo's table: what each sampler made of the mixture."""
    from rich.table import Table

    found = Table(title="what each made of it")
    for column in (
        "",
        "weights of modes\n(.30 .40 .30)",
        "worst chain's\ntotal variation",
        "sd within\nmodes (.500)",
        "effective draws of\nthe mode, a chain",
        "round trips\na chain",
    ):
        justify = "left" if not column else "right"
        found.add_column(column, justify=justify, no_wrap="weights" in column)
    edges = np.linspace(-7, 7, 57)
    truth = measures.cell_shares(target, edges)
    for name, run in runs.items():
        chains = [np.asarray(chain, float) for chain in run.all_draws]
        modes = [measures.mode_of(target, chain) for chain in chains]
        shares = measures.weights(np.concatenate(modes), 3)
        far = [measures.total_variation(measures.histogram(c, edges), truth) for c in chains]
        effective = [measures.indicator_ess(m, 3) for m in modes if len(m) > 3]
        found.add_row(
            name,
            " ".join(f"{share:.2f}" for share in shares),
            f"{max(far):.3f}",
            f"{measures.sd_within(target, np.concatenate(chains)):.3f}",
            f"{np.mean(effective):.0f}" if effective else "",
            f"{np.mean(run.round_trips):.0f}" if run.tempered else "",
        )
    return found
