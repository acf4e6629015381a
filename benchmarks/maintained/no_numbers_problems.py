"""The posteriors of ``no_numbers``, with what is known of them, in any unit of θ."""

from collections.abc import Callable
from itertools import permutations
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks.maintained.mobility_targets import pair
from benchmarks.record import read
from tacthmc.paper.figures import measures
from tacthmc.potentials import Posterior, Potential
from tacthmc.targets import GaussianMixture, ring, three_gaussians


class Problem(NamedTuple):
    """A potential, one start, and how far draws (chain, draw, …) of θ are from the truth."""

    potential: Potential
    start: Any
    judge: Callable[[list[Any]], dict[str, Any]]
    steps: int


class InUnits(eqx.Module):
    """A function of θ as one of θ in other units, s·θ."""

    function: Callable[..., Any]
    scale: Any

    def __call__(self, position: Any, *rest: Any) -> Any:
        """The function at position/s."""
        scale = jnp.asarray(self.scale)
        plain = jax.tree.map(lambda x: x / scale.astype(x.dtype), position)
        return self.function(plain, *rest)


def shares(which: list[np.ndarray], truth: np.ndarray) -> dict[str, Any]:
    """Modes' shares, their total variation to the truth, and what the chains' spread explains."""
    kinds = len(truth)
    each = np.array([[np.mean(w == k) for k in range(kinds)] for w in which if len(w)])
    mean = each.mean(axis=0)
    error = each.std(axis=0, ddof=1) / np.sqrt(len(each))
    return {
        "shares": mean.round(4).tolist(),
        "total_variation": 0.5 * float(np.abs(mean - truth).sum()),
        "by_chance": 0.5 * float(np.sqrt(2 / np.pi) * error.sum()),
        "worst_z": float(np.max(np.abs(mean - truth) / np.maximum(error, 1e-12))),
    }


def mixture(target: GaussianMixture, start: Any, noise: float, scale: float, steps: int) -> Problem:
    """A mixture with noisy forces and energies."""
    potential = tacthmc.noisy(
        tacthmc.potential(InUnits(target, scale)), force=noise / scale, energy=1.0
    )

    def judge(draws: list[Any]) -> dict[str, Any]:
        draws = [np.asarray(d) / scale for d in draws]
        modes = [measures.mode_of(target, d) for d in draws]
        within = measures.deviations(target, np.concatenate(draws))
        found = shares(modes, np.asarray(target.weights, float))
        found["sd_within"] = float(np.sqrt(np.mean(within**2)) / float(np.asarray(target.scale)))
        return found

    return Problem(potential, scale * jnp.asarray(start), judge, steps)


def label_switching(scale: float) -> Problem:
    """Means and widths of three Gaussians, 1,000 points, batches of 100."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(m, 1.0, 334) for m in (-3.0, 0.0, 3.0)])[:1000]

    def log_prior(p: Any) -> Any:
        return -0.5 * jnp.sum((p["mean"] / 5) ** 2) - 0.5 * jnp.sum((p["log_sd"] / 0.5) ** 2)

    def log_likelihood(p: Any, x: Any) -> Any:
        away = (x - p["mean"]) * jnp.exp(-p["log_sd"])
        return jax.nn.logsumexp(-0.5 * away**2 - p["log_sd"]) - jnp.log(3.0)

    potential = tacthmc.posterior(
        InUnits(log_prior, scale),
        InUnits(log_likelihood, scale),
        jnp.asarray(points, jnp.float32),
        100,
    )
    orders = np.array(list(permutations(range(3))))

    def judge(draws: list[Any]) -> dict[str, Any]:
        means = [np.asarray(d["mean"]) / scale for d in draws]
        which = [
            np.argmax((np.argsort(m, axis=1)[:, None] == orders).all(axis=2), axis=1) for m in means
        ]
        found = shares(which, np.full(6, 1 / 6))
        ordered = np.sort(np.concatenate(means), axis=1)
        found["means"] = ordered.mean(axis=0).round(3).tolist()
        found["sds"] = ordered.std(axis=0).round(4).tolist()
        return found

    start = {"mean": scale * jnp.array([-1.0, 0.0, 1.0]), "log_sd": scale * jnp.zeros(3)}
    return Problem(potential, start, judge, 1_200_000)


def logistic(scale: float, num_data: int = 1000) -> Problem:
    """Ten correlated features, batches of 100, against what all data say."""
    rng = np.random.default_rng(1)
    mix = np.eye(10) + 0.3 * rng.normal(size=(10, 10))
    features = (rng.normal(size=(num_data, 10)) @ mix).astype(np.float32)
    truth = rng.normal(size=10).astype(np.float32)
    labels = (rng.random(num_data) < 1 / (1 + np.exp(-features @ truth))).astype(np.float32)

    def log_prior(w: Any) -> Any:
        return -0.5 * jnp.sum(w**2) / 4

    def log_likelihood(w: Any, example: Any) -> Any:
        x, y = example
        logit = x @ w
        return y * logit - jax.nn.softplus(logit)

    data = (jnp.asarray(features), jnp.asarray(labels))
    potential = tacthmc.posterior(
        InUnits(log_prior, scale), InUnits(log_likelihood, scale), data, 100
    )

    def judge(draws: list[Any]) -> dict[str, Any]:
        exact = read(REFERENCES)[str(num_data)]
        # A chain that was never on the plateau has no mean.
        each = np.stack([np.asarray(d).mean(axis=0) / scale for d in draws if len(d)])
        error = each.std(axis=0, ddof=1) / np.sqrt(len(each))
        pooled = np.concatenate(draws) / scale
        sd = np.array(exact["sd"])
        off = (pooled.mean(axis=0) - np.array(exact["mean"])) / sd
        errors_off = np.abs(off) * sd / error
        return {
            "worst_mean_off_in_sds": float(np.abs(off).max()),
            "its_error": float((error / sd).max()),
            "in_errors": {"worst": float(errors_off.max()), "all": _rms(errors_off)},
            "sd_ratio": [float(f(pooled.std(axis=0) / sd)) for f in (np.min, np.mean, np.max)],
        }

    return Problem(potential, jnp.zeros(10), judge, 200_000)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


REFERENCES = "no_numbers_references.json"
"""The record of means and standard deviations of the logistic regressions."""
SIZES = (1_000, 10_000, 100_000)


def reference(num_data: int, pairs: int | None = None) -> dict[str, list[float]]:
    """Means and standard deviations of a logistic regression, and the errors of the means.

    By importance sampling from the Gaussian at the mode, in double precision. Draws come in pairs
    about the mode, so that only what is not symmetric makes errors: means are less than 0.001
    standard deviations off, those of 20,000 draws by NUTS 0.01 to 0.02.
    """
    if pairs is None:
        pairs = 400_000_000 // num_data if num_data <= 10_000 else 10_000
    potential = logistic(1.0, num_data).potential
    assert isinstance(potential, Posterior)
    x, y = (np.asarray(column, float) for column in potential.data)
    mode = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ mode))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + np.eye(len(mode)) / 4
        mode -= np.linalg.solve(curvature, x.T @ (p - y) + mode / 4)
    # A little wider, so that weights vary little as far as draws reach.
    root = 1.05 * np.linalg.cholesky(np.linalg.inv(curvature))
    one = np.random.default_rng(0).normal(size=(pairs, len(mode)))
    normals = np.stack([one, -one], axis=1)
    draws = mode + normals @ root.T
    energies = np.array(
        [[np.logaddexp(0, f := x @ w).sum() - f @ y + w @ w / 8 for w in pair] for pair in draws]
    )
    log_weights = 0.5 * np.sum(normals**2, axis=2) - energies
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = np.einsum("ps,psd->d", weights, draws)
    variance = np.einsum("ps,psd->d", weights, (draws - mean) ** 2)
    error = np.sqrt(np.sum(np.einsum("ps,psd->pd", weights, draws - mean) ** 2, axis=0))
    found = {"mean": mean, "sd": np.sqrt(variance), "error_in_sds": error / np.sqrt(variance)}
    return {name: values.tolist() for name, values in found.items()}


def network(scale: float) -> Problem:
    """Three tanh units on 100 points, batches of 20: each unit's sign is as good as the other."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, 100).astype(np.float32)
    y = (np.tanh(1.5 * x) + 0.5 * rng.normal(size=100)).astype(np.float32)

    def log_prior(p: Any) -> Any:
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))

    def log_likelihood(p: Any, example: Any) -> Any:
        x, y = example
        f = p["out"] @ jnp.tanh(p["in"] * x)
        return -0.5 * ((y - f) / 0.5) ** 2

    potential = tacthmc.posterior(
        InUnits(log_prior, scale),
        InUnits(log_likelihood, scale),
        (jnp.asarray(x), jnp.asarray(y)),
        20,
    )

    def judge(draws: list[Any]) -> dict[str, Any]:
        positive = [(np.asarray(d["in"]) > 0).astype(int) for d in draws]
        each = [shares([p[:, unit] for p in positive], np.array([0.5, 0.5])) for unit in range(3)]
        worst = max(each, key=lambda e: e["total_variation"])
        return {"signs": [e["shares"][1] for e in each], **worst}

    start = {"in": scale * jnp.array([1.0, 0.5, 2.0]), "out": scale * jnp.full(3, 0.5)}
    return Problem(potential, start, judge, 400_000)


PROBLEMS: dict[str, Callable[[float], Problem]] = {
    "three Gaussians in 1-D": lambda s: mixture(three_gaussians(), [-4.0], 3.0, s, 200_000),
    "ring of eight in 2-D": lambda s: mixture(ring(), [4.0, 0.0], 3.0, s, 200_000),
    "two Gaussians in 16-D": lambda s: mixture(pair(16), pair(16).means[0], 1.0, s, 200_000),
    "label switching": label_switching,
    "logistic, N = 1,000": logistic,
    "sign flips of a network": network,
    "logistic, N = 10,000": lambda s: logistic(s, 10_000),
    "logistic, N = 100,000": lambda s: logistic(s, 100_000),
}
