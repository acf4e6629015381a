r"""The covariance term: the friction for mini-batch noise that θ and ξ share.

A step of the tempered dynamics adds −λη·δg to r_θ and −λ′η_ξ·δU to r_ξ. The errors δg of the
gradient and δU of the energy come from the same n examples. Two separate thermostats cannot
remove the effect of their covariance,

.. math:: c(\theta) = \mathrm{Cov}(\delta g, \delta U)
    = \frac{N^2}{n}\,\mathrm{Cov}_i\big(\nabla u_i, u_i\big) = \tfrac12\nabla v_U(\theta),

over the energies u_i of the examples; nor does either thermostat know that the variance v_U of δU
depends on θ. Wherever λ′ ≠ 0, c heats a mixed mode of (r_θ, r_ξ) that neither thermostat damps, and
θ arrives on the plateau displaced.

**The friction.** The law N(0, S) of the momenta, S = diag(ηT, η_ξT), is invariant under noise of
covariance B and the drift −F·(r_θ, r_ξ) if FS + SFᵀ = B. For the mixed block,

.. math:: \eta_\xi T\,F_{\theta\xi} + \eta T\,F_{\xi\theta}^\top = \lambda\lambda'\eta\eta_\xi\,c,

only the sum matters, because the antisymmetric part rotates momenta and does no work. All of it can
therefore act on θ, with F_ξθ = 0. Let Δλ = λ′r_ξ/T, the change of λ in this step. The mixed
friction and the friction of ξ itself are

.. math::
    dr_\theta = -\lambda\eta\,\big(\tilde g + \Delta\lambda\,c\big), \qquad
    dr_\xi = -\lambda'\eta_\xi\,\big(\tilde U + \tfrac12\Delta\lambda\,v_U\big).

Both follow from one energy, with a term that depends on the step:

.. math:: \tilde U(\theta) + \tfrac12\,\Delta\lambda\,v_U(\theta).

This holds in other coordinates too. With θ = μ + (φ − μ)/√λ (:mod:`tacthmc.dynamics._coordinates`)
the energy that acts on ξ is U − ½∇U·(θ − μ). Its part of this term, −½Δλ·c·(θ − μ), is what the
variance of that energy requires. The cross friction of φ and ξ then accounts for the rest, the
noise of the force alone.

**The cost is no further pass.** The estimate from the batch itself is

.. math:: \hat v_U = \frac{N^2}{n}\,\frac{1}{n - 1}\sum_j (u_j - \bar u)^2.

Its gradient takes the same backward pass, with the weights 1 + Δλ·N/(n − 1)·(u_j − ū) for the
examples. On the plateau λ′ = 0 and the weights are the ordinary ones. The thermostat of ξ is left
with the injected noise only and settles at z_ξ = c_ξ/T.

**The r_ξ in Δλ** is the one in the middle of the kick, r_ξ + ½η_ξ(A′ − λ′Ũ). The momentum before
the kick is not independent of the coming force: given (θ, ξ), its mean is ½η_ξ(λ′U − A′), which
would cause a force on θ as large as the effect to be removed. But the momentum in the middle makes
Δλ contain −½η_ξλ′·λ′δU, with the error of the same batch whose covariance it multiplies. With the
third cumulant of the energies,

.. math:: \kappa_U = \mathrm{E}\,\delta U^3 = \frac{N^3}{n^2}\,\kappa_3(u_i), \qquad
    \mathrm{E}[\delta U\,\hat c\,] = \mathrm{E}[\delta U^2\,\delta g] = \tfrac13\nabla\kappa_U,

this leaves −p·⅓∇κ_U in the mean gradient, p = ½η_ξλ′²/T. Where η_ξ(λ′)²v_U = ε for every N, it
displaces θ by about ε/n in its own units, which is more and more standard deviations as N grows.
The energy

.. math:: +\,\tfrac13\,p\,\hat\kappa_U, \qquad
    \hat\kappa_U = \frac{N^3}{n^2}\,\frac{n}{(n - 1)(n - 2)}\sum_j (u_j - \bar u)^3,

removes it. In the energy that acts on ξ, E[δU·v̂_U] = κ_U leaves −½pκ_U, so another ⅙pκ̂_U is added
there, whose gradient is not taken. Averaged over batches, the corrected gradient and energy are
then exactly g + Δλ·c and U + ½Δλ·v_U, with U for Ũ in Δλ.

**Assumptions.** Batches are drawn independently, with replacement. (The errors of an epoch cancel
within it and are not noise of this kind; they are left as they are.) And Δλ·sd(δU) ≪ 1: the
friction of ξ in a step is half the square of that. The remainder is of higher order in it, and its
next order has no mean over r_ξ. The term is reduced where it, or its part p·v̂_U from the batch
itself, would be stronger than ``MAX_STRENGTH``, so that a ξ that is too light does not displace θ.

>>> import jax.numpy as jnp, tacthmc
>>> from tacthmc.potentials import CovarianceTerm, forces
>>> data = jnp.array([0.0, 0.0, 3.0])
>>> model = tacthmc.posterior(lambda m: 0.0 * m, lambda m, x: -0.5 * (x - m) ** 2, data, 2)
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
"""The largest Δλ·sd(δU). Beyond it the approximation fails; below it the term is smaller than the
noise."""


class CovarianceTerm(NamedTuple):
    """The term ½Δλ·v_U of one step, where Δλ = start − per_energy·Ũ."""

    delta_lambda_start: Scalar
    """The part of Δλ that is known before the batch."""
    per_energy: Scalar
    """By how much Δλ falls per unit of the batch's energy."""
    prior: bool = True
    """Whether the energy of the prior acts on ξ too."""

    def xi_energy(self, likelihood: Scalar, log_prior: Scalar) -> Scalar:
        """The energy that acts on ξ, from the energy of the likelihood and log p(θ)."""
        return likelihood - log_prior.astype(likelihood.dtype) if self.prior else likelihood

    def delta_lambda(self, energy: Scalar) -> Scalar:
        """Δλ = start − per_energy·Ũ."""
        energy = jax.lax.stop_gradient(energy)
        start = self.delta_lambda_start.astype(energy.dtype)
        return start - self.per_energy.astype(energy.dtype) * energy


def power_sums(values: Float[Array, " k"], whole: Float[Array, " n"]) -> Float[Array, " 3"]:
    """Sums over log likelihoods v (or their changes): Σv, ½Σ(v − v̄)² and ⅓Σ(v − v̄)³.

    ``whole`` holds the values of the whole batch; ``values`` may be the share of one device.
    """
    # The square of a number may overflow in half precision.
    dtype = values.dtype if values.dtype.itemsize >= 4 else jnp.float32
    values, constant = values.astype(dtype), jax.lax.stop_gradient(whole).astype(dtype)
    mean = jnp.mean(constant)
    square = jnp.mean((constant - mean) ** 2)
    away = values - mean
    # v̄ is held constant. The term −s²·Σ(v − v̄) is zero and supplies the gradient through v̄.
    cubes = jnp.sum(away**3) / 3 - square * jnp.sum(away)
    return jnp.stack([jnp.sum(values), 0.5 * jnp.sum(away**2), cubes])


def corrected_sum(
    sums: Float[Array, " 3"], term: CovarianceTerm, xi_energy: Scalar, size: int, num_data: int
) -> Scalar:
    """Σv of a batch, changed so that the energy −(N/n)·Σv includes the covariance term."""
    total, squares, cubes = sums
    if size == 1:
        # The variance cannot be estimated from one example.
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
    # The energy that acts on ξ takes half as much again, without its gradient.
    second = second + 0.5 * jax.lax.stop_gradient(second)
    return total - reduction * (first - second)
