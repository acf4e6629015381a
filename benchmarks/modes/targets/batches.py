"""Posteriors that are seen through mini-batches."""

from math import factorial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import tacthmc
from benchmarks.modes.targets.definition import Target, Truth, gaussian, means, modes, signs
from benchmarks.modes.targets.models import LOG_2_PI, order

PRIOR_SD = 5.0
CENTERS = {2: (-1.0, 1.0), 3: (-2.0, 0.0, 2.0)}
BATCH_SIZES = {500: 50, 20_000: 100, 1_000_000: 500}


class GaussianPrior(eqx.Module):
    """log N(θ; 0, sd²·I), normalized."""

    sd: float = eqx.field(static=True)

    def __call__(self, theta: Array) -> Array:
        """The log density."""
        constant = np.log(self.sd) + 0.5 * LOG_2_PI
        return -0.5 * jnp.sum((theta / self.sd) ** 2) - theta.shape[0] * constant


def of_centers(mu: Array, x: Array) -> Array:
    """log Σ_k N(x; μ_k, 1)/K of a batch of examples."""
    away = x[:, None] - mu[None, :]
    constant = float(np.log(mu.shape[0])) + 0.5 * LOG_2_PI
    return jax.nn.logsumexp(-0.5 * away**2, axis=1) - constant


def points(components: int, num_data: int) -> np.ndarray:
    """Data drawn from the model itself."""
    rng = np.random.default_rng(components)
    return rng.choice(CENTERS[components], num_data) + rng.normal(size=num_data)


def mixture(components: int, num_data: int) -> Target:
    """The means of a mixture with known, equal weights: K! orders, each exactly 1/K!."""
    size = BATCH_SIZES[num_data]
    data = jnp.asarray(points(components, num_data), jnp.float32)
    potential = tacthmc.posterior(GaussianPrior(PRIOR_SD), of_centers, data, size, batched=True)
    copies = factorial(components)
    return Target(
        f"mixture-{components}-{num_data}",
        f"means of {components} components, N = {num_data:,}, batches of {size}",
        potential,
        0.1 * jax.random.normal(jax.random.key(0), (components,)),
        gaussian(0.0, PRIOR_SD, components),
        float(np.sqrt(components / num_data)),
        modes(order, np.full(copies, 1 / copies)),
        kind="batches",
        full_cost=num_data / size,
    )


FEATURES, EXAMPLES, LOGISTIC_BATCH, LOGISTIC_PRIOR_SD = 20, 100_000, 200, 2.0


def of_logits(w: Array, batch: tuple[Array, Array]) -> Array:
    """log p(y | x, w) of a logistic regression."""
    x, y = batch
    logits = x @ w
    return y * logits - jax.nn.softplus(logits)


def logistic_data() -> tuple[np.ndarray, np.ndarray]:
    """Correlated inputs, and labels of a known vector."""
    rng = np.random.default_rng(1)
    mix = np.eye(FEATURES) + 0.2 * rng.normal(size=(FEATURES, FEATURES))
    x = (rng.normal(size=(EXAMPLES, FEATURES)) @ mix).astype(np.float32)
    w = 0.5 * rng.normal(size=FEATURES)
    y = rng.random(EXAMPLES) < 1 / (1 + np.exp(-x @ w))
    return x, y.astype(np.float32)


def logistic_truth(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances by Laplace's method with the next term of the means.

    With the mode w*, the Hessian H there and the third derivatives T, E w = w* − ½H⁻¹(T:H⁻¹) up to
    terms that are smaller by a factor of order D/N.
    """
    x, y = x.astype(float), y.astype(float)
    mode, precision = np.zeros(x.shape[1]), 1 / LOGISTIC_PRIOR_SD**2
    for _ in range(8):
        p = 1 / (1 + np.exp(-x @ mode))
        hessian = x.T @ (x * (p * (1 - p))[:, None]) + precision * np.eye(len(mode))
        mode = mode - np.linalg.solve(hessian, x.T @ (p - y) + precision * mode)
    covariance = np.linalg.inv(hessian)
    third = x.T @ (p * (1 - p) * (1 - 2 * p) * np.sum((x @ covariance) * x, axis=1))
    return mode - 0.5 * covariance @ third, np.diag(covariance)


def logistic() -> Target:
    """One mode: the worst of 20 means counts."""
    x, y = logistic_data()
    mean, variance = logistic_truth(x, y)
    data = (jnp.asarray(x), jnp.asarray(y))
    prior = GaussianPrior(LOGISTIC_PRIOR_SD)
    return Target(
        "logistic",
        f"logistic regression, 20 inputs, N = 100,000, batches of {LOGISTIC_BATCH}",
        tacthmc.posterior(prior, of_logits, data, LOGISTIC_BATCH, batched=True),
        jnp.zeros(FEATURES),
        gaussian(0.0, LOGISTIC_PRIOR_SD, FEATURES),
        float(np.sqrt(variance.min())),
        means(lambda draws: draws, mean, variance),
        kind="batches",
        full_cost=EXAMPLES / LOGISTIC_BATCH,
    )


UNITS, INPUTS, NETWORK_EXAMPLES, NETWORK_BATCH, NOISE = 22, 9, 1_000, 100, 0.5


def split(theta: Array) -> tuple[Array, Array, Array]:
    """Input weights, biases and output weights of the network: 242 numbers."""
    cut = UNITS * INPUTS
    return theta[:cut].reshape(INPUTS, UNITS), theta[cut : cut + UNITS], theta[cut + UNITS :]


def of_outputs(theta: Array, batch: tuple[Array, Array]) -> Array:
    """log p(y | x, θ) of a regression by one layer of tanh units."""
    x, y = batch
    weights, biases, out = split(theta)
    hidden = jnp.tanh(x @ weights + biases[None, :])
    return -0.5 * ((y - hidden @ out) / NOISE) ** 2


def network_data() -> tuple[np.ndarray, np.ndarray]:
    """A sine and a product of inputs, with noise."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(NETWORK_EXAMPLES, INPUTS))
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2]
    y = y + NOISE * rng.normal(size=NETWORK_EXAMPLES)
    return x.astype(np.float32), y.astype(np.float32)


def network_truth() -> Truth:
    """Each unit's sign is as good as the other: P(out > 0) = ½."""
    return signs(lambda draws: draws[:, -UNITS:] > 0, np.full(UNITS, 0.5))


def network() -> Target:
    """A regression by 22 tanh units, 242 parameters: the signs of the units count alike."""
    x, y = network_data()
    data = (jnp.asarray(x), jnp.asarray(y))
    dimension = UNITS * (INPUTS + 2)
    potential = tacthmc.posterior(GaussianPrior(1.0), of_outputs, data, NETWORK_BATCH, batched=True)
    return Target(
        "network",
        f"regression network, 242 parameters, N = 1,000, batches of {NETWORK_BATCH}",
        potential,
        0.1 * jax.random.normal(jax.random.key(0), (dimension,)),
        gaussian(0.0, 1.0, dimension),
        0.03,
        network_truth(),
        kind="batches",
        full_cost=NETWORK_EXAMPLES / NETWORK_BATCH,
    )
