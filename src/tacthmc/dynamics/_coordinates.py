r"""The coordinates φ in which a chain moves: linear, or widening with the temperature.

**Linear** (:class:`tacthmc.dynamics.LinearMap`): θ = b + Aφ, where the posterior is rounder in φ.

**Temperature-scaled** (``center=``), which keep ξ moving in high dimension.

At temperature 1/λ a posterior is wider by 1/√λ, and its energy is larger by about D/2·(1/λ − 1)
with fluctuations of √(D/2)/λ. Where ξ changes only λ, θ widens afterward: the fluctuations drag ξ,
and the number of its round trips falls as 1/D. In these coordinates θ widens together with ξ,

.. math:: \theta = \mu + \frac{\varphi - \mu}{\sqrt{\lambda(\xi)}},

and the chain moves φ and ξ. The density exp(−λU(θ)) of θ is exp(−λU(θ(φ, ξ)))·λ^(−D/2) in these
coordinates, and the force on ξ is −λ′·(E + D/(2λ)) with

.. math:: E = U(\theta) - \tfrac12\nabla U(\theta)\cdot(\theta - \mu).

By the virial theorem ⟨E⟩ = ⟨U⟩ − D/(2λ) at every ξ, so the free energy A(ξ) is unchanged. Its
analytic part D/2·log λ is removed exactly, with or without a bias. A bias learns the rest from E,
which hardly depends on ξ. E also fluctuates much less than U: where U is quadratic about μ it is
constant, for any D and any curvatures. In a mode at the distance d from μ its variance is d²/4
times the curvature over λ.

**On the plateau** λ = 1 and θ = φ for any μ, so the posterior is invariant there under the
assumptions of :func:`tacthmc.tact`. μ may change on the plateau without moving θ. It is therefore
learned there, as a mean of θ that weights later steps more. Like the bias, a wrong μ costs
efficiency, not correctness.

**The noise of the force** now moves ξ too. It moves φ by −a·N and ξ by −b·N, with a = √λ and
b = −½λ′(θ − μ), and so heats the velocity of θ itself, λ·dθ/dt = a·dφ/dt + b·dξ/dt. A friction of
strength z_f on that velocity removes the heat. As an operator on the momenta, in units of their
standard deviations, with ρ² = η_ξ/η_θ, it is

.. math:: z_f \begin{pmatrix} a^2 & \rho\,a\,b \\ \rho\,a\,b^\top & \rho^2 |b|^2 \end{pmatrix}.

The first entry is the thermostat of θ. The others are :class:`CrossFriction`, where z_f is the mean
friction of the thermostat less the part for the injected noise, which moves φ alone.
"""

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike

from tacthmc import _checks as checks
from tacthmc._positions import dimension, scalar_dtype, spread, total
from tacthmc._typing import Number, Position, Rate, Scalar
from tacthmc.dynamics._linear_map import LinearMap, MappedPotential
from tacthmc.dynamics._state import State
from tacthmc.dynamics._step_rates import StepRates
from tacthmc.dynamics._tempering import Tempering
from tacthmc.dynamics._thermostat import SeparableThermostat, Thermostat
from tacthmc.potentials import Potential


class Center(eqx.Module):
    """The center μ."""

    position: Position
    """μ."""
    visits: Scalar | None
    """The number of plateau steps that μ was learned from, or None if it is fixed."""


class Rates(NamedTuple):
    """All rates of one step, and the masses."""

    theta: StepRates
    xi: StepRates
    mass: Position


class Coordinates(eqx.Module):
    """φ, with θ = b + A·(μ + (φ − μ)/√λ(ξ)). By default φ is θ itself.

    >>> import jax.numpy as jnp, tacthmc
    >>> wide = Coordinates(LinearMap(jnp.array([2.0, 0.5])), center="mean")
    >>> tacthmc.tact(0.01, coordinates=wide).coordinates.widens
    True
    """

    linear: Any
    center: Any

    def __init__(
        self,
        linear: LinearMap | Literal["auto", "diagonal"] | None = None,
        center: Any = None,
    ):
        """Choose linear coordinates, coordinates that widen with the temperature, or both.

        Args:
            linear: a linear map to coordinates in which the posterior is rounder. For ``tact()``
                without numbers, "diagonal" requests a scale for each coordinate, from standard
                deviations in a short run, and "auto" lets tuning choose.
            center: "mean" makes θ widen about its mean on the plateau, which keeps ξ moving in
                high dimension. A position (or a number for all of it) fixes the center. None is
                the paper's form. For ``tact()`` without numbers, "auto" lets tuning choose.
        """
        if isinstance(linear, str) and linear not in ("auto", "diagonal"):
            raise ValueError(f'linear must be a LinearMap, "auto" or "diagonal"; got {linear!r}')
        if linear is not None and not isinstance(linear, str):
            checks.instance("linear", linear, LinearMap, "a tacthmc.dynamics.LinearMap")
        if isinstance(center, str) and center not in ("mean", "auto"):
            raise ValueError(f'center must be None, "mean", "auto" or a position; got {center!r}')
        self.linear, self.center = linear, center

    @property
    def widens(self) -> bool:
        """Whether θ widens with ξ."""
        return self.center is not None

    def check(
        self, tempering: Tempering | None, thermostat: Thermostat, rates: tuple[Rate, Rate]
    ) -> None:
        """Raise an error for choices left to tuning, and for parts that cannot widen."""
        for name, part in (("linear", self.linear), ("center", self.center)):
            if isinstance(part, str) and part != "mean":
                raise ValueError(
                    f'Coordinates({name}="{part}") is for tact() without a step size, which chooses'
                    f" it; got a sampler whose numbers are given"
                )
        if not self.widens:
            return
        if tempering is None:
            raise ValueError("center is for tempered samplers: without a coupling nothing widens")
        if not isinstance(thermostat, SeparableThermostat):
            raise ValueError(
                "center needs a thermostat that damps each coordinate by itself; got"
                f" {type(thermostat).__name__}"
            )
        if any(callable(rate) for rate in rates):
            raise ValueError("center needs a step_size and a noise that are numbers, not schedules")

    def from_theta(self, position: Position) -> Position:
        """φ from θ, on the plateau."""
        return position if self.linear is None else self.linear.inverse(position)

    def to_theta(self, position: Position) -> Position:
        """θ from φ, on the plateau."""
        return position if self.linear is None else self.linear.forward(position)

    def theta(self, state: State, tempering: Tempering) -> Position:
        """θ of a state, at any temperature."""
        if state.center is None:
            return self.to_theta(state.position)
        own = tempering.coupling_at(state.tempering, 1.0)[0]
        inner = widen(state.position, state.center.position, own)
        # On the plateau it is exactly φ, without the rounding of the sum.
        flat = own == 1
        inner = jax.tree.map(lambda w, x: jnp.where(flat, x, w), inner, state.position)
        return self.to_theta(inner)

    def potential(self, potential: Potential) -> Potential:
        """The energy as a function of the linear coordinates."""
        return potential if self.linear is None else MappedPotential(potential, self.linear)

    def init(self, position: Position, dtype: DTypeLike) -> Center | None:
        """The center before the first step; ``position`` is φ."""
        if self.center is None:
            return None
        if isinstance(self.center, str):
            # A copy, because a state whose buffers are donated must not hold a buffer twice.
            return Center(jax.tree.map(jnp.copy, position), jnp.zeros((), dtype))
        return Center(self.from_theta(spread(self.center, position, "center", whole=True)), None)

    def analytic_log_lambda(self, position: Position) -> float:
        """The factor of T·log λ in the free energy that is known analytically: D/2, or 0."""
        return 0.5 * dimension(position) if self.widens else 0.0

    def scaled(
        self, position: Position, center: Center | None, lam: Scalar, bath: Number
    ) -> tuple[Position, Scalar]:
        """θ in linear coordinates, and T·λ·∂θ/∂φ, which multiplies force and noise."""
        if center is None:
            return position, lam
        own = lam / bath
        return widen(position, center.position, own), lam * jax.lax.rsqrt(own)

    def xi_energy(
        self, energy: Scalar, gradient: Position, theta: Position, center: Center | None
    ) -> Scalar:
        """The energy that acts on ξ: U, or E if θ widens with ξ."""
        if center is None:
            return energy
        return virial_energy(energy, gradient, theta, center.position)

    def with_cross_friction(
        self, state: State, tempering: Tempering, thermostat: Thermostat, now: Rates
    ) -> State:
        """The state after the friction that φ and ξ share, for a whole step.

        It acts between steps, where θ and its momentum belong to the same time and are
        uncorrelated. In the middle of a step its mean would not be zero: it would be a force on ξ
        of order D that the bias does not learn.
        """
        if state.center is None or not tempering.has_momentum:
            return state
        assert isinstance(thermostat, SeparableThermostat)
        lam, slope = tempering.coupling_at(state.tempering, now.theta.bath)
        theta, a = self.scaled(state.position, state.center, lam, now.theta.bath)
        offset = jax.tree.map(jnp.subtract, theta, state.center.position)
        # Injected noise moves φ alone.
        injected = now.theta.c / now.theta.bath
        friction = jax.tree.map(
            lambda z: jnp.maximum(z - injected.astype(z.dtype), 0),
            thermostat.per_leaf(state.mean_friction, theta),
        )
        ratio = jnp.sqrt(now.xi.eta / now.theta.eta)
        shapes = now.mass, thermostat.weights(now.mass)
        shared = cross_friction(friction, a, slope, offset, ratio, shapes)
        heat = now.theta.eta * now.theta.bath
        scale = jax.tree.map(lambda m: jnp.sqrt(heat.astype(m.dtype) / m), now.mass)
        scales = scale, jnp.sqrt(now.xi.eta * now.theta.bath)
        r, r_xi = apply_cross_friction(shared, state.momentum, state.tempering.momentum, scales)
        # A schedule of the step size of ξ may reach 0.
        moves = now.xi.eta > 0
        r = jax.tree.map(lambda new, old: jnp.where(moves, new, old), r, state.momentum)
        r_xi = jnp.where(moves, r_xi, state.tempering.momentum)
        return replace(state, momentum=r, tempering=replace(state.tempering, momentum=r_xi))

    def recentered(self, state: State, tempering: Tempering) -> State:
        """The state with its center updated by one more step."""
        if state.center is None or state.center.visits is None:
            return state
        here = tempering.coupling.on_plateau(state.tempering.xi)
        moved = recentered(state.center.position, state.position, state.center.visits, here)
        return replace(state, center=Center(*moved))


def widen(position: Position, center: Position, own: Scalar) -> Position:
    """θ = μ + (φ − μ)/√λ.

    >>> import jax.numpy as jnp
    >>> widen(jnp.array([3.0]), jnp.array([1.0]), jnp.array(0.25)).tolist()
    [5.0]
    """
    scale = jax.lax.rsqrt(own)
    return jax.tree.map(lambda x, m: m + scale.astype(x.dtype) * (x - m), position, center)


def virial_energy(energy: Scalar, gradient: Position, theta: Position, center: Position) -> Scalar:
    """E = U − ½∇U·(θ − μ).

    >>> import jax.numpy as jnp
    >>> x = jnp.array([3.0, 4.0])                    # U = |x|²/2: E = 0 everywhere
    >>> float(virial_energy(jnp.array(12.5), x, x, jnp.zeros(2)))
    0.0
    """

    def along(g: Array, x: Array, m: Array) -> Array:
        return jnp.sum(g * (x - m))

    sums = jax.tree.leaves(jax.tree.map(along, gradient, theta, center))
    virial = total(sums, scalar_dtype(theta))
    return energy - 0.5 * virial.astype(energy.dtype)


def recentered(
    center: Position, position: Position, visits: Scalar, here: Array
) -> tuple[Position, Scalar]:
    """μ and the number of visits after one more step; ``here`` says if it is on the plateau.

    The n-th visit moves μ by 2/(n + 1) of the difference, so it counts n times as much as the
    first.

    >>> import jax.numpy as jnp
    >>> here = jnp.array(True)
    >>> center, visits = recentered(jnp.array(5.0), jnp.array(1.0), jnp.array(0.0), here)
    >>> float(center), float(visits)
    (1.0, 1.0)
    """
    counted = visits + here.astype(visits.dtype)
    rate = jnp.where(here, 2 / (counted + 1), 0)

    def moved(m: Array, x: Array) -> Array:
        return m + rate.astype(m.dtype) * (x - m)

    return jax.tree.map(moved, center, position), counted


class CrossFriction(NamedTuple):
    """The friction of φ and ξ beside that of the thermostats."""

    along: Position
    """c, the off-diagonal part, for each coordinate of p = r·√(m/η)."""
    own: Scalar
    """β², the part that acts on ξ alone."""


def cross_friction(
    friction: Position, a: Scalar, slope: Scalar, offset: Position, ratio: Scalar, shapes: Any
) -> CrossFriction:
    """c = ρ·z_f·a·b·g√m and β² = ρ²·Σ z_f·b²·m·g, with b = −½λ′(θ − μ).

    ``friction`` has z_f for each leaf, ``ratio`` is ρ, and ``shapes`` are masses m and shapes g.
    """
    mass, g = shapes

    def coupled(z: Array, x: Array, m: Array, g: Array) -> Array:
        scale = (ratio * a * -0.5 * slope).astype(x.dtype)
        return scale * z.astype(x.dtype) * g * jnp.sqrt(m) * x

    def damped(z: Array, x: Array, m: Array, g: Array) -> Array:
        return jnp.sum(z.astype(x.dtype) * m * g * x * x)

    sums = jax.tree.leaves(jax.tree.map(damped, friction, offset, mass, g))
    own = (0.5 * ratio * slope) ** 2 * total(sums, scalar_dtype(offset)).astype(slope.dtype)
    return CrossFriction(jax.tree.map(coupled, friction, offset, mass, g), own)


def apply_cross_friction(
    shared: CrossFriction, r: Position, r_xi: Scalar, scales: tuple[Position, Scalar]
) -> tuple[Position, Scalar]:
    """Apply exp(−M) to (r, r_ξ) exactly, M = [[0, c], [cᵀ, β²]].

    ``scales`` are the standard deviations of the momenta.

    >>> import jax.numpy as jnp
    >>> shared, sds = CrossFriction(jnp.zeros(2), jnp.array(1.0)), (jnp.ones(2), jnp.array(1.0))
    >>> r, r_xi = apply_cross_friction(shared, jnp.ones(2), jnp.array(1.0), sds)
    >>> r.tolist(), round(float(r_xi), 4)
    ([1.0, 1.0], 0.3679)
    """
    scale, scale_xi = scales
    dtype = r_xi.dtype
    squares = jax.tree.leaves(jax.tree.map(lambda c: jnp.sum(c * c), shared.along))
    length = jnp.sqrt(jnp.maximum(total(squares, dtype), jnp.finfo(dtype).tiny))
    dots = jax.tree.leaves(jax.tree.map(lambda c, r, s: jnp.sum(c * r / s), shared.along, r, scale))
    p, p_xi = total(dots, dtype) / length, r_xi / scale_xi
    half = 0.5 * shared.own
    root = jnp.sqrt(half**2 + length**2)
    slow, fast = jnp.exp(root - half), jnp.exp(-root - half)
    even, odd = 0.5 * (slow + fast), 0.5 * (slow - fast) / root
    # M − β²/2 = [[−β²/2, |c|], [|c|, β²/2]] on (p along c, p_ξ).
    new = even * p - odd * (length * p_xi - half * p)
    new_xi = even * p_xi - odd * (length * p + half * p_xi)
    change = (new - p) / length

    def moved(r: Array, c: Array, s: Array) -> Array:
        return r + change.astype(r.dtype) * c * s

    return jax.tree.map(moved, r, shared.along, scale), new_xi * scale_xi
