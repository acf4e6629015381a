"""Force control variates: less mini-batch noise near a fixed point."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc import _checks as checks
from tacthmc._positions import finite
from tacthmc._typing import Batch, Position, Scalar
from tacthmc.compiler._async_jit import forget_outdated
from tacthmc.potentials._base import Energy, Potential, Traits, WrappedPotential
from tacthmc.potentials._batch_noise import CovarianceTerm


class ControlVariatePotential(WrappedPotential):
    """An estimate corrected by that of the same batch at a center, where U and ∇U are known."""

    inner: Potential
    center: Position
    center_energy: Scalar
    center_gradient: Position

    @property
    def traits(self) -> Traits:
        """No covariance term: the remaining noise is not that of the energies of the examples."""
        return self.inner.traits._replace(independent_batches=False)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """Ũ with the control variate. The covariance term does not apply to its noise."""
        _check_alike(self.center, position)
        estimate = self.inner.estimate(position, batch, model)
        value = estimate.total
        there, slope = self.inner.value_and_grad(self.center, batch)
        products = jax.tree.map(
            lambda s, g, x, c: jnp.sum((s - g) * (x - c)).astype(value.dtype),
            slope,
            self.center_gradient,
            position,
            self.center,
        )
        linear = sum(jax.tree.leaves(products), jnp.zeros_like(value))
        return Energy.all_tempered(value - there + self.center_energy - linear, estimate.model)

    def full(self, position: Any) -> Energy:
        return self.inner.full(position)


def _check_alike(center: Position, position: Position) -> None:
    """Require a center like the position; a smaller one would be broadcast without an error."""
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (center, position)]
    if jax.tree.structure(center) != jax.tree.structure(position) or shapes[0] != shapes[1]:
        raise ValueError(
            f"center must have the leaves of the position, of shape {shapes[1]}; got {shapes[0]}"
        )


def control_variates(potential: Potential, center: Any) -> ControlVariatePotential:
    r"""Reduce mini-batch noise by a linear control variate around ``center`` (θ̂, a mode).

    .. math::
        \tilde f_{cv}(\theta) = \tilde f(\theta) - \tilde f(\hat\theta) + f(\hat\theta), \qquad
        \tilde U_{cv}(\theta) = \tilde U(\theta) - \tilde U(\hat\theta) + U(\hat\theta)
            - (\nabla\tilde U(\hat\theta) - \nabla U(\hat\theta))\cdot(\theta - \hat\theta)

    Both stay unbiased, and their noise vanishes as θ → θ̂. The cost is a second gradient per step,
    and one pass over the data at construction. Any sampler takes the result.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> data = jax.random.normal(jax.random.key(0), (1000,))
    >>> model = tacthmc.posterior(lambda m: 0.0 * m, lambda m, x: -0.5 * (x - m) ** 2, data, 10)
    >>> better = control_variates(model, jnp.mean(data))
    >>> levels = tacthmc.potentials.measure_noise(jax.random.key(1), better, jnp.array(0.3))
    >>> levels.mean_force < 1e-5          # a quadratic energy: no noise is left
    True
    """
    checks.instance("potential", potential, Potential, "made by tacthmc.posterior")
    if potential.traits.is_split:
        raise ValueError(
            "control_variates goes inside: temper_likelihood(control_variates(posterior, center))"
        )
    if potential.traits.remembers:
        raise ValueError(
            "control_variates and loss_table do not go together: at the center a table of losses"
            " made elsewhere adds noise instead of removing it"
        )
    center = finite(center, "center")
    forget_outdated(_energy, potential, center)
    energy, gradient = _whole(potential, center)
    _check_finite("the energy at center", energy)
    _check_finite("the gradient of the energy at center", gradient)
    return ControlVariatePotential(potential, center, energy, gradient)


def _check_finite(what: str, tree: Any) -> None:
    for name, leaf in checks.leaves(what, tree):
        if not np.isfinite(np.asarray(leaf)).all():
            raise ValueError(f"{name} must be finite; got {np.asarray(leaf)}")


def _energy(potential: Potential, center: Position) -> Scalar:
    return potential.energy(center)


@eqx.filter_jit
def _whole(potential: Potential, center: Position) -> tuple[Scalar, Position]:
    return jax.value_and_grad(potential.energy)(center)
