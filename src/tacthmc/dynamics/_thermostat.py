r"""Nosé-Hoover thermostats for θ: scalar, one per tensor, diagonal, by size, or none.

The paper's Eq. 5 has a full matrix (:class:`tacthmc.dynamics.MatrixThermostat`), and its §3.3
reduces it to a scalar. In the variables of §3.3 (r = pΔt/m, z = sΔt, η = Δt²/m) a thermostat z is a
friction per step that is driven by the kinetic temperature. It settles where it dissipates exactly
the heat of the injected and the unknown noise:

.. math::
    dr_i = -\lambda^2 z\,g_i\,r_i, \qquad
    dz = \frac{\lambda^2}{\gamma}\,\Big\langle g_i\,(m_i r_i^2 - \eta T)\Big\rangle

with masses m_i relative to the mass behind η, and the mean ⟨·⟩ over the coordinates that
share z. The shape g of the friction has to be that of the noise: g = 1/m where the force
noise has the same variance in all of a thermostat's coordinates (``shape="isotropic"``, the
default: the paper's assumption V_f = v_f·I), g = 1 where its covariance is proportional to
the mass (``shape="mass"``: mini-batch noise of a posterior preconditioned by its Fisher
information). Then (Theorem 1)

.. math:: z \sim N\big((c + \eta v_f/2)/T,\ \eta T/(\gamma D)\big)

for a thermostat shared by D coordinates, injected noise N(0, 2c·g_i·η/m_i) and force noise
of variance v_f, independent of θ and r.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._positions import dimension, rate_at, scalar_dtype, sum_of_squares, total
from tacthmc._typing import Number, Position, Rate, Scalar
from tacthmc.dynamics._noise_levels import NoiseLevels
from tacthmc.dynamics._step_rates import StepMomenta, StepRates

Shape: TypeAlias = Literal["isotropic", "mass"]


OWN_FRICTION_STEPS = 400.0
"""Γ of the default thermostat: 4/c² for the default c = 0.1."""
MAX_OWN_SIZE = 1024
"""The largest leaf whose coordinates have their own frictions by default."""


class Inertia(eqx.Module):
    """How fast a thermostat reacts: the paper's γ, or a number of steps Γ.

    A thermostat obeys dz = λ²·[⟨r²⟩ − ηT]/γ. With η ~ 1e-8, as for the posterior of a network,
    γ = 1 hardly moves it in a million steps. Γ = γ/(ηT) is relative to the target,
    dz = λ²·[⟨r²⟩/(ηT) − 1]/Γ, and works at any scale.

    >>> Inertia().steps, Inertia(gamma=1.0).steps
    (100.0, None)
    """

    gamma: Rate | None
    steps: Rate | None

    def __init__(self, gamma: Rate | None = None, steps: Rate | None = None):
        """Give ``gamma`` (γ, absolute) or ``steps`` (Γ, relative; 100 by default)."""
        if gamma is not None and steps is not None:
            raise ValueError(
                f"give gamma (absolute) or steps (relative), not both; got gamma={gamma!r},"
                f" steps={steps!r}"
            )
        if gamma is None and steps is None:
            steps = 100.0
        if gamma is not None:
            checks.positive("gamma", gamma)
        if steps is not None:
            checks.positive("steps", steps)
        self.gamma, self.steps = gamma, steps

    def at(self, step: Array, eta: Array, bath: Number) -> Array:
        """γ at a step, given the step size η and the bath temperature T."""
        if self.gamma is not None:
            return rate_at(self.gamma, step, eta.dtype)
        assert self.steps is not None
        gamma = rate_at(self.steps, step, eta.dtype) * eta * bath
        # A schedule may reach η = 0. Then nothing moves, and neither does the thermostat.
        return jnp.where(gamma > 0, gamma, jnp.inf)

    def level_variance(self, rates: StepRates, size: int) -> float:
        """ηT/(γD), for a friction that D = ``size`` coordinates share."""
        gamma = float(self.at(rates.step, rates.eta, rates.bath))
        return float(rates.eta) * float(rates.bath) / (gamma * max(size, 1))


class KineticExcess(NamedTuple):
    """g(m·r² − ηT·f): the kinetic energy of the momenta above that of a bath, times f.

    Masses m, shapes g and factors f are arrays, or scalars for whole leaves. With scalars the sum
    over a leaf needs only Σ r², which is computed once for several uses.
    """

    r: Position
    mass: Position
    g: Position
    rates: StepRates
    factor: Position

    def per_coordinate(self) -> Position:
        """The excess of each coordinate."""

        def excess(r: Array, m: Array, g: Array, factor: Array) -> Array:
            return g * (m * r * r - (self.rates.eta * self.rates.bath).astype(r.dtype) * factor)

        return jax.tree.map(excess, self.r, self.mass, self.g, self.factor)

    def leaf_sums(self) -> Position:
        """The excess summed over each leaf."""

        def summed(r: Array, m: Array, g: Array, factor: Array) -> Array:
            target = (self.rates.eta * self.rates.bath).astype(r.dtype) * factor
            if m.ndim == g.ndim == factor.ndim == 0:
                return g * (m * jnp.sum(r * r) - target * r.size)
            return jnp.sum(g * (m * r * r - target))

        return jax.tree.map(summed, self.r, self.mass, self.g, self.factor)


class Thermostat(eqx.Module):
    """The friction of the momenta of θ. Subclasses say which coordinates share a friction."""

    shape: eqx.AbstractVar[Shape]

    @property
    def separable(self) -> bool:
        """Whether each coordinate is damped by itself. If not, each one needs its own mass."""
        return False

    @abstractmethod
    def init(self, position: Position, friction: Scalar) -> Any:
        """Thermostats that all start at ``friction``, c/T."""

    @abstractmethod
    def update(self, z: Any, r: Position, m: Position, rates: StepRates, weight: Scalar) -> Any:
        """z after a part of a step, with ``weight`` = λ²·(that part)."""

    def finish_step(self, z: Any, friction: Any, momenta: StepMomenta) -> Any:
        """z after a whole step of the splitting, where ``friction`` is z after half of it.

        The momenta after the step drive the second half. A subclass may use the temperature of θ
        instead.
        """
        s = momenta
        return self.update(friction, s.after, s.mass, s.rates, 0.5 * s.weight)

    @abstractmethod
    def apply(
        self, z: Any, m: Position, function: Callable[[Array], Array]
    ) -> Callable[[Position], Position]:
        """r ↦ function(z·g)·r: a function of the friction as an operator on momenta."""

    def damping(self, z: Any, m: Position, weight: Scalar) -> Callable[[Position], Position]:
        """The exact flow of the friction, r ↦ exp(−weight·z·g)·r."""
        return self.apply(z, m, lambda x: jnp.exp(-weight.astype(x.dtype) * x))

    def kinetic_sum(self, momenta: StepMomenta) -> Scalar:
        """Σ m·r̃², with r̃ = exp(weight·z̄·g/4)·r̄: ηTD in equilibrium."""
        s = momenta
        r = self.damping(s.mean_friction, s.mass, -0.25 * s.weight)(s.mean)
        return total(sum_of_squares(s.mass, r), scalar_dtype(r))

    @abstractmethod
    def drag(self, z: Any, r: Position, m: Position, weight: Scalar) -> Position:
        """The friction's Euler increment, weight·z·g·r, to be subtracted."""

    @abstractmethod
    def level(self, z: Any) -> Scalar:
        """The mean friction, one number to monitor."""

    @abstractmethod
    def level_law(
        self, position: Position, noise: NoiseLevels, rates: StepRates
    ) -> tuple[float, float]:
        """The mean and variance of :meth:`level` by Theorem 1."""

    def weights(self, m: Position) -> Position:
        """The shape g of friction and injected noise."""
        if self.shape == "mass":
            return jax.tree.map(jnp.ones_like, m)
        return jax.tree.map(lambda m: 1 / m, m)


class SeparableThermostat(Thermostat):
    """Thermostats whose friction acts on each coordinate by itself."""

    @property
    def separable(self) -> bool:
        return True

    @abstractmethod
    def per_leaf(self, z: Any, like: Position) -> Position:
        """The frictions as a pytree whose leaves broadcast to those of ``like``."""

    @abstractmethod
    def respond(self, z: Any, excess: KineticExcess, weight: Scalar) -> Any:
        """z + weight·⟨excess⟩/γ, the mean over the coordinates that share a friction."""

    def apply(
        self, z: Any, m: Position, function: Callable[[Array], Array]
    ) -> Callable[[Position], Position]:
        """r ↦ function(z·g)·r, coordinate by coordinate."""
        factors = jax.tree.map(lambda z, g: function(z * g), self.per_leaf(z, m), self.weights(m))
        return lambda r: jax.tree.map(jnp.multiply, factors, r)

    def update(self, z: Any, r: Position, m: Position, rates: StepRates, weight: Scalar) -> Any:
        """z += weight·⟨g(m·r² − ηT)⟩/γ."""
        one = jax.tree.map(lambda r: jnp.ones((), r.dtype), r)
        return self.respond(z, KineticExcess(r, m, self.weights(m), rates, one), weight)

    def finish_step(self, z: Any, friction: Any, momenta: StepMomenta) -> Any:
        """z += weight·⟨g(m·r̄² − exp(−weight·z̄·g/2)·ηT)⟩/γ, r̄ the mean of the momenta."""
        s = momenta
        factor = jax.tree.map(jnp.square, self._damping_factor(s))
        excess = KineticExcess(s.mean, s.mass, self.weights(s.mass), s.rates, factor)
        return self.respond(z, excess, s.weight)

    def kinetic_sum(self, momenta: StepMomenta) -> Scalar:
        """Σ m·r̃², with r̃ = exp(weight·z̄·g/4)·r̄: ηTD in equilibrium."""

        def least(r: Array) -> float:
            # A friction that stops all motion gives the temperature 0 instead of 0/0.
            return float(jnp.finfo(r.dtype).tiny)

        def summed(r: Array, m: Array, factor: Array) -> Array:
            # The thermostat needs the same Σ r², or the same squares of the factor.
            square = jnp.maximum(factor * factor, least(r))
            if m.ndim == factor.ndim == 0:
                return m * jnp.sum(r * r) / square
            return jnp.sum(m * r * r / square)

        r = momenta.mean
        sums = jax.tree.map(summed, r, momenta.mass, self._damping_factor(momenta))
        return total(jax.tree.leaves(sums), scalar_dtype(r))

    def _damping_factor(self, momenta: StepMomenta) -> Position:
        """exp(−weight·z̄·g/4)."""
        return jax.tree.map(
            lambda z, g: jnp.exp(-0.25 * momenta.weight.astype(z.dtype) * z * g),
            self.per_leaf(momenta.mean_friction, momenta.mean),
            self.weights(momenta.mass),
        )

    def drag(self, z: Any, r: Position, m: Position, weight: Scalar) -> Position:
        """weight·z·g·r."""
        return jax.tree.map(
            lambda z, g, r: weight.astype(r.dtype) * z * g * r,
            self.per_leaf(z, r),
            self.weights(m),
            r,
        )


class AdaptiveThermostat(SeparableThermostat):
    """Thermostats whose friction adapts, with an inertia γ."""

    inertia: Inertia
    shape: Shape = eqx.field(static=True)

    def __init__(
        self, gamma: Rate | None = None, steps: Rate | None = None, shape: Shape = "isotropic"
    ):
        """Use the inertia γ (``gamma``), or the relative one Γ (``steps``, 100 by default)."""
        self.inertia, self.shape = Inertia(gamma, steps), checked_shape(shape)


class ScalarThermostat(AdaptiveThermostat):
    """One friction for all coordinates (Algorithm 1).

    >>> import tacthmc
    >>> tacthmc.sgnht(0.01, thermostat=ScalarThermostat(gamma=1.0)).thermostat.inertia
    Inertia(gamma=1.0, steps=None)
    """

    __init__ = AdaptiveThermostat.__init__

    def init(self, position: Position, friction: Scalar) -> Scalar:
        """z = c/T."""
        return friction

    def respond(self, z: Scalar, excess: KineticExcess, weight: Scalar) -> Scalar:
        """z += weight·⟨excess⟩/γ."""
        inertia = dimension(excess.r) * self.inertia.at(
            excess.rates.step, excess.rates.eta, excess.rates.bath
        )
        return z + weight * total(jax.tree.leaves(excess.leaf_sums()), z.dtype) / inertia

    def per_leaf(self, z: Scalar, like: Position) -> Position:
        return jax.tree.map(lambda leaf: z.astype(leaf.dtype), like)

    def level(self, z: Scalar) -> Scalar:
        return z

    def level_law(
        self, position: Position, noise: NoiseLevels, rates: StepRates
    ) -> tuple[float, float]:
        """Mean (c + ηv/2)/T, variance ηT/(γD)."""
        mean = noise.friction(rates, noise.all_coordinates())
        return mean, self.inertia.level_variance(rates, dimension(position))


class LeafThermostat(AdaptiveThermostat):
    """Frictions leaf by leaf: one for each coordinate of a leaf, or one that they all share."""

    __init__ = AdaptiveThermostat.__init__

    @abstractmethod
    def is_shared(self, size: int) -> bool:
        """Whether all coordinates of a leaf of this size share one friction."""

    def init(self, position: Position, friction: Scalar) -> Position:
        """z = c/T for each friction."""

        def first(leaf: Array) -> Array:
            shape = () if self.is_shared(leaf.size) else leaf.shape
            return jnp.broadcast_to(friction.astype(leaf.dtype), shape)

        return jax.tree.map(first, position)

    def respond(self, z: Position, excess: KineticExcess, weight: Scalar) -> Position:
        """z += weight·⟨excess⟩/γ, for each friction."""
        rate = weight / self.inertia.at(excess.rates.step, excess.rates.eta, excess.rates.bath)
        each, sums = excess.per_coordinate(), excess.leaf_sums()

        def moved(z: Array, r: Array, each: Array, summed: Array) -> Array:
            mean = each if z.shape == r.shape else summed / max(r.size, 1)
            return z + rate.astype(z.dtype) * mean

        return jax.tree.map(moved, z, excess.r, each, sums)

    def per_leaf(self, z: Position, like: Position) -> Position:
        """z itself, which has one friction per leaf or per coordinate."""
        return z

    def level(self, z: Position) -> Scalar:
        """The mean over frictions."""
        return _mean_over(z)

    def level_law(
        self, position: Position, noise: NoiseLevels, rates: StepRates
    ) -> tuple[float, float]:
        """Mean (c + ηv/2)/T, variance Σ ηT/(γD_z) over the squared number of frictions.

        D_z is the number of coordinates that share a friction.
        """
        counts, levels, variance = [], [], 0.0
        leaves = jax.tree.leaves(position)
        for leaf, values in zip(leaves, jax.tree.leaves(noise.force_variance), strict=True):
            shared = self.is_shared(leaf.size)
            counts.append(1 if shared else leaf.size)
            levels.append(noise.friction(rates, np.asarray(values)))
            size = leaf.size if shared else 1
            variance += counts[-1] * self.inertia.level_variance(rates, size)
        return float(np.average(levels, weights=counts)), variance / sum(counts) ** 2


class Gathered(NamedTuple):
    """A pytree like the position, in which small leaves are joined in one vector.

    One vector keeps a processor's lanes busy, where an array of two or three numbers does not.
    """

    own: Array | None
    """The numbers of the small leaves, each of which has its own friction."""
    shared: tuple[Array, ...]
    """The large leaves, each of which has one friction."""


class AutomaticThermostat(LeafThermostat):
    r"""One friction for each coordinate of small leaves, and one for each large leaf: the default.

    Mini-batch noise differs from coordinate to coordinate: a parameter that only the prior
    determines has none, and one with inputs a hundred times larger has 10,000 times the variance.
    Coordinates that share a friction are heated by their own noise and cooled by that of the mean,
    so that coordinate i has the temperature

    .. math:: \frac{c + \eta v_i/2}{c + \eta\bar v/2}

    instead of 1. A friction of its own settles at (c + ηv_i/2)/T, and the temperature is right.
    In a leaf of more than ``largest`` numbers, such as weights of a network, that costs time and
    memory, so the leaf has one friction, and the noise within it is assumed to be even.
    ``DiagonalThermostat()`` assumes nothing, and ``ScalarThermostat()`` is the paper's. Γ is 400
    steps: a friction, of variance 1/Γ, fluctuates by half of c = 0.1, and takes zΓ steps to settle.
    The shape is "mass", so that masses change neither c nor that time.

    >>> import jax.numpy as jnp
    >>> network = {"weight": jnp.zeros((784, 100)), "bias": jnp.zeros(100)}
    >>> z = AutomaticThermostat().init(network, jnp.array(0.1))
    >>> z.own.shape, [one.shape for one in z.shared]
    ((100,), [()])
    """

    largest: int = eqx.field(static=True)

    def __init__(
        self,
        gamma: Rate | None = None,
        steps: Rate | None = None,
        shape: Shape = "mass",
        largest: int = MAX_OWN_SIZE,
    ):
        """Use the inertia γ (``gamma``), or the relative one Γ (``steps``, 400 by default)."""
        checks.whole("largest", largest, 0)
        slow = OWN_FRICTION_STEPS if gamma is None and steps is None else steps
        super().__init__(gamma, slow, shape)
        self.largest = largest

    def is_shared(self, size: int) -> bool:
        return size > self.largest

    def init(self, position: Position, friction: Scalar) -> Gathered:
        """z = c/T for each friction."""
        own, shared = self._gathered(position, position)
        first = None if own is None else jnp.broadcast_to(friction.astype(own.dtype), own.shape)
        return Gathered(first, tuple(friction.astype(leaf.dtype) for leaf in shared))

    def per_leaf(self, z: Gathered, like: Position) -> Position:
        """The frictions of each leaf, or its one friction."""
        if isinstance(like, Gathered):
            return z
        leaves, treedef = jax.tree.flatten(like)
        found, shared, begin = [], iter(z.shared), 0
        for leaf in leaves:
            if self.is_shared(leaf.size):
                found.append(next(shared))
                continue
            assert z.own is not None
            part = z.own[begin : begin + leaf.size].reshape(leaf.shape)
            found.append(part.astype(leaf.dtype))
            begin += leaf.size
        return jax.tree.unflatten(treedef, found)

    def apply(
        self, z: Gathered, m: Position, function: Callable[[Array], Array]
    ) -> Callable[[Position], Position]:
        """r ↦ function(z·g)·r, coordinate by coordinate."""

        def act(r: Position) -> Position:
            g = self.weights(self._masses(m, r))
            factors = self.per_leaf(jax.tree.map(lambda z, g: function(z * g), z, g), r)
            return jax.tree.map(jnp.multiply, factors, r)

        return act

    def update(
        self, z: Gathered, r: Position, m: Position, rates: StepRates, weight: Scalar
    ) -> Gathered:
        """z += weight·⟨g(m·r² − ηT)⟩/γ."""
        return super().update(z, self._gathered(r, r), self._masses(m, r), rates, weight)

    def finish_step(self, z: Gathered, friction: Gathered, momenta: StepMomenta) -> Gathered:
        """As that of each friction."""
        return super().finish_step(z, friction, self._of(momenta))

    def kinetic_sum(self, momenta: StepMomenta) -> Scalar:
        """Σ m·r̃², with r̃ = exp(weight·z̄·g/4)·r̄: ηTD in equilibrium."""
        return super().kinetic_sum(self._of(momenta))

    def _of(self, momenta: StepMomenta) -> StepMomenta:
        like = momenta.mean
        after, mean = self._gathered(momenta.after, like), self._gathered(like, like)
        return momenta._replace(after=after, mean=mean, mass=self._masses(momenta.mass, like))

    def _gathered(self, tree: Position, like: Position) -> Gathered:
        """A pytree of numbers and arrays, with small leaves of the position in one vector."""
        own, shared, dtype = [], [], scalar_dtype(like)
        for value, leaf in zip(jax.tree.leaves(tree), jax.tree.leaves(like), strict=True):
            if self.is_shared(leaf.size):
                shared.append(value)
            else:
                own.append(jnp.broadcast_to(value, leaf.shape).ravel().astype(dtype))
        return Gathered(jnp.concatenate(own) if own else None, tuple(shared))

    def _masses(self, m: Position, like: Position) -> Gathered:
        """The masses, with a number in place of the vector where one number is the mass of all."""
        pairs = zip(jax.tree.leaves(m), jax.tree.leaves(like), strict=True)
        own = [value for value, leaf in pairs if not self.is_shared(leaf.size)]
        gathered = self._gathered(m, like)
        if not own or own[0].ndim or any(value is not own[0] for value in own):
            return gathered
        return gathered._replace(own=own[0].astype(scalar_dtype(like)))


def checked_shape(shape: Shape) -> Shape:
    if shape not in ("isotropic", "mass"):
        raise ValueError(f"shape must be 'isotropic' or 'mass'; got {shape!r}")
    return shape


def _mean_over(z: Position) -> Scalar:
    dtype = scalar_dtype(z)
    total = sum((jnp.sum(x).astype(dtype) for x in jax.tree.leaves(z)), jnp.zeros((), dtype))
    return total / dimension(z)
