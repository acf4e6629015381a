r"""Coordinates in which θ moves: linear ones, and ones that widen with the temperature.

**Linear** (:class:`tacthmc.dynamics.LinearMap`): θ = b + Aφ, where the posterior is rounder in φ.

**Temperature-scaled** (``center=``), so that ξ moves in high dimension too.

At temperature 1/λ a posterior is wider by 1/√λ, and its energy is larger by about D/2·(1/λ − 1)
with fluctuations of √(D/2)/λ. Where ξ alone changes λ, θ has to widen by itself afterwards: ξ is
dragged by those fluctuations, and its round trips fall as 1/D. Here θ widens with ξ,

.. math:: \theta = \mu + \frac{\varphi - \mu}{\sqrt{\lambda(\xi)}},

and φ and ξ are what moves. In these coordinates the density exp(−λU(θ)) of θ reads
exp(−λU(θ(φ, ξ)))·λ^(−D/2), and the force on ξ is −λ′·(E + D/(2λ)) with

.. math:: E = U(\theta) - \tfrac12\nabla U(\theta)\cdot(\theta - \mu).

By the virial theorem ⟨E⟩ = ⟨U⟩ − D/(2λ) at every ξ, so that the free energy A(ξ) is what it was.
The part of it that is known, D/2·log λ, is taken off exactly, with a bias or without; a bias
learns the rest from E, which hardly depends on ξ. Nor does E fluctuate as U does: where U is
quadratic about μ it is constant, whatever D and the curvatures are; in a mode that lies d off μ
its variance is d²/4 times the curvature over λ.

**On the plateau** λ = 1 and θ = φ, for any μ: the posterior is invariant there under the
assumptions of :func:`tacthmc.tact`. μ may change there without moving θ, so it is learned there:
the mean of θ over the plateau so far, later steps counting more. Like the bias, it costs
efficiency where it is wrong, not correctness.

**The force's noise** moves ξ too now, by −b·N where it moves φ by −a·N, with a = √λ and
b = −½λ′(θ − μ): what heats the velocity of θ itself, λ·dθ/dt = a·dφ/dt + b·dξ/dt. A friction of
strength z_f against it takes that heat out; as an operator on the momenta, in units of their
standard deviations, with ρ² = η_ξ/η_θ,

.. math:: z_f \begin{pmatrix} a^2 & \rho\,a\,b \\ \rho\,a\,b^\top & \rho^2 |b|^2 \end{pmatrix}.

The first entry is θ's thermostat. The others are :class:`CrossFriction`, with for z_f the friction
that the thermostat has settled on, less the share of the injected noise (which moves φ alone).
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
from tacthmc.dynamics._tempering import Tempering
from tacthmc.dynamics._thermostat import SeparableThermostat, StepRates, Thermostat
from tacthmc.potentials import Potential


class Center(eqx.Module):
    """μ, and the number of steps on the plateau that it was learned from (None: it is fixed)."""

    position: Position
    visits: Scalar | None


class Rates(NamedTuple):
    """All rates at one step, and the masses."""

    theta: StepRates
    xi: StepRates
    mass: Position


class Coordinates(eqx.Module):
    """What moves: φ, with θ = b + A·(μ + (φ − μ)/√λ(ξ)); θ itself unless told otherwise.

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
            linear: linear coordinates, where the posterior is rounder. With ``tact()``, whose
                numbers are chosen, "diagonal" asks for a scale for each coordinate, by their
                standard deviations in a short run, and "auto" for whatever fits.
            center: "mean" lets θ widen about the plateau's mean as ξ heats, which keeps ξ moving in
                high dimension; a position (or a number for all of it) fixes the center; None is
                the paper's form. With ``tact()``, "auto" leaves it to be chosen.
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
        """Refuse parts that coordinates which widen do not go with, and what is still to choose."""
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
        """φ, on the plateau."""
        return position if self.linear is None else self.linear.inverse(position)

    def to_theta(self, position: Position) -> Position:
        """θ, on the plateau."""
        return position if self.linear is None else self.linear.forward(position)

    def theta(self, state: State, tempering: Tempering) -> Position:
        """The θ that a state stands for, at any temperature."""
        if state.center is None:
            return self.to_theta(state.position)
        own = tempering.coupling_at(state.tempering, 1.0)[0]
        inner = widened(state.position, state.center.position, own)
        # Exactly φ on the plateau, without the rounding of the sum.
        flat = own == 1
        inner = jax.tree.map(lambda w, x: jnp.where(flat, x, w), inner, state.position)
        return self.to_theta(inner)

    def potential(self, potential: Potential) -> Potential:
        """The energy of what moves: of φ in the linear coordinates."""
        return potential if self.linear is None else MappedPotential(potential, self.linear)

    def init(self, position: Position, dtype: DTypeLike) -> Center | None:
        """The center before the first step; ``position`` is φ."""
        if self.center is None:
            return None
        if isinstance(self.center, str):
            # A copy: a state whose buffers are to be donated must not hold one twice.
            return Center(jax.tree.map(jnp.copy, position), jnp.zeros((), dtype))
        return Center(self.from_theta(spread(self.center, position, "center", whole=True)), None)

    def analytic_log_lambda(self, position: Position) -> float:
        """The factor of T·log λ in the free energy that no bias has to learn: D/2, or none."""
        return 0.5 * dimension(position) if self.widens else 0.0

    def scaled(
        self, position: Position, center: Center | None, lam: Scalar, bath: Number
    ) -> tuple[Position, Scalar]:
        """θ (in linear coordinates) at φ, and T·λ·∂θ/∂φ, which multiplies force and noise."""
        if center is None:
            return position, lam
        own = lam / bath
        return widened(position, center.position, own), lam * jax.lax.rsqrt(own)

    def xi_energy(
        self, energy: Scalar, gradient: Position, theta: Position, center: Center | None
    ) -> Scalar:
        """The energy that pushes ξ: U, or E where θ widens with it."""
        if center is None:
            return energy
        return virial_energy(energy, gradient, theta, center.position)

    def share_friction(
        self, state: State, tempering: Tempering, thermostat: Thermostat, now: Rates
    ) -> State:
        """The friction that φ and ξ share, for a whole step.

        Between steps, where θ and its momentum are of the same time and so uncorrelated: taken at
        half a step it would have a mean, a force on ξ of order D that no bias knows of.
        """
        if state.center is None or not tempering.has_momentum:
            return state
        assert isinstance(thermostat, SeparableThermostat)
        lam, slope = tempering.coupling_at(state.tempering, now.theta.bath)
        theta, a = self.scaled(state.position, state.center, lam, now.theta.bath)
        offset = jax.tree.map(jnp.subtract, theta, state.center.position)
        # What is injected moves φ alone.
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
        # A schedule of ξ's step size may stand still.
        moves = now.xi.eta > 0
        r = jax.tree.map(lambda new, old: jnp.where(moves, new, old), r, state.momentum)
        r_xi = jnp.where(moves, r_xi, state.tempering.momentum)
        return replace(state, momentum=r, tempering=replace(state.tempering, momentum=r_xi))

    def recentered(self, state: State, tempering: Tempering) -> State:
        """The state with its center after one more step."""
        if state.center is None or state.center.visits is None:
            return state
        here = tempering.coupling.on_plateau(state.tempering.xi)
        moved = recentered(state.center.position, state.position, state.center.visits, here)
        return replace(state, center=Center(*moved))


def widened(position: Position, center: Position, own: Scalar) -> Position:
    """θ = μ + (φ − μ)/√λ.

    >>> import jax.numpy as jnp
    >>> widened(jnp.array([3.0]), jnp.array([1.0]), jnp.array(0.25)).tolist()
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
    """μ and the count after one more step, which is on the plateau or not (``here``).

    Step n has the weight 2/(n + 1), so that the n-th counts n times as much as the first.

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
    """The off-diagonal friction of φ and ξ: c (per coordinate of p = r·√(m/η)) and β²."""

    along: Position
    own: Scalar


def cross_friction(
    friction: Position, a: Scalar, slope: Scalar, offset: Position, ratio: Scalar, shapes: Any
) -> CrossFriction:
    """c = ρ·z_f·a·b·g√m and β² = ρ²·Σ z_f·b²·m·g, with b = −½λ′(θ − μ).

    ``friction`` has z_f for each leaf, ``ratio`` is ρ, ``shapes`` are masses m and shapes g.
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
    """exp(−M) on (r, r_ξ), exactly, with M = [[0, c], [cᵀ, β²]]; ``scales`` are the sds.

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
