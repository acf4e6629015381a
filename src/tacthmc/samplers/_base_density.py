r"""A base density for a potential: U = U_base + (U − U_base), and λ multiplies the second part.

.. math:: \pi(\theta \mid \lambda) \propto
    \exp\big(-(1 - \lambda)\,U_{base}(\theta) - \lambda\,U(\theta)\big)

joins the base (λ = 0) and the target (λ = 1) by a geometric path. :mod:`tacthmc.potentials` calls
the first part fixed and the second tempered, as in :func:`tacthmc.temper_likelihood`, where the
prior is the base. Draws, weights and energies are then those of any potential that is tempered in
part.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._positions import scalar_dtype, spread, total
from tacthmc._typing import Batch, Position
from tacthmc.potentials import (
    CovarianceTerm,
    Energy,
    NoBatches,
    Potential,
    Traits,
    WrappedPotential,
)


class GaussianBase(Potential):
    """A normalized Gaussian with independent coordinates, as made by :func:`gaussian_base`."""

    mean: Any
    scale: Any

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        return self.full(position)._replace(model=model)

    def full(self, position: Any) -> Energy:
        """Σ ½((θ − mean)/scale)² + log scale + ½ log 2π."""

        def one(x: Array, mean: Array, scale: Array) -> Array:
            widths = jnp.broadcast_to(jnp.log(scale), x.shape)
            return jnp.sum(0.5 * ((x - mean) / scale) ** 2 + widths + 0.5 * np.log(2 * np.pi))

        mean, scale = (spread(getattr(self, n), position, n) for n in ("mean", "scale"))
        sums = jax.tree.leaves(jax.tree.map(one, position, mean, scale))
        return Energy.all_tempered(total(sums, scalar_dtype(position)))

    def drawn(self, normal: Position) -> Position:
        """mean + scale·n for standard normals n in the shape of a position."""
        mean, scale = (spread(getattr(self, n), normal, n) for n in ("mean", "scale"))
        return jax.tree.map(lambda n, m, s: m + s * n, normal, mean, scale)


class BasedPotential(WrappedPotential):
    """U0 = U_base, U1 = U − U_base, as made by :func:`with_base`."""

    inner: Potential
    base: Potential

    @property
    def traits(self) -> Traits:
        """No covariance term: the inner energy would add it for its own λ."""
        return self.inner.traits._replace(is_split=True, independent_batches=False)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """The base is exact; U1 has the noise of the batch."""
        return self._split(position, self.inner.estimate(position, batch, model))

    def full(self, position: Any) -> Energy:
        return self._split(position, self.inner.full(position))

    def _split(self, position: Any, energy: Energy) -> Energy:
        value = energy.total
        base = self.base.energy(position).astype(value.dtype)
        return Energy(base, value - base, energy.model)


def gaussian_base(mean: Any = 0.0, scale: Any = 1.0) -> GaussianBase:
    """A base density: a normalized Gaussian with independent coordinates, for :func:`with_base`.

    ``mean`` and ``scale`` (the standard deviation) are numbers, or pytrees that match the position
    with numbers or arrays. A good base covers the target and is not much wider.

    >>> import jax.numpy as jnp
    >>> base = gaussian_base(mean=1.0, scale=2.0)
    >>> round(float(base.energy({"a": jnp.ones(2), "b": jnp.array(3.0)})), 4)      # ½ + 3·log √(8π)
    5.3363
    """
    for leaf in jax.tree.leaves(mean, is_leaf=lambda x: x is None):
        checks.all_finite("mean", leaf)
    for leaf in jax.tree.leaves(scale, is_leaf=lambda x: x is None):
        checks.all_positive("scale", leaf)
    # Arrays, so that another base reuses the compiled program.
    return GaussianBase(*jax.tree.map(lambda x: jnp.asarray(x, float), (mean, scale)))


def with_base(potential: Potential, base: Potential) -> BasedPotential:
    r"""A potential whose tempered part ends at a base density instead of at a high temperature.

    .. math:: \pi(\theta \mid \lambda) \propto
        \pi_{base}(\theta)^{1 - \lambda}\,e^{-\lambda U(\theta)}

    With a normalized base, the normalizer at λ = 1 is that of exp(−U). A posterior with a proper
    prior has a base already: :func:`tacthmc.temper_likelihood`.

    Args:
        potential: U, not tempered in part already.
        base: U_base, an energy without noise: :func:`gaussian_base`, or a
            :func:`tacthmc.potential` of the negative log of a density. Without that density's
            normalizer, evidences are relative to it.

    >>> import jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> base = tacthmc.potential(lambda x: 0.1 * jnp.sum(x**2))
    >>> energy = with_base(target, base).full(jnp.ones(5))
    >>> float(energy.fixed), float(energy.tempered)
    (0.5, 2.0)
    """
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.instance(
        "base", base, Potential, "a Potential, such as samplers.gaussian_base(0.0, 5.0)"
    )
    if potential.traits.is_split:
        raise ValueError("a part of the potential is tempered already: choose one of the two")
    if not (isinstance(base.batches, NoBatches) and base.traits.has_energy):
        raise ValueError(
            "base must be an energy without noise or data, such as samplers.gaussian_base or a"
            f" tacthmc.potential; got a {type(base).__name__}"
        )
    return BasedPotential(potential, base)
