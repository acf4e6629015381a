r"""One batch makes both force and energy: the friction that belongs to its noise.

A step of the tempered dynamics adds −λη·δg to r_θ and −λ′η_ξ·δU to r_ξ, with errors δg and δU of
the gradient and the energy that come from the same n examples. A thermostat for each of them does
not know what they have in common,

.. math:: c(\theta) = \mathrm{Cov}(\delta g, \delta U)
    = \frac{N^2}{n}\,\mathrm{Cov}_i\big(\nabla u_i, u_i\big) = \tfrac12\nabla v_U(\theta),

over the examples' energies u_i, nor that δU's variance v_U depends on θ. Wherever λ′ ≠ 0, c heats a
mixed mode of (r_θ, r_ξ) that neither damps, and θ arrives on the plateau displaced.

**The friction.** Momenta with the law N(0, S), S = diag(ηT, η_ξT), keep it under noise of
covariance B and the drift −F·(r_θ, r_ξ) if FS + SFᵀ = B. Of the mixed block,

.. math:: \eta_\xi T\,F_{\theta\xi} + \eta T\,F_{\xi\theta}^\top = \lambda\lambda'\eta\eta_\xi\,c,

only the sum counts (what is antisymmetric turns momenta and does no work), so that all of it can
be put on θ, F_ξθ = 0. With Δλ = λ′r_ξ/T, what λ changes by in this step, that and ξ's own
friction are

.. math::
    dr_\theta = -\lambda\eta\,\big(\tilde g + \Delta\lambda\,c\big), \qquad
    dr_\xi = -\lambda'\eta_\xi\,\big(\tilde U + \tfrac12\Delta\lambda\,v_U\big):

both are those of one energy, with a term that depends on the step,

.. math:: \tilde U(\theta) + \tfrac12\,\Delta\lambda\,v_U(\theta).

Other coordinates make nothing else of it. With θ = μ + (φ − μ)/√λ (:mod:`tacthmc.dynamics._coordinates`) ξ
feels U − ½∇U·(θ − μ) of it, which adds the −½Δλ·c·(θ − μ) that the variance of that wants; the
friction that φ and ξ share there is for the rest, noise of the force alone.

**It takes no further pass.** The batch's own estimate is

.. math:: \hat v_U = \frac{N^2}{n}\,\frac{1}{n - 1}\sum_j (u_j - \bar u)^2,

so that its gradient is one backward pass with other weights, 1 + Δλ·N/(n − 1)·(u_j − ū), for the
examples. On the plateau λ′ = 0 and it is the ordinary one. ξ's thermostat is left with the noise
that is injected, and settles at z_ξ = c_ξ/T.

**The r_ξ in Δλ** is that in the middle of the kick, r_ξ + ½η_ξ(A′ − λ′Ũ): the one before it still
knows which way the force will push, has a mean of ½η_ξ(λ′U − A′) given (θ, ξ), and makes a force
on θ of the size of what is to be cured. But then Δλ has in it −½η_ξλ′·λ′δU of the batch whose
covariance it multiplies, and with the energies' third cumulant

.. math:: \kappa_U = \mathrm{E}\,\delta U^3 = \frac{N^3}{n^2}\,\kappa_3(u_i), \qquad
    \mathrm{E}[\delta U\,\hat c\,] = \mathrm{E}[\delta U^2\,\delta g] = \tfrac13\nabla\kappa_U,

−p·⅓∇κ_U of the mean gradient is left, p = ½η_ξλ′²/T: with η_ξ(λ′)²v_U = ε, whatever N is, it
displaces θ by about ε/n in its own units, by more and more standard deviations as N grows. So it is
taken off, by the energy

.. math:: +\,\tfrac13\,p\,\hat\kappa_U, \qquad
    \hat\kappa_U = \frac{N^3}{n^2}\,\frac{n}{(n - 1)(n - 2)}\sum_j (u_j - \bar u)^3,

and of what ξ feels, where E[δU·v̂_U] = κ_U leaves −½pκ_U, by ⅙pκ̂_U more whose gradient is not
taken. Over batches the means of the corrected gradient and energy are then g + Δλ·c and U + ½Δλ·v_U with U
for Ũ in Δλ, exactly.

**Assumptions**: batches are drawn independently (with replacement; errors that an epoch takes back
are no noise of this kind, and are left as they are), and Δλ·sd(δU) ≪ 1: ξ's own friction in a step
is half the square of that. What is left is of higher order in it, with no mean over r_ξ in the
next one. The term is reduced where it, or the batch's own share of it, p·v̂_U, would be stronger
(``MAX_STRENGTH``), so that a ξ that is too light does not throw θ out.

>>> import jax.numpy as jnp, tacthmc
>>> from tacthmc.potentials import CovarianceTerm, forces
>>> data = jnp.array([0.0, 0.0, 3.0])
>>> model = tacthmc.posterior(lambda m: 0.0 * m, lambda m, x: -0.5 * (x - m) ** 2, data, 3)
>>> here = jnp.array(1.0)                       # the mean: g = 0, but examples differ
>>> term = CovarianceTerm(delta_lambda_start=jnp.array(0.1), per_energy=jnp.array(0.0))
>>> found = forces(model, here, data, correction=term)
>>> round(float(found.energy - model.energy(here)), 4), round(float(found.gradient), 3)
(0.1125, -0.45)
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tacthmc._typing import Scalar

MAX_STRENGTH = 1.0
"""Δλ·sd(δU) at most: the approximation fails beyond it, and within it the term is smaller than
the noise."""


class CovarianceTerm(NamedTuple):
    """½Δλ·v_U of one step: Δλ as far as it is known before the batch, and what Ũ takes off it."""

    delta_lambda_start: Scalar
    per_energy: Scalar
    prior: bool = True
    """Whether ξ feels the prior's energy too."""

    def xi_energy(self, likelihood: Scalar, log_prior: Scalar) -> Scalar:
        """The energy that ξ feels, of that of the likelihood and log p(θ)."""
        return likelihood - log_prior.astype(likelihood.dtype) if self.prior else likelihood

    def delta_lambda(self, energy: Scalar) -> Scalar:
        """Δλ = start − per_energy·Ũ."""
        energy = jax.lax.stop_gradient(energy)
        start = self.delta_lambda_start.astype(energy.dtype)
        return start - self.per_energy.astype(energy.dtype) * energy


def power_sums(values: Float[Array, " k"], whole: Float[Array, " n"]) -> Float[Array, " 3"]:
    """Sums of log likelihoods v (or of their changes): Σv, ½Σ(v − v̄)² and ⅓Σ(v − v̄)³.

    ``whole`` has those of the whole batch, of which ``values`` may be a device's share.
    """
    # Squares of what half precision holds may be more than it does.
    dtype = values.dtype if values.dtype.itemsize >= 4 else jnp.float32
    values, constant = values.astype(dtype), jax.lax.stop_gradient(whole).astype(dtype)
    mean = jnp.mean(constant)
    square = jnp.mean((constant - mean) ** 2)
    away = values - mean
    # v̄ is held constant, which takes −s²·Σ(v − v̄), itself zero, off the last one's gradient.
    cubes = jnp.sum(away**3) / 3 - square * jnp.sum(away)
    return jnp.stack([jnp.sum(values), 0.5 * jnp.sum(away**2), cubes])


def corrected_sum(
    sums: Float[Array, " 3"], term: CovarianceTerm, xi_energy: Scalar, size: int, num_data: int
) -> Scalar:
    """Σv of a batch, changed so that its energy −(N/n)·Σv has the covariance term in it."""
    total, squares, cubes = sums
    if size == 1:
        # One example has no variance to see.
        return total
    noise = num_data * jnp.sqrt(2 * jax.lax.stop_gradient(squares) / (size - 1) / size)
    delta = term.delta_lambda(xi_energy).astype(total.dtype)
    per_energy = term.per_energy.astype(total.dtype)
    strength = jnp.maximum(jnp.abs(delta), jnp.abs(per_energy) * noise) * noise
    reduction = 1 / jnp.maximum(1, strength / MAX_STRENGTH)
    first = (num_data / (size - 1)) * delta * squares
    if size == 2:
        return total - reduction * first
    second = num_data / (size - 1) * num_data / (size - 2) * per_energy * cubes
    # ξ feels half as much again as θ does.
    second = second + 0.5 * jax.lax.stop_gradient(second)
    return total - reduction * (first - second)
