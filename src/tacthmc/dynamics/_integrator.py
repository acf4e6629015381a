"""One step of the dynamics: Algorithm 1 to the letter, or a symmetric splitting."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc._positions import spread, sum_of_squares, total
from tacthmc._typing import Batch, Position, Scalar
from tacthmc.compiler._materialize import with_sum
from tacthmc.dynamics._bias import Bias, Seen
from tacthmc.dynamics._coupling import Coupling
from tacthmc.dynamics._heated_block import HeatedBlock, only, share
from tacthmc.dynamics._schedule import Sweep
from tacthmc.dynamics._state import State, Tempering
from tacthmc.dynamics._temperature_scaled import calm_energy, crossed, crossing, widened
from tacthmc.dynamics._thermostat import Conditions, SeparableThermostat, Stroke, Thermostat
from tacthmc.potentials._base import Felt, Potential
from tacthmc.potentials._batch_noise import Tilt


class Parts(eqx.Module):
    """What a member of the family is made of, apart from its integrator and its rates."""

    thermostat: Thermostat
    xi_thermostat: Thermostat
    coupling: Coupling | None
    bias: Bias
    noise_estimate: Any
    sweep: Sweep | None
    heated: HeatedBlock | None = None


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


class Moved(NamedTuple):
    """What one step of an integrator leaves."""

    state: State
    energy: Scalar
    """The estimate Ũ that moved the chain."""
    felt: Scalar
    """Σ m·r², of the momentum that θ's temperature is read from."""
    felt_xi: Scalar | None
    """r_ξ; None where ξ is led."""
    decisive_xi: Scalar | None
    """The ξ that decides whether θ is kept."""
    felt_energy: Scalar | None = None
    """What ξ felt, where that is not the energy itself."""


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
    ) -> Moved:
        """One step."""


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
    ) -> Moved:
        """Lines 4 to 17 of Algorithm 1."""
        lam, slope = _coupling(parts, now, state.tempering)
        r, tempering = state.momentum, state.tempering
        z = parts.thermostat.advance(state.thermostat, r, now.mass, now.theta, lam**2)
        felt_by = _evaluated(potential, state, state.position, batch, lam / now.theta.bath)
        energy, gradient = felt_by.energy.astype(lam.dtype), felt_by.gradient
        drag = parts.thermostat.drag(z, r, now.mass, lam**2)
        kick = _kick(parts, now, noise, gradient, lam)
        r = jax.tree.map(lambda r, k, d: r + k - d, r, kick, drag)
        position = jax.tree.map(jnp.add, state.position, r)
        decisive = felt_xi = felt_energy = None
        if tempering is not None:
            decisive, felt_energy = tempering.xi, felt_by.tempered.astype(lam.dtype)
            if parts.sweep is not None:
                tempering = _led(parts, now, tempering, felt_energy, slope)
            else:
                tempering = self._tempering(parts, now, noise, tempering, felt_energy, slope)
                felt_xi = tempering.momentum
        after = State(position, r, z, tempering, state.step + 1, felt_by.model, state.settled)
        felt = total(sum_of_squares(now.mass, r), lam.dtype)
        own_energy = felt_energy if potential.is_split else None
        return Moved(after, energy, felt, felt_xi, decisive, own_energy)

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
        xi, r = jnp.where(over, old.xi, moved), jnp.where(over, -r, r)
        return replace(old, xi=xi, momentum=r, thermostat=z, bias=bias)


HORIZON = 10_000
"""Steps over which the mean friction is taken: many times a thermostat's own memory."""


class Splitting(Integrator):
    r"""A symmetric splitting with one gradient a step, of weak order 2 in √η.

    Half a drift of (θ, ξ), mirrored at the walls; half a friction as the exact exp(−λ²z/2); the
    kick of force, noise and bias; half a friction; half a drift. The friction is that of the
    thermostat moved on by half a step.

    What θ's thermostat feels is the mean of the momenta before and after, since in a Gaussian,
    whatever its curvatures ω² and the friction z,

    .. math:: \Big\langle\Big(\frac{r + r'}{2}\Big)^2\Big\rangle
        = e^{-z/2}\,\eta\omega^2\langle\theta^2\rangle

    holds exactly up to the stability limit ηω² = 4 (for λ = 1). So it is driven by

    .. math:: dz = \frac{\lambda^2}{\gamma}\Big[\Big(\frac{r + r'}{2}\Big)^2
        - e^{-\lambda^2\bar z/2}\,\eta T\Big]

    with the mean friction z̄ of the past, and holds the temperature of θ at T, not that of the
    momenta, whose ⟨r²⟩ is about ηT/(1 − ηω²/4). (z itself in place of z̄ would push its own
    fluctuations and widen its law.) Where the gradient has no noise of its own and T = 1, the
    mean of z is 2·asinh(c/2) ≈ c. With constant friction (no thermostat) θ's variance in a
    Gaussian is exact up to a relative c²/24. ξ's thermostat feels r_ξ² as it is.

    Between the kicks of two steps θ makes two half drifts. A loop of many steps may keep it half a
    drift ahead (``ahead``), and then θ is written once a step: the same numbers to the last bit.

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
        ahead: Scalar | None = None,
    ) -> Moved:
        """One step; with ``ahead`` θ is half a drift ahead before it, and so many after it."""
        breathes = state.tempering is not None and state.tempering.centre is not None
        if breathes and parts.sweep is None:
            state = _shared_friction(parts, now, state)
        tempering, old = state.tempering, state.momentum
        if tempering is not None and parts.sweep is not None:
            tempering = _placed(parts, tempering, state.step, 0.5)
        elif tempering is not None:
            tempering = _half_drift(parts, tempering)
        lam, slope = _coupling(parts, now, tempering)
        moving = _moving(parts, state, tempering)
        if moving is not None:
            old, now = only(moving, old), now._replace(theta=now.theta._replace(moving=moving))
        position = state.position if ahead is not None else half_drifted(state.position, old)
        theta, centre = position, None if tempering is None else tempering.centre
        own = lam / now.theta.bath
        if centre is not None:
            theta, lam = _breathing(now, position, centre, lam)
        if tempering is not None and parts.sweep is None:
            potential = potential.tilted(_tilt(parts, now, tempering, slope))
        felt_by = _evaluated(potential, state, theta, batch, own)
        energy, gradient = felt_by.energy.astype(lam.dtype), felt_by.gradient
        kick = _kick(parts, now, noise, gradient, lam)
        if moving is not None:
            kick = only(moving, kick)
        thermostat, mass, weight = parts.thermostat, now.mass, lam**2
        friction = thermostat.advance(state.thermostat, old, mass, now.theta, 0.5 * weight)
        damp = thermostat.damping(friction, mass, 0.5 * weight)
        r, both = with_sum(damp(jax.tree.map(jnp.add, damp(old), kick)), old)
        stroke = Stroke(r, both, mass, now.theta, weight, state.settled)
        z = thermostat.completed(state.thermostat, friction, stroke)
        felt = thermostat.felt(stroke).astype(lam.dtype)
        settled = _averaged(state.settled, z, state.step)
        position = half_drifted(position, r)
        if ahead is not None:
            position = jax.tree.map(lambda x, r: x + ahead.astype(x.dtype) * r, position, r)
        if moving is not None:
            felt = felt / share(moving, position).astype(felt.dtype)
            r = only(moving, r, state.momentum)
            if jax.tree.structure(z) == jax.tree.structure(moving):
                settled = only(moving, settled, state.settled)
        decisive = felt_xi = felt_energy = None
        if tempering is not None:
            felt_energy = felt_by.tempered.astype(lam.dtype)
            if centre is not None:
                felt_energy = calm_energy(felt_energy, gradient, theta, centre)
            if parts.sweep is not None:
                tempering = _led(parts, now, tempering, felt_energy, slope)
            else:
                tempering = self._tempering(parts, now, noise, tempering, felt_energy, slope)
                felt_xi = tempering.momentum
            decisive = tempering.xi
        after = State(position, r, z, tempering, state.step + 1, felt_by.model, settled)
        own_energy = felt_energy if potential.is_split or centre is not None else None
        return Moved(after, energy, felt, felt_xi, decisive, own_energy)

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
        return _half_drift(parts, replace(old, momentum=r, thermostat=z, bias=bias))


def _moving(parts: Parts, state: State, tempering: Tempering | None) -> Any:
    """Which leaves move, by ξ in the middle of the step; None where all of them do."""
    if parts.heated is None or tempering is None:
        return None
    assert parts.coupling is not None
    return parts.heated.moving(
        state.position, tempering.xi, state.step, parts.coupling, parts.sweep
    )


def _tilt(parts: Parts, now: Settings, tempering: Tempering, slope: Scalar) -> Tilt:
    """λ′/T times ξ's momentum in the middle of its kick, of which the energy is not known yet."""
    assert parts.coupling is not None
    rate = slope / now.theta.bath
    if tempering.centre is not None:
        # What pushes a ξ that θ widens with is small, and known after the gradient only.
        return Tilt(rate * tempering.momentum, jnp.zeros_like(rate))
    # (On the first step, where the bias would ask for the energy, ξ is on the plateau.)
    seen = Seen(tempering.xi, slope, jnp.zeros_like(slope), now.xi.step)
    half = 0.5 * now.xi.eta
    start = tempering.momentum + half * parts.bias.force(tempering.bias, seen, parts.coupling)
    return Tilt(rate * start, rate * half * slope)


def _evaluated(
    potential: Potential, state: State, theta: Position, batch: Batch, lam: Scalar
) -> Felt:
    """Energy and gradient at θ; without a tempering variable those of the whole energy."""
    if state.tempering is None:
        energy, gradient, model = potential.evaluate(theta, batch, state.model)
        return Felt(energy, energy, gradient, model)
    return potential.felt(theta, batch, state.model, lam)


def _averaged(mean: Any, z: Any, step: Array) -> Any:
    """The mean friction, over all steps at first and over the last ``HORIZON`` later."""

    def averaged(mean: Array, z: Array) -> Array:
        return mean + (z - mean) / jnp.minimum(step + 2, HORIZON).astype(z.dtype)

    return jax.tree.map(averaged, mean, z)


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


def _placed(parts: Parts, tempering: Tempering, step: Array, ahead: float = 0.0) -> Tempering:
    """ξ where the sweep has it."""
    assert parts.coupling is not None
    assert parts.sweep is not None
    dtype = tempering.xi.dtype
    xi, r = (x.astype(dtype) for x in parts.sweep.at(step, parts.coupling, ahead))
    return replace(tempering, xi=xi, momentum=r)


def _led(parts: Parts, now: Settings, old: Tempering, energy: Scalar, slope: Scalar) -> Tempering:
    """ξ at the end of the step, by its sweep; the bias learns and does not act."""
    assert parts.coupling is not None
    seen = Seen(old.xi, slope, energy, now.xi.step)
    learnt = replace(old, bias=parts.bias.update(old.bias, seen, parts.coupling))
    return _placed(parts, learnt, now.xi.step + 1)


def _breathing(
    now: Settings, position: Position, centre: Position, lam: Scalar
) -> tuple[Position, Scalar]:
    """θ, and what the force's noise is multiplied by: T·λ·∂θ/∂φ."""
    own = lam / now.theta.bath
    return widened(position, centre, own), lam * jax.lax.rsqrt(own)


def _shared_friction(parts: Parts, now: Settings, state: State) -> State:
    """The friction that φ and ξ share (:mod:`tacthmc.dynamics._temperature_scaled`), for a whole step.

    Between steps, where θ and its momentum are of the same time and so uncorrelated: taken at
    half a step it would have a mean, a force on ξ of order D that no bias knows of.
    """
    tempering, thermostat = state.tempering, parts.thermostat
    assert tempering is not None
    assert isinstance(thermostat, SeparableThermostat)
    lam, slope = _coupling(parts, now, tempering)
    theta, a = _breathing(now, state.position, tempering.centre, lam)
    away = jax.tree.map(jnp.subtract, theta, tempering.centre)
    # What is injected moves φ alone.
    injected = now.c / now.theta.bath
    friction = jax.tree.map(
        lambda z: jnp.maximum(z - injected.astype(z.dtype), 0),
        thermostat.per_leaf(state.settled, theta),
    )
    ratio = jnp.sqrt(now.xi.eta / now.theta.eta)
    shapes = now.mass, thermostat.weights(now.mass)
    joined = crossing(friction, a, slope, away, ratio, shapes)
    heat = now.theta.eta * now.theta.bath
    scale = jax.tree.map(lambda m: jnp.sqrt(heat.astype(m.dtype) / m), now.mass)
    scales = scale, jnp.sqrt(now.xi.eta * now.theta.bath)
    r, r_xi = crossed(joined, state.momentum, tempering.momentum, scales)
    # A schedule of ξ's may stand still.
    moves = now.xi.eta > 0
    r = jax.tree.map(lambda new, old: jnp.where(moves, new, old), r, state.momentum)
    r_xi = jnp.where(moves, r_xi, tempering.momentum)
    return replace(state, momentum=r, tempering=replace(tempering, momentum=r_xi))


def half_drifted(position: Position, r: Position) -> Position:
    """θ + r/2."""
    return jax.tree.map(lambda x, r: x + 0.5 * r, position, r)


def _half_drift(parts: Parts, tempering: Tempering) -> Tempering:
    assert parts.coupling is not None
    xi, r = parts.coupling.reflect(tempering.xi + 0.5 * tempering.momentum, tempering.momentum)
    return replace(tempering, xi=xi, momentum=r)
