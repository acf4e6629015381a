"""Runs that are right: their summaries must not warn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.dynamics import (
    ContinuousTempering,
    Coordinates,
    DiagonalThermostat,
    ModeJumps,
    Modes,
    PowerCoupling,
    Refresh,
)
from tests.verdicts.wrong_runs import (
    GAUSSIAN,
    lopsided,
    means,
    sampled,
    two_blocks,
    two_wells,
)


@dataclass(frozen=True)
class Right:
    """A run whose draws are right."""

    name: str
    run: Callable[[Any], Any]


RNG = np.random.default_rng(1)
FEATURES = RNG.normal(size=(500, 5)).astype(np.float32)
CHANCES = 1 / (1 + np.exp(-FEATURES @ np.array([1.0, -1.0, 0.5, 0.0, 2.0])))
LABELS = (RNG.random(500) < CHANCES).astype(np.float32)
COUNTS = RNG.poisson(np.exp(0.5 + 0.3 * FEATURES[:, 0])).astype(np.float32)
SCORES = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)


def gaussian(precision):
    precision = jnp.asarray(precision, jnp.float32)
    return tacthmc.potential(lambda x: 0.5 * x @ precision @ x)


def correlated(size, rho):
    return gaussian(np.linalg.inv((1 - rho) * np.eye(size) + rho * np.ones((size, size))))


def student(degrees, size=3):
    power = 0.5 * (degrees + 1)
    return tacthmc.potential(lambda x: power * jnp.sum(jnp.log1p(x**2 / degrees)))


def logistic(batch_size):
    return tacthmc.posterior(
        lambda w: -0.5 * jnp.sum(w**2),
        lambda w, e: e[1] * (e[0] @ w) - jax.nn.softplus(e[0] @ w),
        (FEATURES, LABELS),
        batch_size,
    )


def poisson(batch_size):
    def log_likelihood(p, e):
        rate = p["level"] + e[0][0] * p["slope"]
        return e[1] * rate - jnp.exp(rate)

    return tacthmc.posterior(
        lambda p: -0.5 * (p["level"] ** 2 + p["slope"] ** 2),
        log_likelihood,
        (FEATURES, COUNTS),
        batch_size,
    )


def eight_schools(p):
    """Without a center: the effects are standard normal."""
    effect = p["mean"] + jnp.exp(p["log_scale"]) * p["raw"]
    prior = 0.5 * jnp.sum(p["raw"] ** 2) + p["mean"] ** 2 / 50 + 0.5 * p["log_scale"] ** 2
    return prior + 0.5 * jnp.sum(((SCORES - effect) / ERRORS) ** 2)


SCHOOLS = {"log_scale": jnp.zeros(()), "mean": jnp.zeros(()), "raw": jnp.zeros(8)}


def banana(x):
    return 0.5 * x[0] ** 2 + (x[1] - 0.5 * x[0] ** 2) ** 2


def log_exponential(x):
    """The logarithm of an exponential, as the transform of a positive parameter gives it."""
    return jnp.sum(jnp.exp(x) - x)


def ring(x):
    return 4.0 * (jnp.sqrt(jnp.sum(x**2) + 1e-6) - 3.0) ** 2


def tree(p):
    return 0.5 * (jnp.sum(p["a"] ** 2) + 4.0 * jnp.sum(p["b"]["c"] ** 2) + p["b"]["d"] ** 2)


TREE = {"a": jnp.zeros((2, 2)), "b": {"c": jnp.zeros(3), "d": jnp.zeros(())}}
TWO = Modes(np.array([[0.0], [8.0]]), np.ones((2, 1)), [0.7, 0.3])
UP_TO_9 = ContinuousTempering(PowerCoupling.up_to(9.0))
ZERO, START = jnp.zeros(2), {"A": jnp.zeros((2, 3)), "mu": jnp.zeros(2)}
EACH = DiagonalThermostat()


def overdispersed(key, size, scale=1.0):
    return scale * jax.random.normal(key, (4, size))


RIGHT = [
    Right("Gaussian", lambda key: sampled(key, tacthmc.sgnht(0.05), GAUSSIAN, ZERO, 40_000)),
    Right("long steps", lambda key: sampled(key, tacthmc.sgnht(0.3), GAUSSIAN, ZERO)),
    Right("one coordinate", lambda key: sampled(key, tacthmc.sgnht(0.1), GAUSSIAN, jnp.zeros(1))),
    Right(
        "few draws",
        lambda key: sampled(key, tacthmc.sgnht(0.3), GAUSSIAN, overdispersed(key, 2), 4_000),
    ),
    Right(
        "one chain",
        lambda key: sampled(key, tacthmc.sgnht(0.2), GAUSSIAN, ZERO, 40_000, chains=1),
    ),
    Right(
        "sixteen chains",
        lambda key: sampled(key, tacthmc.sgnht(0.2), GAUSSIAN, ZERO, 8_000, chains=16),
    ),
    Right(
        "fifty dimensions",
        lambda key: sampled(key, tacthmc.sgnht(0.2), GAUSSIAN, jnp.zeros(50), 40_000, 20),
    ),
    Right(
        "a tree of parameters",
        lambda key: sampled(key, tacthmc.sgnht(0.1), tacthmc.potential(tree), TREE),
    ),
    Right(
        "strong correlation",
        lambda key: sampled(
            key, tacthmc.sgnht(0.04), correlated(4, 0.9), jnp.zeros(4), 100_000, 20
        ),
    ),
    Right(
        "scales from 1 to 4",
        lambda key: sampled(
            key, tacthmc.sgnht(0.1), gaussian(np.diag([1.0, 4.0, 0.25])), jnp.zeros(3), 40_000
        ),
    ),
    Right(
        "Student with 5 degrees",
        lambda key: sampled(key, tacthmc.sgnht(0.2), student(5.0), jnp.zeros(3), 80_000),
    ),
    Right(
        "Student with 3 degrees",
        lambda key: sampled(key, tacthmc.sgnht(0.3), student(3.0), ZERO, 200_000, 40),
    ),
    Right(
        "a round peak with straight tails",
        lambda key: sampled(
            key,
            tacthmc.sgnht(0.2),
            tacthmc.potential(lambda x: jnp.sum(jnp.sqrt(1 + x**2))),
            ZERO,
            80_000,
            20,
        ),
    ),
    Right(
        "a flat top",
        lambda key: sampled(
            key, tacthmc.sgnht(0.02), tacthmc.potential(lambda x: jnp.sum(x**4)), ZERO, 40_000
        ),
    ),
    Right(
        "the logarithm of a positive parameter",
        lambda key: sampled(
            key, tacthmc.sgnht(0.05), tacthmc.potential(log_exponential), ZERO, 80_000, 20
        ),
    ),
    Right(
        "a banana",
        lambda key: sampled(key, tacthmc.sgnht(0.05), tacthmc.potential(banana), ZERO, 200_000, 40),
    ),
    Right(
        "a ring",
        lambda key: sampled(
            key, tacthmc.sgnht(0.03), tacthmc.potential(ring), jnp.array([3.0, 0.0]), 400_000, 80
        ),
    ),
    Right(
        "eight schools",
        lambda key: sampled(
            key, tacthmc.sgnht(0.1), tacthmc.potential(eight_schools), SCHOOLS, 200_000, 40
        ),
    ),
    Right(
        "constant friction", lambda key: sampled(key, tacthmc.sghmc(0.1), GAUSSIAN, ZERO, 40_000)
    ),
    Right(
        "Langevin steps", lambda key: sampled(key, tacthmc.sgld(0.02), GAUSSIAN, ZERO, 100_000, 40)
    ),
    Right(
        "known noise",
        lambda key: sampled(
            key,
            tacthmc.sghmc(0.05, noise_estimate=1.0),
            tacthmc.noisy(GAUSSIAN, force=1.0),
            ZERO,
            40_000,
        ),
    ),
    Right(
        "unknown noise",
        lambda key: sampled(
            key, tacthmc.sgnht(0.02), tacthmc.noisy(GAUSSIAN, force=1.0), ZERO, 80_000, 20
        ),
    ),
    Right(
        "noise of two sizes",
        lambda key: sampled(
            key,
            tacthmc.sgnht(0.02, thermostat=EACH),
            tacthmc.noisy(GAUSSIAN, force=np.array([0.5, 3.0], np.float32)),
            ZERO,
            100_000,
            20,
        ),
    ),
    Right(
        "fresh momenta",
        lambda key: sampled(
            key, tacthmc.sgnht(0.1, refresh=Refresh(every=50)), GAUSSIAN, ZERO, 40_000
        ),
    ),
    Right("batches", lambda key: sampled(key, tacthmc.sgnht(1e-4), means(20), ZERO, 60_000, 30)),
    Right("all data", lambda key: sampled(key, tacthmc.sgnht(1e-3), means(200), ZERO)),
    Right(
        "two blocks, each with its thermostat",
        lambda key: sampled(
            key, tacthmc.sgnht(3e-4, thermostat=EACH), two_blocks(), START, 200_000, 100
        ),
    ),
    Right(
        "logistic regression",
        lambda key: sampled(
            key, tacthmc.sgnht(2e-4, thermostat=EACH), logistic(200), jnp.zeros(5), 100_000, 50
        ),
    ),
    Right(
        "Poisson regression",
        lambda key: sampled(
            key,
            tacthmc.sgnht(3e-5, thermostat=EACH),
            poisson(200),
            {"level": jnp.zeros(()), "slope": jnp.zeros(())},
            100_000,
            50,
        ),
    ),
    Right(
        "linear coordinates",
        lambda key: sampled(
            key,
            tacthmc.sgnht(
                0.1,
                coordinates=Coordinates(
                    tacthmc.dynamics.LinearMap(np.diag([1.0, 5.0]).astype(np.float32))
                ),
            ),
            gaussian(np.diag([1.0, 0.04])),
            ZERO,
            40_000,
        ),
    ),
    Right(
        "two wells that are crossed",
        lambda key: sampled(key, tacthmc.sgnht(0.02), two_wells(2.0), jnp.ones(1), 200_000, 40),
    ),
    Right(
        "a narrow mode beside a wide one",
        lambda key: sampled(
            key, tacthmc.sgnht(0.004), lopsided(2.0, 0.4, 0.2), jnp.zeros(1), 400_000, 80
        ),
    ),
    Right(
        "two wells, tempered",
        lambda key: sampled(key, tacthmc.tact(0.01), two_wells(4.0), jnp.ones(1), 400_000, 50),
    ),
    Right(
        "two Gaussians, tempered",
        lambda key: sampled(
            key, tacthmc.tact(0.05, tempering=UP_TO_9), lopsided(6.0), jnp.zeros(1), 400_000, 50
        ),
    ),
    Right(
        "two Gaussians with jumps",
        lambda key: sampled(
            key, tacthmc.sgnht(0.2, jumps=ModeJumps(TWO, every=10)), lopsided(8.0), jnp.zeros(1)
        ),
    ),
    Right(
        "one Gaussian, tempered",
        lambda key: sampled(key, tacthmc.tact(0.05), GAUSSIAN, ZERO, 100_000, 20),
    ),
    Right(
        "tuned, a Gaussian",
        lambda key: sampled(key, tacthmc.tact(), GAUSSIAN, jnp.zeros(3), 10_000, None),
    ),
    Right(
        "tuned, two wells",
        lambda key: sampled(key, tacthmc.tact(), two_wells(), jnp.ones(1), 10_000, None),
    ),
    Right(
        "tuned, a regression with batches",
        lambda key: sampled(key, tacthmc.tact(), logistic(50), jnp.zeros(5), 20_000, None),
    ),
    Right(
        "tuned, a regression on all data",
        lambda key: sampled(key, tacthmc.tact(), logistic(500), jnp.zeros(5), 5_000, None),
    ),
    Right(
        "tuned replicas",
        lambda key: sampled(
            key, tacthmc.replica_exchange(), two_wells(), jnp.ones(1), 10_000, None
        ),
    ),
]
