"""One step of the dynamics: Algorithm 1 to the letter, or a symmetric splitting."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc._typing import Batch, Position, Scalar
from tacthmc.bias import Bias, Seen
from tacthmc.coupling import Coupling
from tacthmc.positions import spread
from tacthmc.potential import Potential
from tacthmc.state import State, Tempering
from tacthmc.thermostat import Conditions, Thermostat


class Parts(eqx.Module):
    """What a member of the family is made of, apart from its integrator and its rates."""

    thermostat: Thermostat
    xi_thermostat: Thermostat
    coupling: Coupling | None
    bias: Bias
    noise_estimate: Any


class StepNoise(NamedTuple):
    """The standard normals of one step."""

    theta: Position
    xi: Scalar | None
    fresh_theta: Position | None
    fresh_xi: Scalar | None


class Settings(NamedTuple):
    """All rates at one step."""

    theta: Conditions
    xi: Conditions
    c: Scalar
    xi_c: Scalar
    mass: Position


class Integrator(eqx.Module):
    """How a step is made of drifts, frictions and kicks."""

    @abstractmethod
    def advance(
        self,
        parts: Parts,
        now: Settings,
        noise: StepNoise,
        state: State,
        potential: Potential,
        batch: Batch,
    ) -> tuple[State, Scalar, Scalar | None]:
        """The next state, the estimate Ũ, and the ξ that decides whether θ is kept."""


class Euler(Integrator):
    """Algorithm 1 to the letter.

    Thermostats, then momenta with the old friction, then positions. A step over the wall
    takes ξ back to where it was, with its momentum reversed, and keeping is decided by the
    λ before the move. Of weak order 1 in √η, and unstable where the splitting is not.

    >>> import tacthmc
    >>> tacthmc.tact(0.01, integrator=Euler()).integrator
    Euler()
    """

    def advance(
        self,
        parts: Parts,
        now: Settings,
        noise: StepNoise,
        state: State,
        potential: Potential,
        batch: Batch,
    ) -> tuple[State, Scalar, Scalar | None]:
        """Lines 4 to 17 of Algorithm 1."""
        lam, slope = _coupling(parts, now, state.tempering)
        r, tempering = state.momentum, state.tempering
        z = parts.thermostat.advance(state.thermostat, r, now.mass, now.theta, lam**2)
        energy, gradient, model = potential.evaluate(state.position, batch, state.model)
        energy = energy.astype(lam.dtype)
        drag = parts.thermostat.drag(z, r, now.mass, lam**2)
        kick = _kick(parts, now, noise, gradient, lam)
        r = jax.tree.map(lambda r, k, d: r + k - d, r, kick, drag)
        position = jax.tree.map(jnp.add, state.position, r)
        decisive = None
        if tempering is not None:
            decisive = tempering.xi
            tempering = self._tempering(parts, now, noise, tempering, energy, slope)
        return State(position, r, z, tempering, state.step + 1, model), energy, decisive

    def _tempering(
        self,
        parts: Parts,
        now: Settings,
        noise: StepNoise,
        old: Tempering,
        energy: Scalar,
        slope: Scalar,
    ) -> Tempering:
        assert parts.coupling is not None
        one, thermostat = jnp.ones_like(old.xi), parts.xi_thermostat
        z = thermostat.advance(old.thermostat, old.momentum, one, now.xi, slope**2)
        kick, bias = _xi_kick(parts, now, noise, old, energy, slope)
        r = old.momentum + kick - thermostat.drag(z, old.momentum, one, slope**2)
        moved = old.xi + r
        over = jnp.abs(moved) > parts.coupling.wall
        return Tempering(
            xi=jnp.where(over, old.xi, moved),
            momentum=jnp.where(over, -r, r),
            thermostat=z,
            bias=bias,
        )


class Splitting(Integrator):
    r"""A symmetric splitting with one gradient a step, of weak order 2 in √η.

    Half a drift of (θ, ξ), mirrored at the walls; half a thermostat step; half a friction as
    the exact exp(−λ²z/2); the full kick of force, noise and bias; and the three halves in
    reverse. Where the gradient has no noise of its own and T = 1, the mean of z is
    asinh(c) ≈ c. With constant friction (no thermostat) the discretised noise is exact up to a
    relative error of order c²: below 0.2% at c = 0.1, 4% at c = 0.5, so keep c small.

    >>> import tacthmc
    >>> tacthmc.tact(0.01).integrator
    Splitting()
    """

    def advance(
        self,
        parts: Parts,
        now: Settings,
        noise: StepNoise,
        state: State,
        potential: Potential,
        batch: Batch,
    ) -> tuple[State, Scalar, Scalar | None]:
        """One step."""
        tempering = state.tempering
        if tempering is not None:
            tempering = _half_drift(parts, tempering)
        lam, slope = _coupling(parts, now, tempering)
        half = 0.5 * lam**2
        thermostat, mass = parts.thermostat, now.mass
        position = _moved(state.position, state.momentum)
        z = thermostat.advance(state.thermostat, state.momentum, mass, now.theta, half)
        damp = thermostat.damping(z, mass, half)
        energy, gradient, model = potential.evaluate(position, batch, state.model)
        energy = energy.astype(lam.dtype)
        kick = _kick(parts, now, noise, gradient, lam)
        r = damp(jax.tree.map(jnp.add, damp(state.momentum), kick))
        z = thermostat.advance(z, r, mass, now.theta, half)
        position = _moved(position, r)
        decisive = None
        if tempering is not None:
            tempering = self._tempering(parts, now, noise, tempering, energy, slope)
            decisive = tempering.xi
        return State(position, r, z, tempering, state.step + 1, model), energy, decisive

    def _tempering(
        self,
        parts: Parts,
        now: Settings,
        noise: StepNoise,
        old: Tempering,
        energy: Scalar,
        slope: Scalar,
    ) -> Tempering:
        one, half, thermostat = jnp.ones_like(old.xi), 0.5 * slope**2, parts.xi_thermostat
        z = thermostat.advance(old.thermostat, old.momentum, one, now.xi, half)
        damp = thermostat.damping(z, one, half)
        kick, bias = _xi_kick(parts, now, noise, old, energy, slope)
        r = damp(damp(old.momentum) + kick)
        z = thermostat.advance(z, r, one, now.xi, half)
        return _half_drift(parts, Tempering(old.xi, r, z, bias))


def _coupling(parts: Parts, now: Settings, tempering: Tempering | None) -> tuple[Scalar, Scalar]:
    """T·λ(ξ) and T·λ′(ξ); without a coupling λ = T, the posterior's own temperature."""
    bath = now.theta.bath
    if tempering is None:
        return jnp.asarray(bath), jnp.zeros_like(jnp.asarray(bath))
    assert parts.coupling is not None
    value, slope = parts.coupling.value_and_slope(tempering.xi)
    return bath * value, bath * slope


def _kick(
    parts: Parts, now: Settings, noise: StepNoise, gradient: Position, lam: Scalar
) -> Position:
    """λ·(−(η/m)·∇Ũ + N(0, 2c·g·η/m − (η/m)²·v̂)), v̂ an estimate of the force's own noise."""
    weights = parts.thermostat.weights(now.mass)
    estimate = 0.0 if parts.noise_estimate is None else parts.noise_estimate
    known = spread(estimate, gradient, "noise_estimate")

    def kick(gradient: Array, m: Array, g: Array, v: Array, n: Array) -> Array:
        eta = now.theta.eta.astype(m.dtype) / m
        variance = 2 * now.c.astype(m.dtype) * g * eta
        if parts.noise_estimate is not None:
            variance = jnp.maximum(variance - eta**2 * v, 0)
        return lam.astype(m.dtype) * (jnp.sqrt(variance) * n - eta * gradient)

    return jax.tree.map(kick, gradient, now.mass, weights, known, noise.theta)


def _xi_kick(
    parts: Parts,
    now: Settings,
    noise: StepNoise,
    old: Tempering,
    energy: Scalar,
    slope: Scalar,
) -> tuple[Scalar, Any]:
    """−λ′(η_ξŨ + N(0, 2c_ξη_ξ)) + η_ξA′(ξ), and the bias's table after this step."""
    assert parts.coupling is not None
    assert noise.xi is not None
    seen = Seen(old.xi, slope, energy, now.xi.step)
    force = parts.bias.force(old.bias, seen, parts.coupling)
    random = jnp.sqrt(2 * now.xi_c * now.xi.eta) * noise.xi
    kick = now.xi.eta * force - slope * (now.xi.eta * energy + random)
    return kick, parts.bias.update(old.bias, seen, parts.coupling)


def _moved(position: Position, r: Position) -> Position:
    return jax.tree.map(lambda x, r: x + 0.5 * r, position, r)


def _half_drift(parts: Parts, tempering: Tempering) -> Tempering:
    assert parts.coupling is not None
    xi, r = parts.coupling.reflect(tempering.xi + 0.5 * tempering.momentum, tempering.momentum)
    return Tempering(xi, r, tempering.thermostat, tempering.bias)
