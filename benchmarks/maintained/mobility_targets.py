"""What mobility is measured on: two Gaussians whose weights are known, as three problems.

All are :func:`pair`, turned and shifted at random: by itself (noise is added to it), spread over
examples of which mini-batches are drawn (:func:`of_examples`), and as what a likelihood makes of a
wide prior in a few directions out of many (:func:`in_a_wide_prior`).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import tacthmc
from tacthmc.potentials import Posterior
from tacthmc.targets import GaussianMixture

APART, WEIGHTS = 6.0, (0.7, 0.3)


def pair(dimension: int, seed: int = 0) -> GaussianMixture:
    """Two unit Gaussians six apart along a random direction, somewhere."""
    where, along = jax.random.split(jax.random.key(1000 + seed))
    direction = jax.random.normal(along, (dimension,))
    direction = direction / jnp.linalg.norm(direction)
    middle = 5 * jax.random.normal(where, (dimension,))
    offsets = jnp.outer(jnp.array([-APART / 2, APART / 2]), direction)
    return GaussianMixture(middle[None, :] + offsets, jnp.array(WEIGHTS), 1.0)


NUM_DATA, BATCH_SIZE = 1_000, 10
CURVATURE = 0.3
"""The noise of Ũ's curvature in each coordinate, as a share of that of its slope."""


def summing_to_zero(key: Any, shape: tuple[int, ...], sd: float) -> Float[Array, "..."]:
    """Normals whose sum over the first axis is zero exactly, in whatever order they are added.

    They are whole multiples of a power of two, small enough for float32 to add them exactly.
    """
    unit = 2.0 ** np.floor(np.log2(sd / 1024))
    normals = np.asarray(jax.random.normal(key, shape), float)
    whole = np.rint((normals - normals.mean(axis=0)) * sd / unit)
    whole[-1] -= whole.sum(axis=0)  # what rounding left: some ten units, a hundredth of sd
    return jnp.asarray(whole * unit, jnp.float32)


class PerExample(eqx.Module):
    """log p(x_i | θ) = −U(θ)/N − ε_i·(θ − c) − ½(θ − c)ᵀdiag(d_i)(θ − c) − a_i.

    With Σε_i = 0, Σd_i = 0 and Σa_i = 0 the examples' energies sum to U(θ).
    """

    whole: GaussianMixture
    center: Float[Array, " d"]
    num_data: int = eqx.field(static=True)

    def __call__(self, theta: Any, examples: dict[str, Any]) -> Any:
        """One number for each example of a batch."""
        away = theta - self.center
        own = examples["tilt"] @ away + 0.5 * (examples["curvature"] @ away**2)
        return -(self.whole(theta) / self.num_data + own + examples["constant"])


def nothing(theta: Any) -> Any:
    """The log of a flat prior."""
    return jnp.zeros((), theta.dtype)


def of_examples(
    target: GaussianMixture, noise: float, curvature: float = CURVATURE, seed: int = 0
) -> Posterior:
    """A posterior over data whose law is the target's exactly, and whose mini-batches differ.

    ``noise`` is the standard deviation that batches give to each coordinate of Ũ's slope at c,
    and to Ũ itself there; ``curvature`` that of its curvature, in units of the slope's. One batch
    gives force and energy. Away from c the energy's noise is about ε·(θ − c): it goes with the
    force's, and grows as √D.
    """
    dimension = target.means.shape[1]
    tilts, curvatures, constants = jax.random.split(jax.random.key(2000 + seed), 3)
    # N/n times a sum over n examples has the standard deviation N/√n times one example's.
    one = noise * np.sqrt(BATCH_SIZE) / NUM_DATA
    shape = (NUM_DATA, dimension)
    bent = summing_to_zero(curvatures, shape, curvature * one) if curvature else jnp.zeros(shape)
    data = {
        "tilt": summing_to_zero(tilts, shape, one),
        "curvature": bent,
        "constant": summing_to_zero(constants, shape[:1], one),
    }
    likelihood = PerExample(target, jnp.mean(target.means, axis=0), NUM_DATA)
    return tacthmc.posterior(nothing, likelihood, data, BATCH_SIZE, batched=True)


PRIOR_SD = 2.0
"""That of the wide prior; what the likelihood determines has the standard deviation 1."""


class Subspace(eqx.Module):
    """A mixture that only some directions of θ see: y = Bᵀ(θ − m), B with orthonormal columns."""

    mixture: GaussianMixture
    """In y."""
    basis: Float[Array, "n d"]
    middle: Float[Array, " n"]

    def seen(self, theta: Any) -> Any:
        """Y, of one θ or of many."""
        return (theta - self.middle) @ self.basis

    @property
    def start(self) -> Array:
        """The center of the first mode."""
        return self.middle + self.basis @ self.mixture.means[0]

    def log_prior(self, theta: Any) -> Any:
        """A Gaussian about m, alike in all directions."""
        return -0.5 * jnp.sum((theta - self.middle) ** 2) / PRIOR_SD**2

    def log_likelihood(self, theta: Any, examples: Any) -> Any:
        """What makes the mixture of the prior in y; one example."""
        seen = self.seen(theta)
        prior = -0.5 * jnp.sum(seen**2) / PRIOR_SD**2
        return (-self.mixture(seen) - prior) + jnp.zeros_like(examples)


def in_a_wide_prior(dimension: int, effective: int, seed: int = 0) -> tuple[Subspace, Posterior]:
    """The pair in ``effective`` random directions; in the others, the prior alone.

    The prior is wider than the modes, so that the likelihood has something to say in each of its
    directions. It has one example: there are no mini-batches here.
    """
    where, turned, along = jax.random.split(jax.random.key(3000 + seed), 3)
    basis, _ = jnp.linalg.qr(jax.random.normal(turned, (dimension, effective)))
    direction = jax.random.normal(along, (effective,))
    direction = direction / jnp.linalg.norm(direction)
    offsets = jnp.outer(jnp.array([-APART / 2, APART / 2]), direction)
    mixture = GaussianMixture(offsets, jnp.array(WEIGHTS), 1.0)
    target = Subspace(mixture, basis, 5 * jax.random.normal(where, (dimension,)))
    data = jnp.zeros(1)
    return target, tacthmc.posterior(target.log_prior, target.log_likelihood, data, 1, batched=True)
