"""One thermostat for a network or one for each tensor: which is nearer to the posterior?

    python -m benchmarks.thermostat_truth OUT.json --steps 20000

A small network, 20-32-5, on 2,000 points with labels drawn from another one. SGNHT on all points at
once, whose force has no noise, has the truth; with batches of 20 the noise differs from tensor to
tensor, and chains with one friction, with one for each tensor and with one for each coordinate are
compared with it at the same step size and injected noise: in what way the mean of the log
likelihood, of each tensor's Σθ² and of predicted probabilities is off, in posterior standard
deviations and with its standard error over chains. ``z`` are the frictions that a thermostat for
each tensor settles on: beside that of most weights they say how hot one friction leaves a tensor.
"""

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.paper import networks as models

POINTS, INPUTS, HIDDEN, CLASSES = 2000, 20, 32, 5
BATCH, CHAINS, EVERY = 20, 32, 50
SETTINGS = ((1e-4, 0.1), (1e-4, 0.5), (2e-5, 0.1))
TRUTH = (1e-4, 0.1)
THERMOSTATS: dict[str, Any] = {
    "scalar": tacthmc.dynamics.ScalarThermostat,
    "tensor": tacthmc.dynamics.TensorThermostat,
    "diagonal": tacthmc.dynamics.DiagonalThermostat,
}


class Problem:
    """Points, labels, and what is compared."""

    def __init__(self) -> None:
        """Draw them."""
        rng = np.random.default_rng(0)
        self.model = models.mlp(INPUTS, HIDDEN, CLASSES)
        teacher = jax.tree.map(lambda leaf: 3 * leaf, self.model.init(jax.random.key(9)))
        x = jnp.asarray(rng.normal(size=(POINTS, INPUTS)), jnp.float32)
        self.points = x, jax.random.categorical(jax.random.key(8), self.model.logits(teacher, x))
        self.others = jnp.asarray(rng.normal(size=(8, INPUTS)), jnp.float32)

    def posterior(self, batch: int) -> Any:
        """With this many points a gradient."""
        prior, likelihood = models.gaussian_prior(precision=2.0), models.categorical(self.model)
        return tacthmc.posterior(prior, likelihood, self.points, batch, batched=True)

    def quantities(self, position: Any) -> dict[str, Any]:
        """All of them know no order of hidden units."""
        found = {f"Σθ² of {name}": jnp.sum(leaf**2) for name, leaf in position.items()}
        x, y = self.points
        logs = jax.nn.log_softmax(self.model.logits(position, x))
        found["log likelihood"] = jnp.sum(jnp.take_along_axis(logs, y[:, None], axis=1))
        elsewhere = jax.nn.softmax(self.model.logits(position, self.others))
        return found | {f"probability {k}": elsewhere[k, k % CLASSES] for k in range(8)}

    def run(self, sampler: Any, batch: int, steps: int) -> tuple[dict[str, np.ndarray], Any]:
        """The quantities, [chain, draw], and the last thermostats."""
        inits = jax.vmap(self.model.init)(jax.random.split(jax.random.key(1), CHAINS))
        run = tacthmc.sample(
            jax.random.key(5),
            sampler,
            self.posterior(batch),
            inits,
            steps,
            CHAINS,
            num_warmup=steps // 5,
            init_per_chain=True,
            progress=False,
        )
        draws = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), run.draws)
        found = jax.lax.map(self.quantities, draws, batch_size=256)
        each = {name: np.asarray(value).reshape(CHAINS, -1) for name, value in found.items()}
        return each, run.state.thermostat


def compared(found: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> dict[str, Any]:
    """Shifts and their errors in posterior standard deviations, and ratios of those."""
    rows = {}
    for name, true in truth.items():
        sd, mine = true.std(), found[name]
        shift = (mine.mean() - true.mean()) / sd
        error = np.hypot(mine.mean(axis=1).std(), true.mean(axis=1).std()) / sd / CHAINS**0.5
        rows[name] = [round(float(v), 3) for v in (shift, error, mine.std() / sd)]
    return rows


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=20_000)
    args = parser.parse_args()
    problem = Problem()
    eta, c = TRUTH
    truth, _ = problem.run(tacthmc.sgnht(eta, noise=c, keep_every=EVERY), POINTS, args.steps)
    rows: list[dict[str, Any]] = []
    for eta, c in SETTINGS:
        for name, thermostat in THERMOSTATS.items():
            sampler = tacthmc.sgnht(
                eta, noise=c, thermostat=thermostat(steps=300.0), keep_every=EVERY
            )
            # A shorter step takes as many more.
            found, z = problem.run(sampler, BATCH, round(args.steps * min(5, c / eta / 1000)))
            off = compared(found, truth)
            row = {"step_size": eta, "noise": c, "thermostat": name, "off": off}
            row["rms shift"] = float(np.sqrt(np.mean([shift**2 for shift, _, _ in off.values()])))
            row["rms error"] = float(np.sqrt(np.mean([error**2 for _, error, _ in off.values()])))
            if name == "tensor":
                row["z"] = {k: round(float(np.mean(v)), 4) for k, v in z.items()}
            rows.append(row)
            print(json.dumps(row, ensure_ascii=False), flush=True)
    about = {
        "command": " ".join(["python -m benchmarks.thermostat_truth", *sys.argv[1:]]),
        "device": f"{jax.default_backend()}, {jax.local_device_count()} device(s)",
        "versions": {"python": platform.python_version(), "jax": jax.__version__},
    }
    file = {"about": about, "rows": rows}
    args.out.write_text(json.dumps(file, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
