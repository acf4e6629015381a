"""Memory of long runs: 5 GB of draws to disk, and 10⁷ steps of the mixture on 8 chains.

    python benchmarks/memory.py [--folder DIR]

Writes ``memory.json`` beside this file. The folder needs 6 GB and is emptied afterwards.
"""

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
from overhead import Memory

import tacthmc


def many_draws(folder):
    """One chain of 250,000 numbers, each step a draw: 1 MB a draw, 5,000 draws."""
    size = 250_000
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    sampler = tacthmc.sgld(0.01, keep_every=1)

    def run(steps, name):
        return tacthmc.sample(
            jax.random.key(0), sampler, target, jnp.zeros(size), steps, num_warmup=0,
            store=folder / name,
        )  # fmt: skip

    return run(5, "warm"), lambda: run(5_000, "draws")


def many_steps(folder):
    """The mixture of the picture, 10⁷ steps on 8 chains."""
    target = tacthmc.noisy(tacthmc.potential(tacthmc.targets.three_gaussians()), force=3.0)
    sampler = tacthmc.tact(0.01)

    def run(steps, name):
        return tacthmc.sample(
            jax.random.key(0), sampler, target, jnp.array([-4.0]), steps, 8, store=folder / name
        )

    return run(100_000, "warm-mixture"), lambda: run(10_000_000, "mixture")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        for name, case in (("5 GB of draws", many_draws), ("10⁷ steps × 8", many_steps)):
            _, run = case(Path(place))
            with Memory() as before:
                time.sleep(3)
            begun = time.perf_counter()
            with Memory() as memory:
                made = run()
            used = memory.mebibytes
            quarter = max(1, len(used) // 4)
            results[name] = {
                "steps": made.num_steps,
                "draws": made.counts.tolist(),
                "bytes_on_disk": sum(f.stat().st_size for f in made.path.rglob("*") if f.is_file()),
                "seconds": round(time.perf_counter() - begun, 1),
                "base_mib": before.mebibytes[-1],
                "most_above_base_mib": max(used) - before.mebibytes[-1],
                "mean_of_second_quarter_mib": round(sum(used[quarter : 2 * quarter]) / quarter),
                "mean_of_last_quarter_mib": round(sum(used[-quarter:]) / quarter),
                "mib_by_second": used[:: max(1, len(used) // 120)],
            }
            print(name, {k: v for k, v in results[name].items() if k != "mib_by_second"})
    results |= {
        "command": "python benchmarks/memory.py",
        "python": platform.python_version(),
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        "seed": 0,
    }
    Path(__file__).with_name("memory.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
