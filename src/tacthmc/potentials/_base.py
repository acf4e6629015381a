"""Energies: what a potential is, the full-batch one, and those that wrap another.

A potential never draws at random by itself: ``select`` turns a key into a selection
(indices, noise), ``fetch`` turns a selection into a batch, and an estimate is made from the
batch it is given. Posteriors of data stand in :mod:`tacthmc.potentials._posterior`.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from tacthmc import _checks as checks
from tacthmc._typing import Batch, Number, Position, PRNGKey, Scalar
from tacthmc.potentials._batch_noise import Tilt


class Felt(NamedTuple):
    """What a step of a tempered sampler uses of one batch, for U = U0 + U1 with λ on U1 only."""

    energy: Scalar
    """Ũ, the whole of it."""
    tempered: Scalar
    """Ũ1, what ξ feels; Ũ itself where all of it is tempered."""
    gradient: Position
    """∇(Ũ0/λ + Ũ1): the force on θ is −λ times it."""
    model: Any


class Potential(eqx.Module):
    """An energy and its gradient, estimated from a batch."""

    @abstractmethod
    def estimate_with(self, position: Any, batch: Batch, model: Any) -> tuple[Scalar, Any]:
        """An unbiased estimate Ũ(θ), whose derivative is one of ∇U(θ), and the next model state.

        The model state is what a model itself carries from batch to batch (batch norm's
        running averages); None where there is no such thing.
        """

    @abstractmethod
    def energy(self, position: Any) -> Scalar:
        """The full-data energy U(θ), without noise."""

    @property
    def has_energy(self) -> bool:
        """Whether :meth:`energy` can be had: the data are at hand, and nothing else enters."""
        return True

    @property
    def is_split(self) -> bool:
        """Whether λ multiplies a part of the energy only (:mod:`tacthmc.potentials._energy_terms`)."""
        return False

    @property
    def chains(self) -> int | None:
        """How many chains it is for, where a number of it differs from chain to chain."""
        return None

    def of_chain(self, number: Any) -> "Potential":
        """As the chain of that number has it: itself, unless a number of it differs by chain."""
        return self

    @property
    def tilts(self) -> bool:
        """Whether a step of ξ tilts it (:mod:`tacthmc.potentials._batch_noise`): a batch makes force and energy."""
        return False

    def tilted(self, by: Tilt) -> "Potential":
        """For a step of ξ; itself, where it does not tilt."""
        return self

    def init_model(self) -> Any:
        """The model state that a chain starts with."""
        return None

    def kept_model(self, model: Any) -> Any:
        """What of a model state belongs to a draw; the rest goes on with the chain only."""
        return model

    @property
    def remembers(self) -> bool:
        """Whether the noise of the energy depends on what a chain has seen before."""
        return False

    @abstractmethod
    def init_data(self, key: PRNGKey) -> Any:
        """What has to be remembered from batch to batch."""

    @property
    @abstractmethod
    def data_axes(self) -> Any:
        """How chains are mapped over that memory (a pytree prefix for ``vmap``)."""

    @abstractmethod
    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        """The new memory, and the random part of one batch.

        Only the shapes and dtypes of ``position`` may matter: selections are made for many
        steps ahead.
        """

    @abstractmethod
    def fetch(self, selection: Any) -> Batch:
        """The batch that a selection stands for."""

    def estimate(self, position: Any, batch: Batch) -> Scalar:
        """Ũ(θ), with the first model state where there is one."""
        return self.estimate_with(position, batch, self.init_model())[0]

    def evaluate(self, position: Any, batch: Batch, model: Any) -> tuple[Scalar, Position, Any]:
        """Ũ(θ), ∇Ũ(θ) and the next model state: what a step uses."""
        run = jax.value_and_grad(self.estimate_with, has_aux=True)
        (value, model), gradient = run(position, batch, model)
        return value, gradient, model

    def parts_with(self, position: Any, batch: Batch, model: Any) -> tuple[Scalar, Scalar, Any]:
        """Ũ0(θ) and Ũ1(θ), of which λ multiplies the second, and the next model state."""
        value, model = self.estimate_with(position, batch, model)
        return jnp.zeros_like(value), value, model

    def energy_parts(self, position: Any) -> tuple[Scalar, Scalar]:
        """U0(θ) and U1(θ) of all data."""
        value = self.energy(position)
        return jnp.zeros_like(value), value

    def felt(self, position: Any, batch: Batch, model: Any, lam: Scalar) -> Felt:
        """What θ and ξ feel at λ(ξ)."""
        if not self.is_split:
            value, gradient, model = self.evaluate(position, batch, model)
            return Felt(value, value, gradient, model)

        def weighed(position: Any) -> tuple[Scalar, Any]:
            fixed, tempered, after = self.parts_with(position, batch, model)
            return fixed / lam.astype(fixed.dtype) + tempered, (fixed + tempered, tempered, after)

        (_, parts), gradient = jax.value_and_grad(weighed, has_aux=True)(position)
        whole, tempered, after = parts
        return Felt(whole, tempered, gradient, after)

    def value_and_grad(self, position: Any, batch: Batch) -> tuple[Scalar, Position]:
        """Ũ(θ) and ∇Ũ(θ), with the first model state where there is one."""
        return self.evaluate(position, batch, self.init_model())[:2]

    def batch(self, key: PRNGKey, position: Any, data: Any = None) -> Batch:
        """One batch, for loops that want no memory from batch to batch."""
        first, second = jax.random.split(key)
        data = self.init_data(first) if data is None else data
        return self.fetch(self.select(data, second, position)[1])


class FullPotential(Potential):
    """A full-batch energy: no data to draw, no noise."""

    function: Callable[[Any], Any]

    def energy(self, position: Any) -> Scalar:
        """U(θ)."""
        return checks.scalar(self.function(position), "energy")

    def estimate_with(self, position: Any, batch: Batch, model: Any) -> tuple[Scalar, Any]:
        """U(θ) itself."""
        return self.energy(position), model

    def init_data(self, key: PRNGKey) -> tuple[()]:
        """Nothing."""
        return ()

    @property
    def data_axes(self) -> tuple[()]:
        """Nothing."""
        return ()

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[tuple[()], tuple[()]]:
        """Nothing."""
        return (), ()

    def fetch(self, selection: Any) -> tuple[()]:
        """Nothing."""
        return ()


class WrappedPotential(Potential):
    """A potential around another one, whose memory of the data it keeps."""

    inner: eqx.AbstractVar[Potential]

    @property
    def has_energy(self) -> bool:
        """The inner potential's."""
        return self.inner.has_energy

    @property
    def is_split(self) -> bool:
        """The inner potential's."""
        return self.inner.is_split

    @property
    def chains(self) -> int | None:
        """The inner potential's."""
        return self.inner.chains

    def of_chain(self, number: Any) -> Potential:
        """Around what the inner potential is to that chain."""
        inner = self.inner.of_chain(number)
        return self if inner is self.inner else eqx.tree_at(lambda p: p.inner, self, inner)

    @property
    def tilts(self) -> bool:
        """The inner potential's."""
        return self.inner.tilts

    def tilted(self, by: Tilt) -> Potential:
        """Around the inner potential, tilted."""
        inner = self.inner.tilted(by)
        return self if inner is self.inner else eqx.tree_at(lambda p: p.inner, self, inner)

    def parts_with(self, position: Any, batch: Batch, model: Any) -> tuple[Scalar, Scalar, Any]:
        """Only where a wrapper says how the inner potential's parts become its own."""
        self._check_whole()
        return super().parts_with(position, batch, model)

    def energy_parts(self, position: Any) -> tuple[Scalar, Scalar]:
        """Likewise."""
        self._check_whole()
        return super().energy_parts(position)

    def _check_whole(self) -> None:
        if self.inner.is_split:
            raise TypeError(
                f"a {type(self).__name__} does not say what it makes of a potential that is"
                " tempered in part: put it inside (temper_likelihood or temper_block around it)"
            )

    def init_model(self) -> Any:
        """The inner potential's."""
        return self.inner.init_model()

    def kept_model(self, model: Any) -> Any:
        """The inner potential's."""
        return self.inner.kept_model(model)

    @property
    def remembers(self) -> bool:
        """The inner potential's."""
        return self.inner.remembers

    def init_data(self, key: PRNGKey) -> Any:
        """The inner potential's."""
        return self.inner.init_data(key)

    @property
    def data_axes(self) -> Any:
        """The inner potential's."""
        return self.inner.data_axes


class SameBatchPotential(WrappedPotential):
    """A potential that also takes the same batches as the one that it is around."""

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        """The inner potential's."""
        return self.inner.select(data, key, position)

    def fetch(self, selection: Any) -> Batch:
        """The inner potential's."""
        return self.inner.fetch(selection)


class TemperedPotential(SameBatchPotential):
    """U/τ: the posterior at a temperature of its own."""

    inner: Potential
    posterior_temperature: Number

    def estimate_with(self, position: Any, batch: Batch, model: Any) -> tuple[Scalar, Any]:
        """Ũ/τ."""
        value, model = self.inner.estimate_with(position, batch, model)
        return self._over(value), model

    def parts_with(self, position: Any, batch: Batch, model: Any) -> tuple[Scalar, Scalar, Any]:
        """Ũ0/τ and Ũ1/τ."""
        fixed, own, model = self.inner.parts_with(position, batch, model)
        return self._over(fixed), self._over(own), model

    def energy(self, position: Any) -> Scalar:
        """U/τ."""
        return self._over(self.inner.energy(position))

    def energy_parts(self, position: Any) -> tuple[Scalar, Scalar]:
        """U0/τ and U1/τ."""
        fixed, own = self.inner.energy_parts(position)
        return self._over(fixed), self._over(own)

    def tilted(self, by: Tilt) -> Potential:
        """The covariance is 1/τ² of the inner one; one of the two is in its gradient already."""
        over = Tilt(self._over(by.start), self._over(self._over(by.per_energy)), by.prior)
        return super().tilted(over)

    def _over(self, value: Scalar) -> Scalar:
        return value / jnp.asarray(self.posterior_temperature).astype(value.dtype)


def potential(energy: Callable[[Any], Any]) -> FullPotential:
    """A full-batch potential from U(θ) = −log p(θ) + const.

    >>> import jax.numpy as jnp
    >>> gaussian = potential(lambda theta: 0.5 * jnp.sum(theta**2))
    >>> value, gradient = gaussian.value_and_grad(jnp.array([1.0, 2.0]), ())
    >>> float(value), gradient.tolist()
    (2.5, [1.0, 2.0])
    """
    if not callable(energy):
        raise TypeError(f"energy must be a function of the position; got {energy!r}")
    return FullPotential(energy)


def at_temperature(potential: Potential, posterior_temperature: Number) -> TemperedPotential:
    """The posterior at a temperature τ of its own, exp(−U/τ): τ < 1 is a cold posterior.

    This changes what is sampled. The temperature of ξ's excursions, T/λ(ξ), and the bath
    temperature T of the thermostats do not.

    >>> import jax.numpy as jnp
    >>> cold = at_temperature(potential(lambda theta: theta**2), 0.5)
    >>> float(cold.energy(jnp.array(1.0)))
    2.0
    """
    checks.positive("posterior_temperature", posterior_temperature)
    # An array, so that another temperature finds the same compiled program.
    return TemperedPotential(potential, jnp.asarray(posterior_temperature))


def innermost(potential: Potential) -> Potential:
    """The potential inside all wrappers."""
    while isinstance(potential, WrappedPotential):
        potential = potential.inner
    return potential
