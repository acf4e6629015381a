r"""Nosé-Hoover thermostats for θ: scalar, one per tensor, diagonal, or none.

In the paper's variables (§3.3: r = pΔt/m, z = sΔt, η = Δt²/m) a thermostat z is a friction
per step that feels the kinetic temperature and settles where it dissipates exactly the heat
that injected and unknown noise bring in:

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

from tacthmc._positions import dimension, scalar_dtype, sum_of_squares, total
from tacthmc._typing import Draws, Number, Position, Rate, Scalar
from tacthmc.dynamics._inertia import Inertia

Shape: TypeAlias = Literal["isotropic", "mass"]


class Conditions(NamedTuple):
    """What holds during one step: η, the bath's temperature T, and the step count."""

    eta: Scalar
    bath: Number
    step: Array
    moving: Any = None
    """For each leaf whether it moves in this step (:mod:`tacthmc.dynamics._heated_block`); None: all do."""


class Stroke(NamedTuple):
    """One step of the splitting as a thermostat sees it; ``weight`` is λ², ``settled`` is z̄."""

    after: Position
    twice_mean: Position
    """The sum of the momenta before and after."""
    mass: Position
    at: Conditions
    weight: Scalar
    settled: Any

    @property
    def mean(self) -> Position:
        """The mean of the momenta before and after."""
        return jax.tree.map(lambda r: 0.5 * r, self.twice_mean)

    @property
    def quarter_mass(self) -> Position:
        """A quarter of the masses: for sums of squares of ``twice_mean``, the same to the last bit.

        XLA on a CPU would write half of the sum out as an array as large as the momenta, each step.
        """
        return jax.tree.map(lambda m: 0.25 * m, self.mass)


class Noise(NamedTuple):
    """What heats θ: the injected level c, and the force's noise as v_i/(m_i·g_i) by coordinate.

    That ratio is what a friction of shape g settles on: the variance itself for "isotropic".
    """

    injected: float
    force_variance: Draws

    def settled(self, at: "Conditions", values: np.ndarray) -> float:
        """(c + η·v/2)/T with v the mean of ``values``."""
        heat = self.injected + float(at.eta) * float(np.mean(values)) / 2
        return heat / float(at.bath)

    def everywhere(self) -> np.ndarray:
        """All coordinates' ratios in one vector."""
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(self.force_variance)])


class Heat(NamedTuple):
    """g(m·r² − ηT·calm): the excess of kinetic temperature.

    Masses, shapes g and ``calm`` are arrays, or numbers for whole leaves: then a leaf's sum is
    that of r² and no more, however many ask for it.
    """

    r: Position
    mass: Position
    g: Position
    at: Conditions
    calm: Position

    def each(self) -> Position:
        """Coordinate by coordinate."""

        def excess(r: Array, m: Array, g: Array, calm: Array) -> Array:
            return g * (m * r * r - (self.at.eta * self.at.bath).astype(r.dtype) * calm)

        return self._of_moving(jax.tree.map(excess, self.r, self.mass, self.g, self.calm))

    def sums(self) -> Position:
        """The sum over each leaf."""

        def summed(r: Array, m: Array, g: Array, calm: Array) -> Array:
            held = (self.at.eta * self.at.bath).astype(r.dtype) * calm
            if m.ndim == g.ndim == calm.ndim == 0:
                return g * (m * jnp.sum(r * r) - held * r.size)
            return jnp.sum(g * (m * r * r - held))

        return self._of_moving(jax.tree.map(summed, self.r, self.mass, self.g, self.calm))

    def _of_moving(self, heat: Position) -> Position:
        """What stands still neither heats nor cools."""
        if self.at.moving is None:
            return heat
        return jax.tree.map(
            lambda moves, x: jnp.where(moves, x, jnp.zeros_like(x)), self.at.moving, heat
        )


class Thermostat(eqx.Module):
    """What damps θ's momenta; a final class says which coordinates share a friction."""

    shape: eqx.AbstractVar[Shape]

    @property
    def separable(self) -> bool:
        """Whether each coordinate is damped by itself; else masses are given for each of them."""
        return False

    @abstractmethod
    def init(self, position: Position, friction: Scalar) -> Any:
        """Thermostats that all start at the friction c/T."""

    @abstractmethod
    def advance(self, z: Any, r: Position, m: Position, at: Conditions, weight: Scalar) -> Any:
        """z after a time in which ``weight`` = λ²·(share of a step)."""

    def completed(self, z: Any, friction: Any, stroke: Stroke) -> Any:
        """z after a whole step of the splitting, ``friction`` being z after half of it.

        Here by the momentum after the step; a final class may feel θ's temperature instead.
        """
        s = stroke
        return self.advance(friction, s.after, s.mass, s.at, 0.5 * s.weight)

    @abstractmethod
    def acting(
        self, z: Any, m: Position, function: Callable[[Array], Array]
    ) -> Callable[[Position], Position]:
        """r ↦ function(z·g)·r, the function of the friction as an operator on momenta."""

    def damping(self, z: Any, m: Position, weight: Scalar) -> Callable[[Position], Position]:
        """The exact flow of the friction, r ↦ exp(−weight·z·g)·r."""
        return self.acting(z, m, lambda x: jnp.exp(-weight.astype(x.dtype) * x))

    def felt(self, stroke: Stroke) -> Scalar:
        """Σ m·r̃², with r̃ = exp(weight·z̄·g/4)·r̄: ηTD in equilibrium."""
        r = self.damping(stroke.settled, stroke.mass, -0.25 * stroke.weight)(stroke.mean)
        return total(sum_of_squares(stroke.mass, r), scalar_dtype(r))

    @abstractmethod
    def drag(self, z: Any, r: Position, m: Position, weight: Scalar) -> Position:
        """The friction's Euler increment, weight·z·g·r, to be subtracted."""

    @abstractmethod
    def level(self, z: Any) -> Scalar:
        """One number to watch: the mean friction."""

    @abstractmethod
    def level_law(self, position: Position, noise: Noise, at: Conditions) -> tuple[float, float]:
        """Theorem 1's mean and variance of :meth:`level`."""

    def weights(self, m: Position) -> Position:
        """The shape g of friction and injected noise."""
        if self.shape == "mass":
            return jax.tree.map(jnp.ones_like, m)
        return jax.tree.map(lambda m: 1 / m, m)


class SeparableThermostat(Thermostat):
    """Thermostats whose friction acts on each coordinate by itself."""

    @property
    def separable(self) -> bool:
        """Yes."""
        return True

    @abstractmethod
    def per_leaf(self, z: Any, like: Position) -> Position:
        """The frictions as a pytree whose leaves broadcast to those of ``like``."""

    def acting(
        self, z: Any, m: Position, function: Callable[[Array], Array]
    ) -> Callable[[Position], Position]:
        """r ↦ function(z·g)·r, coordinate by coordinate."""
        factors = jax.tree.map(lambda z, g: function(z * g), self.per_leaf(z, m), self.weights(m))
        return lambda r: jax.tree.map(jnp.multiply, factors, r)

    @abstractmethod
    def fed(self, z: Any, heat: Heat, weight: Scalar) -> Any:
        """z after feeling an excess of heat for a time in which ``weight`` = λ²·(share)."""

    def advance(self, z: Any, r: Position, m: Position, at: Conditions, weight: Scalar) -> Any:
        """z += weight·⟨g(m·r² − ηT)⟩/γ."""
        one = jax.tree.map(lambda r: jnp.ones((), r.dtype), r)
        return self.fed(z, Heat(r, m, self.weights(m), at, one), weight)

    def completed(self, z: Any, friction: Any, stroke: Stroke) -> Any:
        """z += weight·⟨g(m·r̄² − exp(−weight·z̄·g/2)·ηT)⟩/γ, r̄ the mean of the momenta."""
        s = stroke
        calm = jax.tree.map(jnp.square, self._calm(s))
        weights = self.weights(s.mass)
        return self.fed(z, Heat(s.twice_mean, s.quarter_mass, weights, s.at, calm), s.weight)

    def felt(self, stroke: Stroke) -> Scalar:
        """Σ m·r̃², with r̃ = exp(weight·z̄·g/4)·r̄: ηTD in equilibrium."""

        def least(r: Array) -> float:
            # A friction that stops all motion makes no temperature of it, rather than 0/0.
            return float(jnp.finfo(r.dtype).tiny)

        def summed(r: Array, m: Array, calm: Array) -> Array:
            if m.ndim == calm.ndim == 0:
                # The sum that the thermostat feels, once more.
                return m * jnp.sum(r * r) / jnp.maximum(calm * calm, least(r))
            return jnp.sum(m * (r / jnp.maximum(calm, least(r))) ** 2)

        r = stroke.twice_mean
        sums = jax.tree.map(summed, r, stroke.quarter_mass, self._calm(stroke))
        return total(jax.tree.leaves(sums), scalar_dtype(r))

    def _calm(self, stroke: Stroke) -> Position:
        """exp(−weight·z̄·g/4)."""
        return jax.tree.map(
            lambda z, g: jnp.exp(-0.25 * stroke.weight.astype(z.dtype) * z * g),
            self.per_leaf(stroke.settled, stroke.mass),
            self.weights(stroke.mass),
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
    """A constant friction c/T: right only if the gradient has no noise of its own.

    >>> import jax.numpy as jnp
    >>> round(float(NoThermostat().init(jnp.zeros(3), jnp.array(0.1))), 3)
    0.1
    """

    shape: Shape = eqx.field(static=True)

    def __init__(self, shape: Shape = "isotropic"):
        """Keep the friction constant."""
        self.shape = _checked_shape(shape)

    def init(self, position: Position, friction: Scalar) -> Scalar:
        """The constant itself."""
        return friction

    def fed(self, z: Scalar, heat: Heat, weight: Scalar) -> Scalar:
        """Stay."""
        return z

    def per_leaf(self, z: Scalar, like: Position) -> Position:
        """The same for every leaf."""
        return jax.tree.map(lambda leaf: z.astype(leaf.dtype), like)

    def level(self, z: Scalar) -> Scalar:
        """The constant."""
        return z

    def level_law(self, position: Position, noise: Noise, at: Conditions) -> tuple[float, float]:
        """A constant: c/T, no variance."""
        return float(noise.injected / at.bath), 0.0


class ScalarThermostat(SeparableThermostat):
    """One friction for all coordinates (Algorithm 1).

    >>> import tacthmc
    >>> tacthmc.sgnht(0.01, thermostat=ScalarThermostat(gamma=1.0)).thermostat.inertia
    Inertia(gamma=1.0, steps=None)
    """

    inertia: Inertia
    shape: Shape = eqx.field(static=True)

    def __init__(
        self, gamma: Rate | None = None, steps: Rate | None = None, shape: Shape = "isotropic"
    ):
        """Give the inertia as γ (``gamma``) or relative as Γ (``steps``, 100 by default)."""
        self.inertia, self.shape = Inertia(gamma, steps), _checked_shape(shape)

    def init(self, position: Position, friction: Scalar) -> Scalar:
        """z = c/T."""
        return friction

    def fed(self, z: Scalar, heat: Heat, weight: Scalar) -> Scalar:
        """z += weight·⟨heat⟩/γ."""
        inertia = dimension(heat.r) * self.inertia.at(heat.at.step, heat.at.eta, heat.at.bath)
        return z + weight * total(jax.tree.leaves(heat.sums()), z.dtype) / inertia

    def per_leaf(self, z: Scalar, like: Position) -> Position:
        """The same for every leaf."""
        return jax.tree.map(lambda leaf: z.astype(leaf.dtype), like)

    def level(self, z: Scalar) -> Scalar:
        """z."""
        return z

    def level_law(self, position: Position, noise: Noise, at: Conditions) -> tuple[float, float]:
        """Mean (c + ηv/2)/T, variance ηT/(γD)."""
        mean = noise.settled(at, noise.everywhere())
        return mean, level_variance(self.inertia, at, dimension(position))


class TensorThermostat(SeparableThermostat):
    """One friction for each leaf of the position (each weight matrix, each bias vector).

    >>> import jax.numpy as jnp
    >>> network = {"weight": jnp.zeros((3, 2)), "bias": jnp.zeros(2)}
    >>> z = TensorThermostat().init(network, jnp.array(0.1))
    >>> z["weight"].shape, z["bias"].shape
    ((), ())
    """

    inertia: Inertia
    shape: Shape = eqx.field(static=True)

    def __init__(
        self, gamma: Rate | None = None, steps: Rate | None = None, shape: Shape = "isotropic"
    ):
        """Give the inertia as γ (``gamma``) or relative as Γ (``steps``, 100 by default)."""
        self.inertia, self.shape = Inertia(gamma, steps), _checked_shape(shape)

    def init(self, position: Position, friction: Scalar) -> Position:
        """z = c/T for each leaf."""
        return jax.tree.map(lambda leaf: friction.astype(leaf.dtype), position)

    def fed(self, z: Position, heat: Heat, weight: Scalar) -> Position:
        """z += weight·⟨heat⟩/γ, leaf by leaf."""
        rate = weight / self.inertia.at(heat.at.step, heat.at.eta, heat.at.bath)

        def moved(z: Array, h: Array, r: Array) -> Array:
            return z + rate.astype(z.dtype) * h / max(r.size, 1)

        return jax.tree.map(moved, z, heat.sums(), heat.r)

    def per_leaf(self, z: Position, like: Position) -> Position:
        """One scalar a leaf."""
        return z

    def level(self, z: Position) -> Scalar:
        """The mean over leaves."""
        return _mean_over(z)

    def level_law(self, position: Position, noise: Noise, at: Conditions) -> tuple[float, float]:
        """Mean (c + ηv/2)/T; variance Σ ηT/(γD_leaf) over the squared number of leaves."""
        sizes = [math.prod(leaf.shape) for leaf in jax.tree.leaves(position)]
        means = [noise.settled(at, leaf) for leaf in jax.tree.leaves(noise.force_variance)]
        variances = [level_variance(self.inertia, at, size) for size in sizes]
        return float(np.mean(means)), sum(variances) / len(sizes) ** 2


class DiagonalThermostat(SeparableThermostat):
    """One friction for each coordinate: right for noise of unequal variances.

    >>> import jax.numpy as jnp
    >>> DiagonalThermostat(steps=200).init(jnp.zeros((3, 2)), jnp.array(0.1)).shape
    (3, 2)
    """

    inertia: Inertia
    shape: Shape = eqx.field(static=True)

    def __init__(
        self, gamma: Rate | None = None, steps: Rate | None = None, shape: Shape = "isotropic"
    ):
        """Give the inertia as γ (``gamma``) or relative as Γ (``steps``, 100 by default)."""
        self.inertia, self.shape = Inertia(gamma, steps), _checked_shape(shape)

    def init(self, position: Position, friction: Scalar) -> Position:
        """z = c/T for each coordinate."""
        return jax.tree.map(
            lambda leaf: jnp.broadcast_to(friction.astype(leaf.dtype), leaf.shape), position
        )

    def fed(self, z: Position, heat: Heat, weight: Scalar) -> Position:
        """z += weight·heat/γ, coordinate by coordinate."""
        rate = weight / self.inertia.at(heat.at.step, heat.at.eta, heat.at.bath)
        return jax.tree.map(lambda z, h: z + rate.astype(z.dtype) * h, z, heat.each())

    def per_leaf(self, z: Position, like: Position) -> Position:
        """One friction a coordinate."""
        return z

    def level(self, z: Position) -> Scalar:
        """The mean over coordinates."""
        return _mean_over(z)

    def level_law(self, position: Position, noise: Noise, at: Conditions) -> tuple[float, float]:
        """Mean (c + ηv/2)/T (v the mean noise variance), variance ηT/γ over D."""
        mean = noise.settled(at, noise.everywhere())
        return mean, level_variance(self.inertia, at, 1) / dimension(position)


def _checked_shape(shape: Shape) -> Shape:
    if shape not in ("isotropic", "mass"):
        raise ValueError(f"shape must be 'isotropic' or 'mass'; got {shape!r}")
    return shape


def _mean_over(z: Position) -> Scalar:
    dtype = scalar_dtype(z)
    total = sum((jnp.sum(x).astype(dtype) for x in jax.tree.leaves(z)), jnp.zeros((), dtype))
    return total / dimension(z)


def level_variance(inertia: Inertia, at: Conditions, size: int) -> float:
    """ηT/(γD)."""
    gamma = float(inertia.at(at.step, at.eta, at.bath))
    return float(at.eta) * float(at.bath) / (gamma * size)
