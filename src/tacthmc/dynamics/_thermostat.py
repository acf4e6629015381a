r"""Nosé-Hoover thermostats for θ: scalar, one per tensor, diagonal, or none.

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

import math
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
from tacthmc._typing import Draws, Number, Position, Rate, Scalar

Shape: TypeAlias = Literal["isotropic", "mass"]


class StepRates(NamedTuple):
    """The rates of one step: η, c, the bath's temperature T, and the step count."""

    eta: Scalar
    c: Scalar
    bath: Number
    step: Array


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


class StepMomenta(NamedTuple):
    """The momenta of one step of the splitting, from which a thermostat is driven."""

    after: Position
    """r′, the momenta after the kick."""
    mean: Position
    """(r + r′)/2, the mean of the momenta before and after the kick."""
    mass: Position
    rates: StepRates
    weight: Scalar
    """λ²."""
    mean_friction: Any
    """z̄."""


class NoiseLevels(NamedTuple):
    """The sources of heat for θ: the injected noise c, and the noise of the force."""

    injected: float
    force_variance: Draws
    """v_i/(m_i·g_i) of each coordinate, the ratio that a friction of shape g balances. With the
    shape "isotropic" it is the variance v_i itself."""

    def friction(self, rates: StepRates, values: np.ndarray) -> float:
        """(c + η·v/2)/T with v the mean of ``values``."""
        heat = self.injected + float(rates.eta) * float(np.mean(values)) / 2
        return heat / float(rates.bath)

    def all_coordinates(self) -> np.ndarray:
        """The ratios of all coordinates in one vector."""
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(self.force_variance)])


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
            if m.ndim == factor.ndim == 0:
                # The thermostat needs the same Σ r².
                return m * jnp.sum(r * r) / jnp.maximum(factor * factor, least(r))
            return jnp.sum(m * (r / jnp.maximum(factor, least(r))) ** 2)

        r = momenta.mean
        sums = jax.tree.map(summed, r, momenta.mass, self._damping_factor(momenta))
        return total(jax.tree.leaves(sums), scalar_dtype(r))

    def _damping_factor(self, momenta: StepMomenta) -> Position:
        """exp(−weight·z̄·g/4)."""
        return jax.tree.map(
            lambda z, g: jnp.exp(-0.25 * momenta.weight.astype(z.dtype) * z * g),
            self.per_leaf(momenta.mean_friction, momenta.mass),
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


class NoThermostat(SeparableThermostat):
    """A constant friction c/T, which is right only if the gradient has no noise.

    >>> import jax.numpy as jnp
    >>> round(float(NoThermostat().init(jnp.zeros(3), jnp.array(0.1))), 3)
    0.1
    """

    shape: Shape = eqx.field(static=True)

    def __init__(self, shape: Shape = "isotropic"):
        """Use a constant friction of a shape, "isotropic" or "mass"."""
        self.shape = _checked_shape(shape)

    def init(self, position: Position, friction: Scalar) -> Scalar:
        """The constant."""
        return friction

    def respond(self, z: Scalar, excess: KineticExcess, weight: Scalar) -> Scalar:
        return z

    def per_leaf(self, z: Scalar, like: Position) -> Position:
        return jax.tree.map(lambda leaf: z.astype(leaf.dtype), like)

    def level(self, z: Scalar) -> Scalar:
        return z

    def level_law(
        self, position: Position, noise: NoiseLevels, rates: StepRates
    ) -> tuple[float, float]:
        """Mean c/T, variance 0."""
        return float(noise.injected / rates.bath), 0.0


class AdaptiveThermostat(SeparableThermostat):
    """Thermostats whose friction adapts, with an inertia γ."""

    inertia: Inertia
    shape: Shape = eqx.field(static=True)

    def __init__(
        self, gamma: Rate | None = None, steps: Rate | None = None, shape: Shape = "isotropic"
    ):
        """Use the inertia γ (``gamma``), or the relative one Γ (``steps``, 100 by default)."""
        self.inertia, self.shape = Inertia(gamma, steps), _checked_shape(shape)


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
        return mean, level_variance(self.inertia, rates, dimension(position))


class TensorThermostat(AdaptiveThermostat):
    """One friction for each leaf of the position, such as each weight matrix and bias vector.

    >>> import jax.numpy as jnp
    >>> network = {"weight": jnp.zeros((3, 2)), "bias": jnp.zeros(2)}
    >>> z = TensorThermostat().init(network, jnp.array(0.1))
    >>> z["weight"].shape, z["bias"].shape
    ((), ())
    """

    __init__ = AdaptiveThermostat.__init__

    def init(self, position: Position, friction: Scalar) -> Position:
        """z = c/T for each leaf."""
        return jax.tree.map(lambda leaf: friction.astype(leaf.dtype), position)

    def respond(self, z: Position, excess: KineticExcess, weight: Scalar) -> Position:
        """z += weight·⟨excess⟩/γ, leaf by leaf."""
        rate = weight / self.inertia.at(excess.rates.step, excess.rates.eta, excess.rates.bath)

        def moved(z: Array, h: Array, r: Array) -> Array:
            return z + rate.astype(z.dtype) * h / max(r.size, 1)

        return jax.tree.map(moved, z, excess.leaf_sums(), excess.r)

    def per_leaf(self, z: Position, like: Position) -> Position:
        """z itself, which has one scalar per leaf."""
        return z

    def level(self, z: Position) -> Scalar:
        """The mean over leaves."""
        return _mean_over(z)

    def level_law(
        self, position: Position, noise: NoiseLevels, rates: StepRates
    ) -> tuple[float, float]:
        """Mean (c + ηv/2)/T, variance Σ ηT/(γD_leaf) over the squared number of leaves."""
        sizes = [math.prod(leaf.shape) for leaf in jax.tree.leaves(position)]
        means = [noise.friction(rates, leaf) for leaf in jax.tree.leaves(noise.force_variance)]
        variances = [level_variance(self.inertia, rates, size) for size in sizes]
        return float(np.mean(means)), sum(variances) / len(sizes) ** 2


class DiagonalThermostat(AdaptiveThermostat):
    """One friction for each coordinate, for noise of unequal variances.

    >>> import jax.numpy as jnp
    >>> DiagonalThermostat(steps=200).init(jnp.zeros((3, 2)), jnp.array(0.1)).shape
    (3, 2)
    """

    __init__ = AdaptiveThermostat.__init__

    def init(self, position: Position, friction: Scalar) -> Position:
        """z = c/T for each coordinate."""
        return jax.tree.map(
            lambda leaf: jnp.broadcast_to(friction.astype(leaf.dtype), leaf.shape), position
        )

    def respond(self, z: Position, excess: KineticExcess, weight: Scalar) -> Position:
        """z += weight·excess/γ, coordinate by coordinate."""
        rate = weight / self.inertia.at(excess.rates.step, excess.rates.eta, excess.rates.bath)
        return jax.tree.map(lambda z, h: z + rate.astype(z.dtype) * h, z, excess.per_coordinate())

    def per_leaf(self, z: Position, like: Position) -> Position:
        """z itself, which has one friction per coordinate."""
        return z

    def level(self, z: Position) -> Scalar:
        """The mean over coordinates."""
        return _mean_over(z)

    def level_law(
        self, position: Position, noise: NoiseLevels, rates: StepRates
    ) -> tuple[float, float]:
        """Mean (c + ηv/2)/T with v the mean noise variance, variance ηT/(γD)."""
        mean = noise.friction(rates, noise.all_coordinates())
        return mean, level_variance(self.inertia, rates, 1) / dimension(position)


def _checked_shape(shape: Shape) -> Shape:
    if shape not in ("isotropic", "mass"):
        raise ValueError(f"shape must be 'isotropic' or 'mass'; got {shape!r}")
    return shape


def _mean_over(z: Position) -> Scalar:
    dtype = scalar_dtype(z)
    total = sum((jnp.sum(x).astype(dtype) for x in jax.tree.leaves(z)), jnp.zeros((), dtype))
    return total / dimension(z)


def level_variance(inertia: Inertia, rates: StepRates, size: int) -> float:
    """ηT/(γD)."""
    gamma = float(inertia.at(rates.step, rates.eta, rates.bath))
    return float(rates.eta) * float(rates.bath) / (gamma * size)
