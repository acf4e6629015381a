"""The interface of potentials: an energy and its estimates from batches.

A potential draws no random numbers by itself. Its :class:`~tacthmc.potentials.Batches` turn a
key into a selection (indices, noise) and a selection into a batch. An estimate is a function of
the position and the batch.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from tacthmc import _checks as checks
from tacthmc._notebook import Readable
from tacthmc._typing import Batch, Number, Position, PRNGKey, Scalar
from tacthmc.compiler._async_jit import without_jit
from tacthmc.potentials._batch_noise import CovarianceTerm
from tacthmc.potentials._batches import Batches, NoBatches


class Energy(NamedTuple):
    """U = U0 + U1, where λ multiplies U1 only, and the next model state.

    >>> import jax.numpy as jnp
    >>> energy = Energy(fixed=jnp.array(1.0), tempered=jnp.array(2.0))
    >>> float(energy.total)
    3.0
    """

    fixed: Any
    """U0. It is zero where all of the energy is tempered."""
    tempered: Any
    """U1, the energy that acts on ξ."""
    model: Any = None
    """The model state after the batch, such as the averages of batch norm; None without one."""

    @classmethod
    def all_tempered(cls, value: Scalar, model: Any = None) -> "Energy":
        """An energy that λ multiplies as a whole: U0 = 0."""
        return cls(jnp.zeros_like(value), value, model)

    @property
    def total(self) -> Scalar:
        """U0 + U1."""
        return self.fixed + self.tempered


class Traits(NamedTuple):
    """Properties of a potential that samplers and runs depend on."""

    has_energy: bool = True
    """Whether ``full`` gives the energy of all data."""
    is_split: bool = False
    """Whether λ multiplies only a part of the energy (:func:`tacthmc.temper_likelihood`)."""
    num_chains: int | None = None
    """The number of chains, where a number in the potential differs from chain to chain."""
    remembers: bool = False
    """Whether the noise of the energy depends on the earlier batches of the chain."""
    independent_batches: bool = False
    """Whether force and energy come from one batch, and batches are independent of each other."""


class Potential(Readable, eqx.Module):
    """An energy U(θ), estimated from a batch. Gradients come from JAX.

    A potential of your own needs ``estimate``. Add ``full`` if the energy of all data can be
    computed (``Keep(temperatures="all")`` needs it), and ``batches`` if there are mini-batches.
    Everything else has a default.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> from tacthmc.potentials import Energy, Potential
    >>> class Well(Potential):
    ...     width: jax.Array
    ...     def estimate(self, position, batch, model=None, correction=None):
    ...         return self.full(position)
    ...     def full(self, position):
    ...         return Energy(fixed=0.0, tempered=0.5 * jnp.sum((position / self.width) ** 2))
    >>> well = Well(jnp.array(2.0))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.tact(0.1), well, jnp.zeros(2), 20_000, 4)
    >>> bool(abs(run.draws.std() - 2.0) < 0.3)
    True

    The gradient of ``estimate`` must be an unbiased estimate of ∇U, and so must its value of U.
    """

    @abstractmethod
    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """An unbiased estimate Ũ(θ) from one batch.

        Args:
            position: θ.
            batch: a batch, as ``batches`` makes it.
            model: the model state before the batch; None is the first one.
            correction: the covariance term of a step that moves ξ
                (:mod:`tacthmc.potentials._batch_noise`). A potential may ignore it.
        """

    def full(self, position: Any) -> Energy:
        """U(θ) of all data, without noise. Raises a ValueError if there is no such energy."""
        raise ValueError(
            f"a {type(self).__name__} has no full-data energy: it does not define full(position)"
        )

    @property
    def batches(self) -> Batches:
        """Where batches come from."""
        return NoBatches()

    @property
    def traits(self) -> Traits:
        """The properties of this potential. By default it has an energy if it defines ``full``."""
        return Traits(has_energy=type(self).full is not Potential.full)

    def init_model(self) -> Any:
        """The initial model state of a chain."""
        return None

    def kept_model(self, model: Any) -> Any:
        """The part of the model state that is stored with a draw."""
        return model

    def for_chain(self, number: Any) -> "Potential":
        """The potential of one chain, where a number in it differs from chain to chain."""
        return self

    def energy(self, position: Any) -> Scalar:
        """U(θ) of all data, U0 + U1."""
        return self.full(position).total

    def value_and_grad(self, position: Any, batch: Batch) -> tuple[Scalar, Position]:
        """Ũ(θ) and ∇Ũ(θ), with the initial model state."""
        return jax.value_and_grad(lambda x: self.estimate(x, batch).total)(position)

    def batch(self, key: PRNGKey, position: Any, data: Any = None) -> Batch:
        """One batch, for loops that do not carry the memory of the batches along."""
        first, second = jax.random.split(key)
        batches = self.batches
        data = batches.init(first) if data is None else data
        return batches.fetch(batches.select(data, second, position)[1])


class FullPotential(Potential):
    """A full-batch energy, without data to draw and without noise."""

    function: Callable[[Any], Any]

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        return self.full(position)._replace(model=model)

    def full(self, position: Any) -> Energy:
        return Energy.all_tempered(scalar(self.function(position), "energy"))


class WrappedPotential(Potential):
    """A potential around another one. Subclasses define ``estimate`` and ``full``."""

    inner: eqx.AbstractVar[Potential]

    @property
    def batches(self) -> Batches:
        return self.inner.batches

    @property
    def traits(self) -> Traits:
        return self.inner.traits

    def init_model(self) -> Any:
        return self.inner.init_model()

    def kept_model(self, model: Any) -> Any:
        return self.inner.kept_model(model)

    def for_chain(self, number: Any) -> Potential:
        inner = self.inner.for_chain(number)
        return self if inner is self.inner else eqx.tree_at(lambda p: p.inner, self, inner)


class TemperedPotential(WrappedPotential):
    """U/τ: the posterior at temperature τ."""

    inner: Potential
    posterior_temperature: Number

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """Ũ/τ.

        Its covariance term is that of Ũ over τ². Dividing the estimate supplies one of the two
        factors, so the correction gets the other.
        """
        if correction is not None:
            per_energy = self._over(self._over(correction.per_energy))
            start = self._over(correction.delta_lambda_start)
            correction = CovarianceTerm(start, per_energy, correction.prior)
        return self._scaled(self.inner.estimate(position, batch, model, correction))

    def full(self, position: Any) -> Energy:
        return self._scaled(self.inner.full(position))

    def _scaled(self, energy: Energy) -> Energy:
        return Energy(self._over(energy.fixed), self._over(energy.tempered), energy.model)

    def _over(self, value: Scalar) -> Scalar:
        value = jnp.asarray(value)
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
    return FullPotential(without_jit(energy))


def at_temperature(potential: Potential, posterior_temperature: Number) -> TemperedPotential:
    """The posterior at temperature τ, exp(−U/τ); τ < 1 is a cold posterior.

    This changes what is sampled. The temperature T/λ(ξ) of the tempering variable and the bath
    temperature T of the thermostats do not.

    >>> import jax.numpy as jnp
    >>> cold = at_temperature(potential(lambda theta: theta**2), 0.5)
    >>> float(cold.energy(jnp.array(1.0)))
    2.0
    """
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.positive("posterior_temperature", posterior_temperature)
    # An array, so that another temperature reuses the compiled program.
    return TemperedPotential(potential, jnp.asarray(posterior_temperature))


def innermost(potential: Potential) -> Potential:
    """The potential inside all wrappers."""
    while isinstance(potential, WrappedPotential):
        potential = potential.inner
    return potential


class Forces(NamedTuple):
    """The energy and the gradient of one batch."""

    energy: Scalar
    """Ũ0 + Ũ1."""
    tempered: Scalar
    """Ũ1, the energy that acts on ξ."""
    gradient: Position
    """∇(Ũ0/λ + Ũ1), or ∇(Ũ0 + Ũ1) without λ."""
    model: Any
    """The model state after the batch."""


def forces(
    potential: Potential,
    position: Position,
    batch: Batch,
    model: Any = None,
    lam: Scalar | None = None,
    correction: CovarianceTerm | None = None,
) -> Forces:
    """Energy and gradient of one batch, with one evaluation of the potential.

    Args:
        potential: the potential.
        position: θ.
        batch: as ``potential.batch(key, position)`` makes it.
        model: the model state before the batch; None is the first one.
        lam: λ(ξ) in a step with a tempering variable, otherwise None.
        correction: the covariance term of such a step.

    >>> import jax.numpy as jnp, tacthmc
    >>> u = tacthmc.potential(lambda p: p["w"] ** 2 + p["b"] ** 2)
    >>> split = tacthmc.potentials.temper_block(u, {"w": False, "b": True}, reference=0.0)
    >>> here = {"w": jnp.array(1.0), "b": jnp.array(3.0)}
    >>> found = forces(split, here, (), lam=jnp.array(0.5))
    >>> float(found.energy), float(found.tempered)
    (10.0, 9.0)
    >>> {name: float(value) for name, value in found.gradient.items()}
    {'b': 6.0, 'w': 4.0}
    """

    def weighted(position: Position) -> tuple[Scalar, tuple[Scalar, Scalar, Any]]:
        energy = potential.estimate(position, batch, model, correction)
        total, tempered = jnp.asarray(energy.total), jnp.asarray(energy.tempered)
        after = (total, tempered, energy.model)
        if lam is None:
            return total, after
        return energy.fixed / lam.astype(tempered.dtype) + tempered, after

    (_, after), gradient = jax.value_and_grad(weighted, has_aux=True)(position)
    total, tempered, model = after
    return Forces(total, tempered, gradient, model)


def scalar(value: Any, name: str) -> Scalar:
    """The return value of a user's function, checked to be a floating-point scalar."""
    value = jnp.asarray(value)
    if value.shape != ():
        raise ValueError(
            f"{name} must return a scalar; got shape {value.shape} (sum over the remaining axes)"
        )
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(f"{name} must return a floating-point number; got dtype {value.dtype}")
    return value
