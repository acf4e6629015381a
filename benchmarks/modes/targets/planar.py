"""Targets in the plane with many modes, or with one of a curious shape."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks.modes.targets.definition import Target, gaussian, means, modes, nearest
from benchmarks.modes.targets.quadrature import over_the_plane
from tacthmc.potentials import Energy, Potential, Traits, WrappedPotential
from tacthmc.targets import GaussianMixture
from tacthmc.targets import grid as lattice
from tacthmc.targets import ring as circle


def of_mixture(
    name: str, about: str, mixture: GaussianMixture, reach: float, reference_sd: float
) -> Target:
    """A mixture in the plane, started at the origin; a draw belongs to the nearest center."""
    label, count = nearest(np.asarray(mixture.means)), len(mixture.weights)
    scale = float(np.asarray(mixture.scale))
    step = min(scale / 4, reach / 400)
    box = ((-reach, reach), (-reach, reach))
    found = over_the_plane(mixture, label, count, box, step)
    return Target(
        name,
        about,
        tacthmc.potential(mixture),
        jnp.zeros(2),
        gaussian(0.0, reference_sd, 2),
        scale,
        modes(label, found.shares),
        log_z=found.log_z,
    )


def grid() -> Target:
    """25 Gaussians of sd 0.2 on a lattice of spacing 2, unequal weights."""
    return of_mixture("grid", "25 Gaussians on a lattice in 2-D", lattice(), 6.0, 4.0)


def ring() -> Target:
    """Eight Gaussians of sd 0.3 on a circle of radius 4, weights 1/36 to 8/36."""
    return of_mixture("ring", "8 Gaussians on a circle in 2-D", circle(), 6.0, 4.0)


GMM40_SD = 1.3133
"""The usual standard deviation, softplus(1)."""


def forty() -> GaussianMixture:
    """40 Gaussians of equal weight; their means come from NumPy's generator with seed 0.

    The means of other publications come from another generator, so numbers do not compare.
    """
    centers = np.random.default_rng(0).uniform(-40, 40, (40, 2))
    return GaussianMixture(jnp.asarray(centers, jnp.float32), jnp.ones(40), GMM40_SD)


def gmm40() -> Target:
    """40 Gaussians of sd 1.3133 with means uniform in [−40, 40]²."""
    return of_mixture("gmm40", "40 Gaussians in [−40, 40]²", forty(), 50.0, 40.0)


BANANA_SD, BEND = 10.0, 0.1


def banana_energy(x: jax.Array) -> jax.Array:
    """x₁ ~ N(0, 10²) and x₂ ~ N(0.1·(x₁² − 100), 1)."""
    across = x[1] - BEND * (x[0] ** 2 - BANANA_SD**2)
    return 0.5 * (x[0] / BANANA_SD) ** 2 + 0.5 * across**2


def banana() -> Target:
    """One bent mode: the worse of the two means counts."""
    variance = [BANANA_SD**2, 1 + 2 * BEND**2 * BANANA_SD**4]
    return Target(
        "banana",
        "a bent Gaussian in 2-D",
        tacthmc.potential(banana_energy),
        jnp.zeros(2),
        gaussian(0.0, 20.0, 2),
        1.0,
        means(lambda x: x, [0.0, 0.0], variance),
        log_z=float(np.log(2 * np.pi * BANANA_SD)),
    )


WELL_NOISE = 2.0
"""The standard deviation of the noise of each force and of the energy."""
SEEN = 2
"""Wells −2 … 2 of each coordinate are told apart; the rest counts as one label."""


class OnlyNoisy(WrappedPotential):
    """A potential whose exact energy nobody can ask for."""

    inner: Potential

    @property
    def traits(self) -> Traits:
        return self.inner.traits._replace(has_energy=False)

    def estimate(self, *seen: Any, **more: Any) -> Energy:
        return self.inner.estimate(*seen, **more)

    def full(self, position: Any) -> Energy:
        raise ValueError("this target is seen through noise alone: it has no full-data energy")


class Wells(eqx.Module):
    """U = 0.2·|β|² − 2·Σcos(2πβᵢ): a well near every pair of whole numbers."""

    def __call__(self, x: jax.Array) -> jax.Array:
        """The energy."""
        return 0.2 * jnp.sum(x**2) - 2 * jnp.sum(jnp.cos(2 * jnp.pi * x))


def well(draws: np.ndarray) -> np.ndarray:
    """The number of the well, 0 to 24, or 25 outside of the inner ones."""
    whole = np.rint(draws).astype(int)
    inside = np.all(np.abs(whole) <= SEEN, axis=1)
    side = 2 * SEEN + 1
    return np.where(inside, (whole[:, 0] + SEEN) * side + whole[:, 1] + SEEN, side**2)


def wells() -> Target:
    """25 wells and their neighbors, seen through noise that the sampler is not told of."""
    energy = Wells()
    exact = tacthmc.potential(energy)
    found = over_the_plane(energy, well, (2 * SEEN + 1) ** 2 + 1, ((-10, 10), (-10, 10)), 0.02)
    return Target(
        "wells",
        "25 wells in 2-D, noise of sd 2 in force and energy",
        OnlyNoisy(tacthmc.noisy(exact, force=WELL_NOISE, energy=WELL_NOISE)),
        jnp.zeros(2),
        gaussian(0.0, 3.0, 2),
        0.11,
        modes(well, found.shares),
        kind="noisy",
        exact=exact,
        log_z=found.log_z,
    )
