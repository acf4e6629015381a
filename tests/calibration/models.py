"""Five models with three parameters each, so that every sampler of ``tests/table.py`` fits them."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc

BATCHES = 5
"""A mini-batch has one in so many examples."""


class Model(NamedTuple):
    """A prior, data, and their posterior. Parameters are one vector."""

    prior_draw: Callable[[Any], Any]
    simulate: Callable[[Any, Any], Any]
    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[[Any, Any], Any]
    num_data: int
    curvature: float
    """About the largest second derivative of the energy."""
    quantities: Callable[[Any, Any], Any] | None = None
    longer: int = 1
    """How many times more steps its chains need."""

    def potential(self, batched: bool, level: str | None = None) -> Callable[[Any], Any]:
        """``make_potential`` for :func:`tacthmc.calibrate`, with all data or with mini-batches.

        The level of the energy changes no posterior. It is that of the log density, or has its
        least value at zero ("mode"), or about log Z = 0 ("evidence").
        """
        return _made(self, batched, level)


@cache
def _made(model, batched, level):
    def made(data):
        shift = _shift(model, data, level)

        def log_prior(theta):
            return model.log_prior(theta) + shift

        if batched:
            size = model.num_data // BATCHES
            return tacthmc.posterior(log_prior, model.log_likelihood, data, size)
        return tacthmc.potential(
            lambda theta: -log_prior(theta) - jnp.sum(_each(model, theta, data))
        )

    return made


def _each(model, theta, data):
    return jax.vmap(lambda x: model.log_likelihood(theta, x))(data)


def _shift(model, data, level):
    """What is added to the log density, from its mode and its curvature there."""
    if level is None:
        return jnp.zeros(())

    def energy(theta):
        return -model.log_prior(theta) - jnp.sum(_each(model, theta, data))

    def newton(theta, _):
        values, vectors = jnp.linalg.eigh(jax.hessian(energy)(theta))
        inverse = 1 / jnp.maximum(jnp.abs(values), 1.0)
        step = vectors @ (inverse * (vectors.T @ jax.grad(energy)(theta)))
        return theta - 0.5 * step, None

    mode = jax.lax.scan(newton, jnp.full(3, 0.1), length=20)[0]
    if level == "mode":
        return energy(mode)
    values = jnp.maximum(jnp.linalg.eigvalsh(jax.hessian(energy)(mode)), 1.0)
    return energy(mode) - 1.5 * jnp.log(2 * jnp.pi) + 0.5 * jnp.sum(jnp.log(values))


def standard_prior(key):
    return jax.random.normal(key, (3,))


def standard_log_prior(theta):
    return -0.5 * jnp.sum(theta**2)


# The mean of a Gaussian: noise of batches is the same in every coordinate.
def mean_data(key, theta):
    return theta[None, :] + jax.random.normal(key, (20, 3))


def mean_likelihood(theta, x):
    return -0.5 * jnp.sum((x - theta) ** 2)


# Linear regression with correlated inputs.
INPUTS = jnp.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.3, 0.7]], jnp.float32)


def regression_data(key, theta):
    first, second = jax.random.split(key)
    x = jax.random.normal(first, (30, 3)) @ INPUTS
    return {"x": x, "y": x @ theta + jax.random.normal(second, (30,))}


def regression_likelihood(theta, d):
    return -0.5 * (d["y"] - d["x"] @ theta) ** 2


# Logistic regression.
def logistic_data(key, theta):
    first, second = jax.random.split(key)
    x = jax.random.normal(first, (60, 3))
    y = jax.random.uniform(second, (60,)) < jax.nn.sigmoid(x @ theta)
    return {"x": x, "y": y.astype(jnp.float32)}


def logistic_likelihood(theta, d):
    logit = d["x"] @ theta
    return d["y"] * logit - jax.nn.softplus(logit)


# A hierarchy: group means around μ with the spread e^τ, and observations around them with e^σ.
# Group means are integrated out. An example is a group: its average, and its sum of squares.
GROUP = 3
CENTER, SPREAD = jnp.array([0.0, -0.3, 0.0]), jnp.array([1.0, 0.4, 0.3])


def hierarchy_prior(key):
    return CENTER + SPREAD * jax.random.normal(key, (3,))


def hierarchy_log_prior(theta):
    return -0.5 * jnp.sum(((theta - CENTER) / SPREAD) ** 2)


def hierarchy_data(key, theta):
    first, second = jax.random.split(key)
    means = theta[0] + jnp.exp(theta[1]) * jax.random.normal(first, (15, 1))
    x = means + jnp.exp(theta[2]) * jax.random.normal(second, (15, GROUP))
    return {"mean": x.mean(axis=1), "squares": GROUP * x.var(axis=1)}


def hierarchy_likelihood(theta, d):
    variance = jnp.exp(2 * theta[2])
    between = jnp.exp(2 * theta[1]) + variance / GROUP
    return (
        -0.5 * (d["mean"] - theta[0]) ** 2 / between
        - 0.5 * jnp.log(between)
        - 0.5 * d["squares"] / variance
        - (GROUP - 1) * theta[2]
    )


# A mixture of two components whose labels can be exchanged: (m₁, m₂, ω) and (m₂, m₁, −ω).
WIDTH = 1.0


def mixture_data(key, theta):
    first, second = jax.random.split(key)
    left = jax.random.uniform(first, (40,)) < jax.nn.sigmoid(theta[2])
    return jnp.where(left, theta[0], theta[1]) + WIDTH * jax.random.normal(second, (40,))


def mixture_likelihood(theta, x):
    weights = jax.nn.log_sigmoid(jnp.stack([theta[2], -theta[2]]))
    return jax.nn.logsumexp(weights - 0.5 * ((x - theta[:2]) / WIDTH) ** 2)


def mixture_quantities(theta, data):
    share = jax.nn.sigmoid(theta[2])
    return {
        "mean": share * theta[0] + (1 - share) * theta[1],
        "distance": jnp.abs(theta[0] - theta[1]),
        "heavier": theta[2] * jnp.sign(theta[0] - theta[1]),
    }


MODELS = {
    "mean": Model(standard_prior, mean_data, standard_log_prior, mean_likelihood, 20, 21.0),
    "regression": Model(
        standard_prior,
        regression_data,
        standard_log_prior,
        regression_likelihood,
        30,
        60.0,
        longer=2,
    ),
    "logistic": Model(
        standard_prior, logistic_data, standard_log_prior, logistic_likelihood, 60, 18.0
    ),
    "hierarchy": Model(
        hierarchy_prior,
        hierarchy_data,
        hierarchy_log_prior,
        hierarchy_likelihood,
        15,
        80.0,
        longer=2,
    ),
    "mixture": Model(
        standard_prior,
        mixture_data,
        standard_log_prior,
        mixture_likelihood,
        40,
        30.0,
        mixture_quantities,
        longer=4,
    ),
}


@cache
def noise_of_batches(name: str) -> np.ndarray:
    """The variance of the force of a mini-batch in each coordinate, averaged over simulations."""
    model = MODELS[name]
    keys = jax.random.split(jax.random.key(7), (2, 400))

    def one(first, second):
        theta = model.prior_draw(first)
        data = model.simulate(second, theta)
        forces = jax.vmap(lambda x: jax.grad(model.log_likelihood)(theta, x))(data)
        return model.num_data**2 / (model.num_data // BATCHES) * forces.var(axis=0)

    return np.asarray(jax.jit(jax.vmap(one))(*keys)).mean(axis=0)
