"""What the wrong runs are made of: models, their true widths, and samplers with a defect."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.potentials import Batches, Energy, Potential

WIDTH = r"configurational temperature"
MODES = r"draws are in \d+ modes"


@dataclass(frozen=True)
class Wrong:
    """A way to be wrong."""

    name: str
    point: str
    """What is wrong in general: noise, steps, agreement, width, modes, model, or length."""
    run: Callable[[Any], Any]
    error: Callable[[Any], float]
    least: float
    warning: str
    """A pattern that one of the notes has to match."""


RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(200, 2)).astype(np.float32)
MEAN, PRECISION = DATA.sum(axis=0) / 201, 201.0
INPUTS = (RNG.normal(size=(400, 3)) * np.array([1.0, 10.0, 0.1])).astype(np.float32)
OUTPUTS = (INPUTS @ np.array([1.0, 0.1, 3.0]) + RNG.normal(size=400)).astype(np.float32)
GAUSSIAN = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))


def sampled(key, sampler, potential, start, steps=20_000, every=10, after=None, chains=4):
    keep = tacthmc.Keep(every=every, after=after)
    return tacthmc.sample(key, sampler, potential, start, steps, chains, keep=keep, progress=False)


def means(batch_size=20, prior=1.0, **options):
    return tacthmc.posterior(
        lambda m: -0.5 * prior * jnp.sum(m**2),
        lambda m, x: -0.5 * jnp.sum((x - m) ** 2),
        DATA,
        batch_size,
        **options,
    )


def two_blocks():
    return tacthmc.posterior(
        lambda p: -0.5 * (jnp.sum(p["mu"] ** 2) + jnp.sum(p["A"] ** 2)),
        lambda p, x: -0.5 * jnp.sum((x - p["mu"]) ** 2),
        DATA,
        20,
    )


def regression(batch_size=20):
    return tacthmc.posterior(
        lambda w: -0.5 * jnp.sum(w**2),
        lambda w, e: -0.5 * (e[1] - e[0] @ w) ** 2,
        (INPUTS, OUTPUTS),
        batch_size,
    )


REGRESSION_SD = np.sqrt(np.diag(np.linalg.inv(INPUTS.T @ INPUTS + np.eye(3))))


def two_wells(height=8.0):
    return tacthmc.potential(lambda x: height * jnp.sum((x**2 - 1.0) ** 2))


def lopsided(apart=8.0, weight=0.3, sd=1.0):
    """Two Gaussians on a line: of the share 1 − weight at 0, and one that is narrower."""

    def energy(x):
        near = jnp.log1p(-weight) - 0.5 * x[0] ** 2
        far = jnp.log(weight) - jnp.log(sd) - 0.5 * ((x[0] - apart) / sd) ** 2
        return -jnp.logaddexp(near, far)

    return tacthmc.potential(energy)


def far_away(key):
    """Starts of three times the width of the posterior."""
    return 3.0 * jax.random.normal(key, (2,))


class Shrinking(eqx.Module):
    """Steps of a size that falls as 1/k, as for an optimizer."""

    def __call__(self, step):
        return 0.5 / (1.0 + step)


class Doubled(Potential):
    """A potential of one's own whose batches forget the factor N/n, beside a right ``full``."""

    inner: Any

    @property
    def batches(self) -> Batches:
        return self.inner.batches

    def estimate(self, position, batch, model=None, correction=None):
        found = self.inner.estimate(position, batch)
        return Energy.all_tempered(0.5 * found.total)

    def full(self, position):
        return self.inner.full(position)


@jax.custom_vjp
def wrong_slope(x):
    return 0.5 * jnp.sum(x**2)


wrong_slope.defvjp(lambda x: (0.5 * jnp.sum(x**2), x), lambda x, g: (0.25 * g * x,))


class WrongSlope(Potential):
    """A force that somebody wrote by hand, a quarter of the right one, beside a right ``full``."""

    def estimate(self, position, batch, model=None, correction=None):
        return Energy.all_tempered(wrong_slope(position))

    def full(self, position):
        return Energy.all_tempered(0.5 * jnp.sum(position**2))


def widths(run, true):
    """The largest relative error of a standard deviation."""
    seen = np.asarray(run.draws, float).std(axis=(0, 1))
    return float(np.max(np.abs(np.log(seen / true))))


def of_blocks(run):
    mu, a = (np.asarray(run.draws[k]).std(axis=(0, 1)).mean() for k in ("mu", "A"))
    return float(max(abs(np.log(mu * np.sqrt(PRECISION))), abs(np.log(a))))


def share_above(run, at, true):
    """The error of the share of draws above a number, against its true value."""
    return float(abs(np.mean(np.asarray(run.draws)[..., 0] > at) - true))


def location(run, true, sd):
    return float(np.max(np.abs(np.asarray(run.draws).mean(axis=(0, 1)) - true) / sd))


def of_funnel(run):
    """The error of the mean and of the standard deviation of the first coordinate, N(0, 3²)."""
    first = np.asarray(run.draws, float)[..., 0]
    return float(abs(first.mean()) / 3 + abs(np.log(first.std() / 3)))


def hidden_wall(x):
    """A half-normal law on x > 0, whose wall is a number without a slope."""
    return 0.5 * jnp.sum(x**2) + jnp.sum(jnp.where(x > 0, 0.0, 1e4))


def neck(x):
    """Neal's funnel in five dimensions."""
    return x[0] ** 2 / 18 + 2.0 * x[0] + 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0])


def breaks(x):
    """A Gaussian that is not a number beyond 3.5 standard deviations, as a log of a negative."""
    return 0.5 * jnp.sum(x**2) + 0.0 * jnp.sum(jnp.log(12.25 - x**2))


def loader(num_data):
    batches = [DATA[i : i + 20] for i in range(0, 200, 20)]
    return tacthmc.streamed(
        lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum((x - m) ** 2), batches, num_data
    )


ZERO = jnp.zeros(2)
MU_SD = 1 / np.sqrt(PRECISION)


def stiff():
    return tacthmc.potential(lambda x: 0.5 * (16.0 * x[0] ** 2 + x[1] ** 2))
