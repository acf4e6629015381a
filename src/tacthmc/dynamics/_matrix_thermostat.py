"""The full-matrix thermostat of the paper's Eq. 5."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._positions import dimension, flatten, unflatten
from tacthmc._typing import Position, Rate, Scalar
from tacthmc.dynamics._noise_levels import NoiseLevels
from tacthmc.dynamics._step_rates import StepMomenta, StepRates
from tacthmc.dynamics._thermostat import Inertia, Shape, Thermostat


class MatrixThermostat(Thermostat):
    r"""The full D×D matrix of the paper's Eq. 5, for correlated, anisotropic noise.

    .. math::
        dr_i = -\frac{\lambda^2}{m_i}\sum_j z_{ij} r_j, \qquad
        dz_{ij} = \frac{\lambda^2}{\gamma}\,\Big(r_i r_j - \frac{\eta T}{m_i}\delta_{ij}\Big)

    This is Eq. 5 with S = z·M⁻¹/Δt and inertia κ_ij = κ·m_j²: the one choice for which z
    stays symmetric under unequal masses. The antisymmetric part of Eq. 5 never moves (it is
    conserved), so the system is not ergodic in S; θ, r and the diagonal have Theorem 1's law,
    z_ii ~ N((c + η·V_ii/2)/T, ηT/γ), off-diagonal entries half that variance.

    It costs D² memory and up to three D×D eigendecompositions per step, so it is for small D.

    >>> import jax.numpy as jnp
    >>> MatrixThermostat().init(jnp.zeros(3), jnp.array(0.1)).shape
    (3, 3)
    """

    inertia: Inertia
    shape: Shape = eqx.field(static=True)
    largest: int = eqx.field(static=True)

    def __init__(self, gamma: Rate | None = None, steps: Rate | None = None, largest: int = 512):
        """Use the inertia γ (``gamma``) or Γ (``steps``), in at most ``largest`` dimensions."""
        checks.whole("largest", largest, 1)
        self.inertia, self.shape, self.largest = Inertia(gamma, steps), "isotropic", largest

    def init(self, position: Position, friction: Scalar) -> Array:
        """z = (c/T)·I."""
        size = dimension(position)
        if size > self.largest:
            raise ValueError(
                f"a matrix thermostat for {size} dimensions holds {size}² numbers and decomposes"
                f" them each step; use DiagonalThermostat, or raise largest={self.largest}"
            )
        return friction * jnp.eye(size, dtype=friction.dtype)

    def update(self, z: Array, r: Position, m: Position, rates: StepRates, weight: Scalar) -> Array:
        """z += weight·(r rᵀ − ηT·M⁻¹)/γ."""
        flat, mass = flatten(r, z.dtype), flatten(m, z.dtype)
        rate = weight / self.inertia.at(rates.step, rates.eta, rates.bath)
        return z + rate * (jnp.outer(flat, flat) - jnp.diag(rates.eta * rates.bath / mass))

    def finish_step(self, z: Array, friction: Array, momenta: StepMomenta) -> Array:
        """The diagonal by the mean of the momenta, the other elements by the momenta themselves.

        The other elements hold nothing at a temperature. Products of the mean would drive z_ij away
        where curvatures differ.
        """
        s = momenta
        plain = super().finish_step(z, friction, momenta)
        flat = flatten(s.mean, z.dtype)
        root = jnp.sqrt(flatten(s.mass, z.dtype))
        values, vectors = jnp.linalg.eigh(s.mean_friction / jnp.outer(root, root))
        factor = vectors**2 @ jnp.exp(-0.5 * s.weight * values) / root**2
        rate = s.weight / self.inertia.at(s.rates.step, s.rates.eta, s.rates.bath)
        diagonal = jnp.diagonal(z) + rate * (flat**2 - s.rates.eta * s.rates.bath * factor)
        return jnp.where(jnp.eye(len(root), dtype=bool), jnp.diag(diagonal), plain)

    def apply(
        self, z: Array, m: Position, function: Callable[[Array], Array]
    ) -> Callable[[Position], Position]:
        """r ↦ function(M⁻¹z)·r, through the symmetric M^{-1/2} z M^{-1/2}."""
        root = jnp.sqrt(flatten(m, z.dtype))
        values, vectors = jnp.linalg.eigh(z / jnp.outer(root, root))
        factors = function(values)

        def act(r: Position) -> Position:
            y = vectors.T @ (root * flatten(r, z.dtype))
            return unflatten((vectors @ (factors * y)) / root, r)

        return act

    def drag(self, z: Array, r: Position, m: Position, weight: Scalar) -> Position:
        """weight·M⁻¹z·r."""
        mass = flatten(m, z.dtype)
        return unflatten(weight * (z @ flatten(r, z.dtype)) / mass, r)

    def level(self, z: Array) -> Scalar:
        """The mean of the diagonal."""
        return jnp.mean(jnp.diagonal(z))

    def level_law(
        self, position: Position, noise: NoiseLevels, rates: StepRates
    ) -> tuple[float, float]:
        """Mean (c + ηv/2)/T with v the mean diagonal of V_f, variance ηT/(γD)."""
        mean = noise.friction(rates, noise.all_coordinates())
        return mean, self.inertia.level_variance(rates, 1) / dimension(position)
