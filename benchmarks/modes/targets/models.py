"""Posteriors of small data sets with modes that are copies of each other, or nearly."""

from itertools import permutations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp

import tacthmc
from benchmarks.modes.targets.definition import Target, gaussian, modes

LOG_2_PI = float(np.log(2 * np.pi))

COINS, SLOPE, PRIOR_MEAN = 200, 0.8, 0.25
"""The number of examples, the true a, and the prior's mean of a, which makes the modes differ."""


class SquaredSlope(eqx.Module):
    """−log posterior of y = a²x + b + N(0, 1) with a ~ N(¼, 1) and b ~ N(0, 1), normalized."""

    x: Float[Array, " n"]
    y: Float[Array, " n"]

    def __call__(self, theta: jax.Array) -> jax.Array:
        """The energy at (a, b)."""
        a, b = theta[0], theta[1]
        prior = 0.5 * (a - PRIOR_MEAN) ** 2 + 0.5 * b**2 + LOG_2_PI
        errors = self.y - a**2 * self.x - b
        return prior + 0.5 * jnp.sum(errors**2) + 0.5 * len(self.x) * LOG_2_PI


def coins() -> SquaredSlope:
    """The posterior on data drawn with seed 3."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=COINS)
    y = SLOPE**2 * x + 0.3 + rng.normal(size=COINS)
    return SquaredSlope(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))


def slope_truth(posterior: SquaredSlope) -> tuple[float, float]:
    """P(a > 0) and log Z: b is integrated exactly, a over a grid."""
    x, y = np.asarray(posterior.x, float), np.asarray(posterior.y, float)
    a = np.linspace(-4, 4, 80_001)
    # With r = y − a²x the errors' squares are Σr² − 2bΣr + Nb², and b has the precision N + 1.
    total = y.sum() - a**2 * x.sum()
    squares = np.sum(y**2) - 2 * a**2 * (x @ y) + a**4 * np.sum(x**2)
    precision = len(x) + 1
    log_density = -0.5 * (a - PRIOR_MEAN) ** 2 - 0.5 * squares + 0.5 * total**2 / precision
    log_density -= 0.5 * (LOG_2_PI * (len(x) + 1) + np.log(precision))
    log_z = float(logsumexp(log_density) + np.log(a[1] - a[0]))
    density = np.exp(log_density - log_density.max())
    return float(density[a > 0].sum() / density.sum()), log_z


def coin_flip() -> Target:
    """Which sign a has in y = a²x + b is a coin flip that only the prior loads."""
    posterior = coins()
    positive, log_z = slope_truth(posterior)
    return Target(
        "coin-flip",
        "the sign of a in y = a²x + b, N = 200",
        tacthmc.potential(posterior),
        jnp.zeros(2),
        gaussian(jnp.array([PRIOR_MEAN, 0.0]), 1.0, 2),
        0.04,
        modes(lambda draws: (draws[:, 0] > 0).astype(int), [1 - positive, positive]),
        log_z=log_z,
    )


VELOCITIES = """
9172 9350 9483 9558 9775 10227 10406 16084 16170 18419 18552 18600 18927 19052 19070 19330 19343
19349 19440 19473 19529 19541 19547 19663 19846 19856 19863 19914 19918 19973 19989 20166 20175
20179 20196 20215 20221 20415 20629 20795 20821 20846 20875 20986 21137 21492 21701 21814 21921
21960 22185 22209 22242 22249 22314 22374 22495 22746 22747 22888 22914 23206 23241 23263 23484
23538 23542 23666 23706 23711 24129 24285 24289 24366 24717 24990 25633 26690 26995 32065 32789
34279
"""
"""Velocities of 82 galaxies in km/s (Roeder 1990, with the 26690 that is usual since)."""
COMPONENTS = 3


def velocities() -> np.ndarray:
    """The data in 1,000 km/s.

    >>> velocities().shape, float(velocities()[0])
    ((82,), 9.172)
    """
    return np.array(VELOCITIES.split(), float) / 1000


class GalaxyPrior(eqx.Module):
    """Weights ~ Dirichlet(1), means ~ N(median, range²), variances ~ InverseGamma(2, 1).

    A position has log g, μ and log σ² of each component, where weights are g/Σg and g ~ Exp(1).
    """

    middle: Float[Array, ""]
    spread: Float[Array, ""]

    def draw(self, key: jax.Array) -> jax.Array:
        """A draw of the prior."""
        keys = jax.random.split(key, 3)
        weights = jnp.log(jax.random.exponential(keys[0], (COMPONENTS,)))
        centers = self.middle + self.spread * jax.random.normal(keys[1], (COMPONENTS,))
        variances = -jnp.log(jax.random.gamma(keys[2], 2.0, (COMPONENTS,)))
        return jnp.concatenate([weights, centers, variances])

    def log_density(self, theta: jax.Array) -> jax.Array:
        """The log density of the position; Γ(2) = 1."""
        weights, centers, variances = jnp.split(theta, 3)
        away = (centers - self.middle) / self.spread
        normal = -0.5 * away**2 - jnp.log(self.spread) - 0.5 * LOG_2_PI
        gamma = -2 * variances - jnp.exp(-variances)
        return jnp.sum(weights - jnp.exp(weights) + normal + gamma)


class Galaxy(eqx.Module):
    """−log posterior of a Gaussian mixture for the velocities."""

    prior: GalaxyPrior
    data: Float[Array, " n"]

    def __call__(self, theta: jax.Array) -> jax.Array:
        """The energy."""
        weights, centers, variances = jnp.split(theta, 3)
        away = (self.data[:, None] - centers[None, :]) ** 2 * jnp.exp(-variances)[None, :]
        peaks = jax.nn.log_softmax(weights) - 0.5 * variances - 0.5 * LOG_2_PI
        each = jax.nn.logsumexp(peaks[None, :] - 0.5 * away, axis=1)
        return -self.prior.log_density(theta) - jnp.sum(each)


def galaxy() -> Target:
    """A mixture of three Gaussians for 82 velocities: 3! orders of the means, each exactly 1/6."""
    data = velocities()
    middle, spread = np.median(data), data.max() - data.min()
    prior = GalaxyPrior(jnp.asarray(middle, jnp.float32), jnp.asarray(spread, jnp.float32))
    posterior = Galaxy(prior, jnp.asarray(data, jnp.float32))
    return Target(
        "galaxy",
        "velocities of 82 galaxies, three components",
        tacthmc.potential(posterior),
        prior.draw(jax.random.key(0)),
        prior,
        0.1,
        modes(lambda draws: order(draws[:, COMPONENTS : 2 * COMPONENTS]), np.full(6, 1 / 6)),
    )


def order(values: np.ndarray) -> np.ndarray:
    """The number of the permutation that sorts each row.

    >>> order(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).tolist()
    [0, 5]
    """
    size = values.shape[1]
    known = np.array(list(permutations(range(size))))
    base = size ** np.arange(size)
    numbers = np.argsort(known @ base)
    found = np.argsort(values, axis=1) @ base
    return numbers[np.searchsorted((known @ base)[numbers], found)]
