"""One thermostat for a network or one for each tensor: which is closer to the posterior?

    python -m benchmarks thermostat_truth [--steps 20000]

A small network, 20-32-5, on 2,000 points with labels drawn from another one. SGNHT on all points at
once, whose force has no noise, gives the reference. With batches of 20 the noise differs from
tensor to tensor; chains with one friction, with one for each tensor and with one for each
coordinate are compared with the reference at the same step size and injected noise. The rows say by
how many posterior standard deviations the mean of the log likelihood, of each tensor's Σθ² and of
predicted probabilities is off, with its standard error over chains, and the ratio of standard
deviations. ``z`` are the frictions that a thermostat for each tensor settles on: compared with that
of most weights they say how hot one friction leaves a tensor.
"""

import json
from argparse import ArgumentParser, Namespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks.record import Rows, about, add_again
from tacthmc.dynamics import DiagonalThermostat, ScalarThermostat, TensorThermostat
from tacthmc.paper import networks as models

POINTS, INPUTS, HIDDEN, CLASSES = 2000, 20, 32, 5
BATCH, CHAINS, EVERY = 20, 32, 50
SETTINGS = ((1e-4, 0.1), (1e-4, 0.5), (2e-5, 0.1))
"""Step sizes and noises."""
TRUTH = (1e-4, 0.1)
INERTIA = 300.0
THERMOSTATS: dict[str, Any] = {
    "scalar": ScalarThermostat,
    "tensor": TensorThermostat,
    "diagonal": DiagonalThermostat,
}
SAME = ("step_size", "noise", "thermostat", "steps")
QUICK = {"steps": 500}


class Problem:
    """Points, labels, and what is compared."""

    def __init__(self) -> None:
        """Draw the points and their labels."""
        rng = np.random.default_rng(0)
        self.model = models.mlp(INPUTS, HIDDEN, CLASSES)
        teacher = jax.tree.map(lambda leaf: 3 * leaf, self.model.init(jax.random.key(9)))
        x = jnp.asarray(rng.normal(size=(POINTS, INPUTS)), jnp.float32)
        self.points = x, jax.random.categorical(jax.random.key(8), self.model.logits(teacher, x))
        self.others = jnp.asarray(rng.normal(size=(8, INPUTS)), jnp.float32)

    def posterior(self, batch: int) -> Any:
        """The posterior with this many points a gradient."""
        prior, likelihood = models.gaussian_prior(precision=2.0), models.categorical(self.model)
        return tacthmc.posterior(prior, likelihood, self.points, batch, batched=True)

    def quantities(self, position: Any) -> dict[str, Any]:
        """What is compared; none of it depends on the order of hidden units."""
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
            tacthmc.PerChain(inits),
            steps,
            CHAINS,
            keep=tacthmc.Keep(every=EVERY, after=steps // 5),
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


def described(
    found: dict[str, np.ndarray], z: Any, truth: dict[str, np.ndarray], by_tensor: bool
) -> dict[str, Any]:
    """How far off the quantities are, and the frictions of a thermostat for each tensor."""
    off = compared(found, truth)
    row: dict[str, Any] = {"off": off}
    row["rms shift"] = float(np.sqrt(np.mean([shift**2 for shift, _, _ in off.values()])))
    row["rms error"] = float(np.sqrt(np.mean([error**2 for _, error, _ in off.values()])))
    if by_tensor:
        row["z"] = {k: round(float(np.mean(v)), 4) for k, v in z.items()}
    return row


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=20_000)
    add_again(parser)


def main(args: Namespace) -> None:
    problem = Problem()
    eta, c = TRUTH
    truth, _ = problem.run(tacthmc.sgnht(eta, noise=c), POINTS, args.steps)
    rows = Rows(args.out, about(args), SAME, again=args.again)
    for eta, c in SETTINGS:
        for name, thermostat in THERMOSTATS.items():
            # A shorter step takes more of them.
            steps = round(args.steps * min(5, c / eta / 1000))
            row = {"step_size": eta, "noise": c, "thermostat": name, "steps": steps}
            if rows.has(row):
                continue
            sampler = tacthmc.sgnht(eta, noise=c, thermostat=thermostat(steps=INERTIA))
            found, z = problem.run(sampler, BATCH, steps)
            rows.add(row | described(found, z, truth, name == "tensor"))
            print(json.dumps(rows.rows[-1], ensure_ascii=False), flush=True)
