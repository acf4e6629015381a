"""Make the README's picture and the numbers beside it: ``python benchmarks/readme_picture.py``."""

import json
import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np

import tacthmc
from tacthmc.run.exchange import ess

ROOT = Path(__file__).parent.parent
SEED, STEP_SIZE, NUM_STEPS, NUM_CHAINS = 0, 1e-2, 1_000_000, 4
SAMPLERS = {
    "TACT-HMC": tacthmc.tact,
    "without thermostats": tacthmc.without_thermostat,
    "without tempering (SGNHT)": tacthmc.without_tempering,
}


def main() -> None:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    target = tacthmc.targets.three_gaussians()
    potential = tacthmc.noisy(tacthmc.potential(target), force=3.0, energy=1.0)
    edges = np.linspace(-7, 7, 113)
    centres = (edges[1:] + edges[:-1]) / 2
    density = np.exp(-np.asarray(jax.vmap(target)(jnp.asarray(centres)[:, None])))
    truth = density * np.diff(edges)
    figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), sharey=True, layout="constrained")
    rows = []
    for ax, (name, make) in zip(axes, SAMPLERS.items(), strict=True):
        begun = time.perf_counter()
        run = tacthmc.sample(
            jax.random.key(SEED),
            make(step_size=STEP_SIZE),
            potential,
            jnp.array([-4.0]),
            NUM_STEPS,
            NUM_CHAINS,
        )
        draws = np.concatenate(run.all_draws)[:, 0]
        modes = [np.asarray(target.mode(jnp.asarray(chain))) for chain in run.all_draws]
        pooled = np.concatenate(modes)
        inside = draws[pooled == 1]
        chain_shares = [np.histogram(c[:, 0], edges)[0] / len(c) for c in run.all_draws]
        shares = np.histogram(draws, edges)[0] / len(draws)
        rows.append(
            {
                "sampler": name,
                "draws": len(draws),
                "weights": [round(float(np.mean(pooled == k)), 4) for k in range(3)],
                "sd_of_middle_mode": round(float(inside.std()), 4),
                "total_variation": round(float(0.5 * np.abs(shares - truth).sum()), 4),
                "worst_chain_total_variation": round(
                    max(float(0.5 * np.abs(s - truth).sum()) for s in chain_shares), 4
                ),
                "mode_indicator_ess_per_chain": [
                    round(ess((m == 1)[None].astype(float)), 1) for m in modes
                ],
                "seconds": round(time.perf_counter() - begun, 1),
            }
        )
        # One chain, as a user would have it; the others say how lucky it was.
        ax.stairs(chain_shares[0] / np.diff(edges), edges, fill=True, color="C0", alpha=0.45)
        ax.plot(centres, density, color="black", linewidth=1)
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("θ")
    axes[0].set_ylabel("density")
    (ROOT / "docs" / "img").mkdir(parents=True, exist_ok=True)
    figure.savefig(ROOT / "docs" / "img" / "mixture.png", dpi=130)
    result = {
        "command": "python benchmarks/readme_picture.py",
        "seed": SEED,
        "step_size": STEP_SIZE,
        "steps": NUM_STEPS,
        "chains": NUM_CHAINS,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "device": "CPU, 2 cores",
        "rows": rows,
    }
    path = ROOT / "benchmarks" / "readme_picture.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(path.read_text())


if __name__ == "__main__":
    main()
