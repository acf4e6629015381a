r"""One batch makes both force and energy: the friction for what their noises have in common.

A step of the tempered dynamics adds −λη·δg to r_θ and −λ′η_ξ·δU to r_ξ, with errors δg and δU of
the gradient and the energy that come from the same n examples. The thermostats' frictions are for
each of them alone. What they have in common,

.. math:: c(\theta) = \mathrm{Cov}(\delta g, \delta U)
    = \frac{N^2}{n}\,\mathrm{Cov}_i\big(\nabla u_i, u_i\big)

over the examples' energies u_i, heats a mixed mode of (r_θ, r_ξ) that neither damps. It is there
wherever λ′ ≠ 0, pushes θ one way as ξ goes up and the other as it comes down, and θ arrives on the
plateau displaced.

**The friction that belongs to it.** Momenta with the law N(0, S), S = diag(ηT, η_ξT), keep it under
noise of covariance B and the drift −F·(r_θ, r_ξ) if FS + SFᵀ = B. Of the mixed block,

.. math:: \eta_\xi T\,F_{\theta\xi} + \eta T\,F_{\xi\theta}^\top = \lambda\lambda'\eta\eta_\xi\,c,

only the sum counts (what is antisymmetric turns momenta and does no work), so that all of it can
be put on θ, F_ξθ = 0:

.. math:: dr_\theta = -\lambda\eta\,\Big(\tilde g + \frac{\lambda' r_\xi}{T}\,c\Big).

λ′r_ξ/T is the Δλ of this step: the friction tilts the gradient. The r_ξ is that in the middle of
the kick, r_ξ + ½η_ξ(A′ − λ′Ũ): the one before it still knows which way the force will push, has a
mean of ½η_ξ(λ′U − A′) given (θ, ξ), and makes a force on θ of the size of what is to be cured.

**It costs nothing.** The batch's own estimate of c is a weighted sum of the gradients that are in g̃
already,

.. math:: \tilde g + \Delta\lambda\,\hat c = \nabla(-\log p(\theta)) + \frac Nn \sum_j \Big[
    1 + \Delta\lambda\,\frac{N}{n - 1}\,(u_j - \bar u)\Big]\nabla u_j,

one backward pass with other weights for the examples. On the plateau λ′ = 0 and it is the ordinary
gradient.

**Assumptions**: batches are drawn independently (with replacement; errors that an epoch takes back
are no noise of this kind, and are left as they are), and Δλ·sd(δU) ≪ 1: ξ's own friction in a step
is half the square of that. What is left is of higher order in it, and the tilt is held where it
would be stronger (``LIMIT``), so that a ξ that is too light does not throw θ out. It is for θ's own
coordinates: breathing (:mod:`tacthmc.breathing`) has a friction for φ and ξ in common already,
made for noise of the force alone.

>>> import jax.numpy as jnp, tacthmc
>>> from tacthmc.tilt import Tilt
>>> data = jnp.array([0.0, 0.0, 3.0])
>>> model = tacthmc.posterior(lambda m: 0.0 * m, lambda m, x: -0.5 * (x - m) ** 2, data, 3)
>>> here = jnp.array(1.0)                       # the mean: g = 0, but examples differ
>>> tilted = model.tilted(Tilt(jnp.array(0.1), jnp.array(0.0)))
>>> energy, gradient = tilted.value_and_grad(here, data)
>>> float(energy) == float(model.energy(here)), round(float(gradient), 3)     # −0.1·9·½
(True, -0.45)
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tacthmc._typing import Scalar

LIMIT = 1.0
"""Δλ·sd(δU) at most: beyond it nothing is right, and within it a tilt is smaller than the noise."""


class Tilt(NamedTuple):
    """Δλ of a step as far as it is known before the batch, and what its energy takes off."""

    start: Scalar
    per_energy: Scalar
    prior: bool = True
    """Whether ξ feels the prior's energy too."""

    def at(self, energy: Scalar) -> Scalar:
        """Δλ = start − per_energy·Ũ."""
        energy = jax.lax.stop_gradient(energy)
        return self.start.astype(energy.dtype) - self.per_energy.astype(energy.dtype) * energy


def sums(values: Float[Array, " n"]) -> Float[Array, " 2"]:
    """What a batch's log likelihoods (or what is left of them) add up to: Σv and ½Σv²."""
    return jnp.stack([jnp.sum(values), 0.5 * jnp.sum(values**2)])


def leaning(sums: Float[Array, " 2"], by: Scalar, size: int, num_data: int) -> Scalar:
    """Σv of a batch, with the gradient of Σ (1 − Δλ·N/(n − 1)·(v − v̄))·v."""
    total = sums[0]
    if size == 1:
        # One example has no spread to see.
        return total
    mean = jax.lax.stop_gradient(total) / size
    # The gradient of ½Σv² less v̄ times that of Σv is Σ (v − v̄)∇v.
    spread = sums[1] - mean * total + 0.5 * size * mean**2
    variance = 2 * jax.lax.stop_gradient(spread) / (size - 1)
    noise = num_data * jnp.sqrt(jnp.maximum(variance, 0) / size)
    by = by.astype(total.dtype)
    held = by / jnp.maximum(1, jnp.abs(by) * noise / LIMIT)
    added = -(num_data / (size - 1)) * held * spread
    return total + (added - jax.lax.stop_gradient(added))
