"""Targets in more dimensions: two modes, wide and narrow, many wells, a chain of φ⁴, a funnel."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.stats import norm

import tacthmc
from benchmarks.maintained.mobility_targets import APART, WEIGHTS, pair
from benchmarks.modes.targets.definition import Target, gaussian, means, modes, signs


def two_modes(dimension: int) -> Target:
    """Unit Gaussians six apart along a random direction, weights 0.7 and 0.3.

    A draw belongs to the nearest center, of which 0.13% of the draws of either mode are not.
    """
    mixture = pair(dimension)
    centers = np.asarray(mixture.means, float)
    along = (centers[1] - centers[0]) / np.linalg.norm(centers[1] - centers[0])
    middle = float(centers.mean(axis=0) @ along)
    kept = norm.cdf(APART / 2)
    first = WEIGHTS[0] * kept + WEIGHTS[1] * (1 - kept)
    return Target(
        f"two-modes-{dimension}",
        f"two Gaussians, 0.7 and 0.3, in {dimension}-D",
        tacthmc.potential(mixture),
        jnp.zeros(dimension),
        gaussian(0.0, 6.0, dimension),
        1.0,
        modes(lambda x: (x @ along > middle).astype(int), [first, 1 - first]),
        log_z=0.0,
    )


class TwoWidths(eqx.Module):
    """½·N(−c, s₁²·I) + ½·N(c, s₂²·I), c = (3, 0, …). An instance is the energy, normalized."""

    widths: Float[Array, "2"]
    dimension: int = eqx.field(static=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        """−log density."""
        rest = jnp.sum(x[1:] ** 2)
        squares = (x[0] + jnp.array([3.0, -3.0])) ** 2 + rest
        peaks = -self.dimension * (jnp.log(self.widths) + 0.5 * np.log(2 * np.pi).astype("f4"))
        return -jax.nn.logsumexp(peaks - 0.5 * squares / self.widths**2 + jnp.log(0.5))


NARROW, WIDE, CUT = 0.3, 1.0, 1.5
"""The standard deviations, and the plane x₁ = 1.5 between the modes."""


def wide_and_narrow() -> Target:
    """A wide and a narrow Gaussian of equal mass, six apart in 16 dimensions."""
    narrow = 0.5 * norm.cdf((3.0 - CUT) / NARROW) + 0.5 * norm.sf((3.0 + CUT) / WIDE)
    return Target(
        "wide-narrow",
        "sd 1 and sd 0.3 with equal mass, in 16-D",
        tacthmc.potential(TwoWidths(jnp.array([WIDE, NARROW]), 16)),
        jnp.zeros(16),
        gaussian(0.0, 4.0, 16),
        NARROW,
        modes(lambda x: (x[:, 0] > CUT).astype(int), [1 - narrow, narrow]),
        log_z=0.0,
    )


def many_well_energy(x: jax.Array) -> jax.Array:
    """Σ(x⁴ − 6x² − ½x) over even coordinates and Σ½v² over odd ones."""
    deep, flat = x[::2], x[1::2]
    return jnp.sum(deep**4 - 6 * deep**2 - 0.5 * deep) + 0.5 * jnp.sum(flat**2)


def many_well() -> Target:
    """16 double wells side by side, 2¹⁶ modes: each of the 16 signs counts alike."""
    x = np.linspace(-5, 5, 20_000)
    density = np.exp(-(x**4) + 6 * x**2 + 0.5 * x)
    right = density[x > 0].sum() / density.sum()
    log_z = 16 * (np.log(density.sum() * (x[1] - x[0])) + 0.5 * np.log(2 * np.pi))
    return Target(
        "many-well",
        "16 double wells in 32-D",
        tacthmc.potential(many_well_energy),
        jnp.zeros(32),
        gaussian(0.0, 2.0, 32),
        0.2,
        signs(lambda draws: draws[:, ::2] > 0, np.full(16, right)),
        log_z=float(log_z),
    )


SITES, SPRING, INVERSE_TEMPERATURE = 100, 10.0, 20.0
"""The number of sites, a·n with a = 0.1, and β."""


class Phi4(eqx.Module):
    """β·(a·n·Σ½(φᵢ₊₁ − φᵢ)² + Σ((1 − φᵢ²)²/4 + b·φᵢ)/(a·n)), with φ = 0 beyond both ends."""

    tilt: Float[Array, ""]

    def __call__(self, x: jax.Array) -> jax.Array:
        """The energy."""
        steps = jnp.diff(jnp.pad(x, 1))
        places = (1 - x**2) ** 2 / 4 + self.tilt * x
        whole = 0.5 * SPRING * jnp.sum(steps**2) + jnp.sum(places) / SPRING
        return INVERSE_TEMPERATURE * whole


def transfer(tilt: float, points: int = 801, reach: float = 3.0) -> tuple[float, float]:
    """P(φ₅₀ < 0) and log Z of the chain, by products of transfer matrices.

    Sums over one site after the other are integrals over a grid of the field, whose spacing is far
    below the 0.07 that neighbors differ by.
    """
    x = np.linspace(-reach, reach, points)
    step = x[1] - x[0]
    beta = INVERSE_TEMPERATURE
    kernel = np.exp(-0.5 * beta * SPRING * (x[:, None] - x[None, :]) ** 2)
    place = np.exp(-beta * ((1 - x**2) ** 2 / 4 + tilt * x) / SPRING)
    end = np.exp(-0.5 * beta * SPRING * x**2)

    def arm(sites: int) -> tuple[np.ndarray, float]:
        """The sum over the sites beyond one side of a site, and the log of its scale."""
        message, log_scale = end.copy(), 0.0
        for _ in range(sites):
            message = kernel @ (place * message) * step
            log_scale += np.log(message.max())
            message /= message.max()
        return message, log_scale

    (left, one), (right, other) = arm(SITES // 2 - 1), arm(SITES // 2)
    density = left * place * right
    share = density[x < 0].sum() + 0.5 * density[x == 0].sum()
    return float(share / density.sum()), float(np.log(density.sum() * step) + one + other)


def phi4(tilt: float) -> Target:
    """A field on 100 sites that is near −1 or near 1: the sign in the middle counts."""
    below, log_z = transfer(tilt)
    return Target(
        f"phi4-{tilt:g}",
        f"a φ⁴ chain of 100 sites, b = {tilt:g}",
        tacthmc.potential(Phi4(jnp.asarray(tilt, jnp.float32))),
        jnp.zeros(SITES),
        gaussian(0.0, 1.0, SITES),
        0.05,
        modes(lambda draws: (draws[:, SITES // 2 - 1] > 0).astype(int), [below, 1 - below]),
        log_z=log_z,
    )


def funnel_energy(x: jax.Array) -> jax.Array:
    """Neal's funnel: v = x₀ ~ N(0, 3²), the others ~ N(0, eᵛ)."""
    v, rest = x[0], x[1:]
    return v**2 / 18 + 0.5 * jnp.exp(-v) * jnp.sum(rest**2) + 0.5 * rest.shape[0] * v


def funnel() -> Target:
    """One mode with a neck: the worse of the means of v and v² counts."""
    return Target(
        "funnel",
        "Neal's funnel in 10-D",
        tacthmc.potential(funnel_energy),
        jnp.zeros(10),
        gaussian(0.0, 5.0, 10),
        0.3,
        means(lambda x: np.stack([x[:, 0], x[:, 0] ** 2], axis=1), [0.0, 9.0], [9.0, 162.0]),
        log_z=float(np.log(3) + 5 * np.log(2 * np.pi)),
    )
