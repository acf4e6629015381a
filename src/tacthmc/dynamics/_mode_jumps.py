r"""Jumps within and between known modes, accepted by the Metropolis rule on exact energies.

If the modes of a posterior are known, each with a center μ_k and a scale L_k, a move maps a place
in mode i to the corresponding place in mode j, or to one nearby:

.. math::
    \theta' = \mu_j + L_j z', \qquad z' = \rho z + \sqrt{1 - \rho^2}\,n, \qquad
    z = L_i^{-1}(\theta - \mu_i), \quad n \sim N(0, I).

**The rule.** Let q be the standard normal density, z_k = L_k⁻¹(θ − μ_k), and let
:math:`m(\theta) = \sum_k w_k\,q(z_k)/|L_k|` be the mixture of the modes. A move draws i from the
responsibilities of the modes for θ, and j from the weights w. Half of the moves to another mode
have ρ = 1, which keeps z; the others, and moves within a mode, draw ρ from [0, 1]. A move is
accepted with the probability

.. math:: \min\Big(1,\ \frac{\pi(\theta')/m(\theta')}{\pi(\theta)/m(\theta)}\Big).

**Invariant density.** The move leaves π invariant for any list of modes. Extend π to pairs (θ, i)
with the density :math:`\pi(\theta)\,w_i\,q(z_i)/(|L_i|\,m(\theta))`. Drawing i is a Gibbs step. The
map from z to z′ is reversible with respect to q, as is that of Crank and Nicolson, and θ′ has the
Jacobian |L_j|/|L_i|. So the ratio above is that of Metropolis and Hastings for a proposal that
draws j from w (Tjelmeland and Hegland 2001; Pompe, Holmes and Łatuszyński 2020). A wrong list costs
acceptance, not correctness.

**Acceptance.** If modes are far apart, q cancels for ρ = 1, and the ratio compares the shapes of
the modes after the map. It is one if the modes are affine images of each other, in any dimension.
Gaussian modes are, and so are the copies that a symmetry makes, such as label switching. With
ρ < 1 the ratio is one for Gaussian modes only. Then a move makes a draw that is nearly independent.

**Assumption.** The energies are exact: the energy of a mini-batch would accept the wrong share.

References: H. Tjelmeland, B. Hegland. *Mode jumping proposals in MCMC.* Scand. J. Statist. 2001.
E. Pompe, C. Holmes, K. Łatuszyński. *A framework for adaptive MCMC targeting multimodal
distributions.* Ann. Statist. 2020. S. Cotter, G. Roberts, A. Stuart, D. White. *MCMC methods for
functions.* Statist. Sci. 2013.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from tacthmc import _checks as checks
from tacthmc._positions import flatten, scalar_dtype, unflatten
from tacthmc._typing import Position, PRNGKey, Scalar
from tacthmc.potentials import Potential

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
"""The logarithm of √(2π)."""

KEEPING_SHARE = 0.5
"""The share of moves between modes that keep z."""


class Modes(eqx.Module):
    """A list of modes: θ ≈ μ_k + L_k z in mode k, where z has unit covariance.

    >>> import jax.numpy as jnp
    >>> modes = Modes(jnp.array([[-3.0], [3.0]]), jnp.ones((2, 1, 1)), jnp.array([0.7, 0.3]))
    >>> int(modes.nearest(jnp.array([-2.0])))
    0
    """

    centers: Float[Array, "*c k d"]
    """μ_k, in the order of the leaves of the position."""
    scales: Float[Array, "*c k d d"] | Float[Array, "*c k d"]
    """L_k: lower triangular matrices, or the diagonals of diagonal ones."""
    inverses: Float[Array, "*c k d d"] | Float[Array, "*c k d"]
    """L_k⁻¹, because a product takes less time than solving triangular equations."""
    log_weights: Float[Array, "*c k"]
    """log w_k."""

    def __init__(self, centers: Any, scales: Any, weights: Any):
        """Check and normalize; ``weights`` are estimates of the masses of the modes."""
        named = (("centers", centers), ("scales", scales), ("weights", weights))
        means, lengths, masses = (
            np.asarray(checks.quiet_array(name, x), float) for name, x in named
        )
        dtype = _dtype(centers)
        _check_modes(means, lengths, masses)
        inverses = 1 / lengths if lengths.ndim == 2 else np.linalg.inv(lengths)
        self.centers, self.scales = jnp.asarray(means, dtype), jnp.asarray(lengths, dtype)
        self.inverses = jnp.asarray(inverses, dtype)
        self.log_weights = jnp.asarray(np.log(masses / masses.sum()), dtype)

    @property
    def count(self) -> int:
        """The number of modes."""
        return self.log_weights.shape[-1]

    def standardized(self, vector: Float[Array, " d"]) -> Float[Array, "k d"]:
        """L_k⁻¹(θ − μ_k) for every mode."""
        offsets = vector[None, :] - self.centers.astype(vector.dtype)
        inverses = self.inverses.astype(vector.dtype)
        if inverses.ndim == 2:
            return offsets * inverses
        return jnp.einsum("kij,kj->ki", inverses, offsets, precision="highest")

    def log_parts(self, z: Float[Array, "k d"]) -> Float[Array, " k"]:
        """log(w_k·q(z_k)/|L_k|)."""
        diagonals = self.scales
        if diagonals.ndim == 3:
            diagonals = jnp.diagonal(diagonals, axis1=1, axis2=2)
        volumes = jnp.sum(jnp.log(jnp.abs(diagonals)), axis=1) + z.shape[1] * HALF_LOG_2PI
        return (self.log_weights - volumes).astype(z.dtype) - 0.5 * jnp.sum(z * z, axis=1)

    def log_density(self, vector: Float[Array, " d"]) -> Scalar:
        """log m(θ)."""
        return jax.nn.logsumexp(self.log_parts(self.standardized(vector)))

    def nearest(self, vector: Float[Array, " d"]) -> Int[Array, ""]:
        """The mode with the largest responsibility for θ."""
        return jnp.argmax(self.log_parts(self.standardized(vector)))

    def mapped(self, z: Float[Array, " d"], mode: Int[Array, ""]) -> Float[Array, " d"]:
        """μ_j + L_j z."""
        center, scale = self.centers[mode].astype(z.dtype), self.scales[mode].astype(z.dtype)
        moved = scale * z if scale.ndim == 1 else jnp.matmul(scale, z, precision="highest")
        return center + moved

    def proposed(self, key: PRNGKey, vector: Float[Array, " d"]) -> Float[Array, " d"]:
        """The goal θ′ of a move from θ."""
        keys = jax.random.split(key, 5)
        each = self.standardized(vector)
        i = jax.random.categorical(keys[0], self.log_parts(each))
        j = jax.random.categorical(keys[1], self.log_weights)
        z = each[i]
        keeps = (i != j) & jax.random.bernoulli(keys[2], KEEPING_SHARE)
        rho = jnp.where(keeps, 1, jax.random.uniform(keys[3], dtype=z.dtype))
        normal = jax.random.normal(keys[4], z.shape, z.dtype)
        return self.mapped(rho * z + jnp.sqrt(1 - rho**2) * normal, j)


def _dtype(centers: Any) -> jnp.dtype:
    """The dtype of the centers, or the default one if they have no floating-point dtype."""
    dtype = jnp.asarray(centers).dtype
    return dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.zeros(()).dtype


def _check_modes(centers: np.ndarray, scales: np.ndarray, weights: np.ndarray) -> None:
    """Raise an error for numbers that are no list of modes."""
    count, size = centers.shape if centers.ndim == 2 else (0, 0)
    shapes = (count, size), (count, size, size)
    if not count or scales.shape not in shapes or weights.shape != (count,):
        raise ValueError(
            "Modes needs centers of shape (k, d), scales of shape (k, d, d) or (k, d), and k"
            f" weights; got {centers.shape}, {scales.shape} and {weights.shape}"
        )
    for weight in weights:
        checks.positive("weights", float(weight))
    diagonals = scales
    if scales.ndim == 3:
        diagonals = np.diagonal(scales, axis1=1, axis2=2)
        # The volume of L is the product of its diagonal.
        if np.triu(scales, 1).any():
            raise ValueError("Modes.scales must be lower triangular, such as Cholesky factors")
    if not (np.isfinite(centers).all() and np.isfinite(scales).all() and diagonals.all()):
        raise ValueError(
            "Modes needs finite centers, and finite scales without a zero diagonal; got"
            f" {centers} and {scales}"
        )


class Jump(NamedTuple):
    """The result of one move."""

    position: Position
    energy: Scalar
    """U of all data at the position."""
    accepted: Bool[Array, ""]
    log_ratio: Scalar
    """log(π/m)(θ′) − log(π/m)(θ) of the proposal."""


class ModeJumps(eqx.Module):
    """Moves within and between known modes, one every ``every`` steps, for :func:`tacthmc.tact`.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> means, weights = jnp.array([[-6.0], [6.0]]), jnp.array([0.7, 0.3])
    >>> target = tacthmc.potential(tacthmc.targets.GaussianMixture(means, weights, 1.0))
    >>> modes = Modes(means, jnp.ones((2, 1)), jnp.array([0.5, 0.5]))
    >>> jumps = ModeJumps(modes)
    >>> sampler = tacthmc.sgnht(0.1, jumps=jumps)
    >>> run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(1), 20_000, 4,
    ...                      progress=False)
    >>> bool(abs((run.draws < 0).mean() - 0.7) < 0.05)
    True
    """

    modes: Modes
    every: int = eqx.field(static=True)

    def __init__(self, modes: Modes, every: int = 10):
        """Jump between ``modes``, about once every ``every`` steps.

        A run jumps at the end of its intervals of ``Keep.every`` steps, and skips some if they are
        shorter than ``every``.
        """
        checks.instance("modes", modes, Modes, "a tacthmc.dynamics.Modes")
        checks.whole("every", every, 1)
        self.modes, self.every = modes, every

    @property
    def energies_per_move(self) -> int:
        """The number of full-data energies of a move."""
        return 2

    def move(self, key: PRNGKey, position: Position, potential: Potential) -> Jump:
        """One attempt from θ."""
        goal, uniform = jax.random.split(key)
        here = flatten(position, scalar_dtype(position))
        if here.size != (size := self.modes.centers.shape[-1]):
            raise ValueError(
                f"the modes of jumps have {size:,} coordinates, and the position has {here.size:,}"
            )
        there = self.modes.proposed(goal, here)
        proposed = unflatten(there, position)
        before = potential.energy(position).astype(here.dtype)
        after = potential.energy(proposed).astype(here.dtype)
        log_ratio = before - after + self.modes.log_density(here) - self.modes.log_density(there)
        # An energy that is not finite makes the comparison false.
        accepted = jnp.log(jax.random.uniform(uniform, dtype=here.dtype)) < log_ratio
        moved = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), proposed, position)
        return Jump(moved, jnp.where(accepted, after, before), accepted, log_ratio)
