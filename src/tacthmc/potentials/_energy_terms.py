r"""Tempering a part of the energy: U = U0 + U1, and λ multiplies U1 only.

In D dimensions the fluctuations of the tempered energy drag ξ. Where λ multiplies only a part of
the energy, only the fluctuations of that part act on ξ, and the rest of the posterior is the same
at every temperature:

.. math:: \pi(\theta \mid \xi) \propto \exp(-U_0(\theta) - \lambda(\xi)\,U_1(\theta)).

**The dynamics.** The extended Hamiltonian has U0 + λU1 in place of λU. The force on θ is
−∇(U0 + λU1) = −λg with g = ∇(U0/λ + U1), and the force on ξ is −λ′U1. Everything else
(thermostats, biases, which learn ⟨U1 | ξ⟩, Algorithm 1 and the splitting) is unchanged, with
(U1, g) in place of (U, ∇U).

**Invariant density.** It is that of :func:`tacthmc.tact` with U0 + λU1 in place of λU. On the
plateau, where λ = 1, θ follows exp(−U) for any bias.

**Temperature-scaled coordinates** (:mod:`tacthmc.dynamics._coordinates`): with θ = μ + (φ − μ)/√λ
the Hamiltonian in (φ, ξ) is U0 + λU1 + D/2·log λ. ∂θ/∂φ = 1/√λ gives the force −√λ·g on φ. ∂θ/∂ξ =
−λ′(θ − μ)/(2λ) gives the force on ξ,

.. math:: -\lambda'\Big(U_1 - \tfrac12\,g\cdot(\theta - \mu) + \frac{D}{2\lambda}\Big),

which is the earlier one with (U1, g). By the virial theorem, ⟨λg·(θ − μ)⟩ = D, its mean is still
that of −λ′U1. But its fluctuations are small only where θ widens as 1/√λ. These coordinates are
therefore for likelihoods that outweigh the prior.

**Weights** (``Keep(temperatures="all")``): U0 cancels, so the weights of draws at all temperatures
depend on U1 only.

**Assumptions** beside those of :func:`tacthmc.tact`: exp(−U0 − λU1) is normalizable down to the
smallest λ, which for a likelihood requires a proper prior. The friction λ²z of the thermostats
balances noise that is λ times that of ∇U1, so ∇U0 has to be exact. That holds for
:func:`tacthmc.temper_likelihood`, whose U0 is the prior. It does not hold for
:func:`tacthmc.potentials.temper_block` on mini-batches: there the other coordinates get too hot
while λ < 1 and have to cool down on the plateau.

Samplers without a tempering variable use U itself.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tacthmc import _checks as checks
from tacthmc._typing import Batch
from tacthmc.potentials._base import Energy, Potential, Traits, WrappedPotential, innermost
from tacthmc.potentials._batch_noise import CovarianceTerm
from tacthmc.potentials._constrained import ConstrainedPotential
from tacthmc.potentials._control_variates import ControlVariatePotential
from tacthmc.potentials._label_noise import NoisyLabels
from tacthmc.potentials._loss_table import LossTablePotential
from tacthmc.potentials._noisy import NoisyPotential
from tacthmc.potentials._posterior import DataPotential


class LikelihoodPotential(WrappedPotential):
    """U0 = −log p(θ), U1 = −Σ log p(x | θ)."""

    inner: Potential

    @property
    def traits(self) -> Traits:
        return self.inner.traits._replace(is_split=True)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """U0 from the prior and Ũ1 from the batch; the prior does not act on ξ."""
        if correction is not None:
            correction = correction._replace(prior=False)
        return self._split(position, self.inner.estimate(position, batch, model, correction))

    def full(self, position: Any) -> Energy:
        return self._split(position, self.inner.full(position))

    def _split(self, position: Any, energy: Energy) -> Energy:
        data, value = innermost(self.inner), energy.total
        assert isinstance(data, DataPotential)
        log_prior = data.log_prior_at(position).astype(value.dtype)
        return Energy(-log_prior, value + log_prior, energy.model)


class BlockPotential(WrappedPotential):
    """U0 = U(θ_rest, b), U1 = U(θ) − U0."""

    inner: Potential
    block: Any
    reference: Any

    @property
    def traits(self) -> Traits:
        """No covariance term: U0 has noise too, and a block is for nearly full batches."""
        return self.inner.traits._replace(is_split=True, independent_batches=False)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """Both energies use the same batch, so their difference has only the noise of the block."""
        whole = self.inner.estimate(position, batch, model)
        fixed = self.inner.estimate(self._at_reference(position), batch, model).total
        return Energy(fixed, whole.total - fixed, whole.model)

    def full(self, position: Any) -> Energy:
        fixed = self.inner.energy(self._at_reference(position))
        return Energy(fixed, self.inner.energy(position) - fixed)

    def _at_reference(self, position: Any) -> Any:
        chosen, rest = eqx.partition(position, self.block)
        if not jax.tree.leaves(chosen):
            raise ValueError("block picks no leaf of the position; expected at least one")
        if eqx.is_array(self.reference) and self.reference.ndim == 0:
            there = jax.tree.map(lambda x: jnp.broadcast_to(self.reference, x.shape), chosen)
        else:
            there = eqx.filter(self.reference, self.block)
        shapes = [jax.tree.map(jnp.shape, tree) for tree in (there, chosen)]
        if jax.tree.structure(there) != jax.tree.structure(chosen) or shapes[0] != shapes[1]:
            raise ValueError(
                "reference must be a number, or a pytree that matches the position in the block's"
                f" leaves; expected shapes {shapes[1]}, got {shapes[0]}"
            )
        there = jax.tree.map(lambda b, x: jnp.asarray(b).astype(x.dtype), there, chosen)
        return eqx.combine(there, rest)


def temper_likelihood(potential: Potential) -> LikelihoodPotential:
    r"""Temper the likelihood alone: ξ moves from the posterior toward the prior.

    .. math::
        \pi(\theta \mid \xi) \propto p(\theta)\,\Big(\prod_i p(x_i \mid \theta)\Big)^{\lambda(\xi)}

    The derivation and the assumptions are in :mod:`tacthmc.potentials._energy_terms`. There is no
    extra cost. Only λ → 0 gives the prior itself: at temperature 9 the data still count a ninth.

    Args:
        potential: a potential from :func:`tacthmc.posterior` or :func:`tacthmc.streamed`,
            optionally inside :func:`tacthmc.potentials.constrained`,
            :func:`tacthmc.potentials.loss_table`,
            :func:`tacthmc.potentials.control_variates`, :func:`tacthmc.potentials.label_noise` or
            :func:`tacthmc.noisy`. (:func:`tacthmc.potentials.subset` and
            :func:`tacthmc.potentials.at_temperature` go outside.)

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> data = jnp.full(10, 2.0)
    >>> model = tacthmc.posterior(lambda m: -0.5 * m**2, lambda m, x: -0.5 * (x - m) ** 2, data, 5)
    >>> energy = temper_likelihood(model).full(jnp.array(1.0))
    >>> float(energy.fixed), float(energy.tempered)     # the prior's and the likelihood's
    (0.5, 5.0)
    """
    checks.instance("potential", potential, Potential, "made by tacthmc.posterior or .streamed")
    inner = potential
    wrappers = (
        ConstrainedPotential,
        NoisyPotential,
        ControlVariatePotential,
        LossTablePotential,
        NoisyLabels,
    )
    while isinstance(inner, wrappers):
        inner = inner.inner
    if not isinstance(inner, DataPotential):
        raise TypeError(
            "temper_likelihood needs a prior and a likelihood of data: a tacthmc.posterior or"
            " tacthmc.streamed, by itself or inside noisy, control_variates, label_noise or"
            " loss_table (subset and at_temperature go outside: subset(temper_likelihood(…), …));"
            f" got a {type(inner).__name__}"
        )
    return LikelihoodPotential(potential)


def temper_block(potential: Potential, block: Any, reference: Any) -> BlockPotential:
    r"""Temper the energy that a block of the position determines, and nothing else.

    With θ = (θ_rest, θ_block) and fixed values b for the block,

    .. math::
        U_0(\theta) = U(\theta_{rest}, b), \qquad U_1(\theta) = U(\theta) - U(\theta_{rest}, b),

    The energy that acts on ξ is the effect of the block. Its fluctuations are of the order of the
    dimension of the block. As λ falls, the block moves more freely, and the other coordinates
    approach their law with the block at b. The derivation and the assumptions are in
    :mod:`tacthmc.potentials._energy_terms`. A step costs two gradients, on the same batch.

    Args:
        potential: a potential that is not tempered in part already.
        block: a filter as in :func:`tacthmc.potentials.subset`: a function of a leaf, or a pytree
            prefix of booleans.
        reference: b, a typical value of the block: a position (only the leaves of the block are
            used), or a number for all of its leaves. Far from typical values U1 would be large and
            strongly coupled to the rest; a mode, or the start of a chain, is close enough. Wherever
            exp(−λU) is normalizable and U is bounded from below, exp(−U0 − λU1) is normalizable
            too.

    >>> import jax.numpy as jnp, tacthmc
    >>> u = tacthmc.potential(lambda p: 0.5 * jnp.sum(p["w"] ** 2) + 0.5 * jnp.sum(p["b"] ** 2))
    >>> split = temper_block(u, {"w": False, "b": True}, reference=0.0)
    >>> energy = split.full({"w": jnp.ones(4), "b": jnp.full(2, 3.0)})
    >>> float(energy.fixed), float(energy.tempered)
    (2.0, 9.0)
    """
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    if potential.traits.is_split:
        raise ValueError("a part of the potential is tempered already: choose one of the two")
    if potential.traits.remembers:
        raise ValueError(
            "temper_block and loss_table do not go together: kept losses are the same at the"
            " reference and cancel, so they would not reduce the noise of the energy that acts on ξ"
        )
    if isinstance(reference, (float, int)):
        reference = jnp.asarray(reference, float)
    return BlockPotential(potential, block, reference)
