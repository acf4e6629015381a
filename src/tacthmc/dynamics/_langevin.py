r"""The Langevin family of samplers, and one step of it by Algorithm 1 or by a splitting.

A sampler joins a thermostat, a tempering variable ξ with its bias, and coordinates; an integrator
moves them. Leaving parts out gives the baselines: without ξ it is SGNHT, without thermostats the
paper's ablation, without both SGHMC. The integrators discretize the paper's Eq. 5 in the variables
of its §3.3,

.. math::
    d\theta = r, \qquad dr = \lambda(\eta\tilde f + N(0, 2c\eta)) - \lambda^2 z r, \qquad
    dz = \lambda^2(\langle r^2\rangle - \eta T)/\gamma,

and the same for ξ. Here λ stands for T·λ(ξ).
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tacthmc import _checks as checks
from tacthmc._positions import (
    checked,
    dimension,
    rate_at,
    scalar_dtype,
    spread,
    sum_of_squares,
    total,
)
from tacthmc._typing import Batch, Number, Position, PRNGKey, Rate, Scalar
from tacthmc.compiler._materialize import computed_once
from tacthmc.compiler._random import normals
from tacthmc.dynamics._coordinates import Coordinates, Rates
from tacthmc.dynamics._mode_jumps import Jump, ModeJumps
from tacthmc.dynamics._refresh import Refresh
from tacthmc.dynamics._sampler import Sampler
from tacthmc.dynamics._state import Info, State
from tacthmc.dynamics._step_rates import StepMomenta, StepRates
from tacthmc.dynamics._tempering import NoTempering, Tempering, XiForce
from tacthmc.dynamics._thermostat import AutomaticThermostat, Thermostat
from tacthmc.potentials import Potential, forces


class Parts(NamedTuple):
    """The parts of the dynamics that an integrator moves."""

    thermostat: Thermostat
    tempering: Tempering
    coordinates: Coordinates
    noise_estimate: Any


class StepNoise(NamedTuple):
    """The standard normals of a step, for the kick of θ, ξ, fresh momenta, and the integrator."""

    theta: Position
    xi: Float[Array, " n"]
    fresh_theta: Position | None
    integrator: Float[Array, " m"] | None = None


class StepResult(NamedTuple):
    """The result of one step of an integrator."""

    state: State
    energy: Scalar
    """The estimate Ũ that moved the chain."""
    xi_energy: Scalar
    """The energy that acted on ξ."""
    kinetic_sum: Scalar
    """Σ m·r² of the momentum that measures the temperature of θ."""
    deciding_xi: Scalar | None
    """The ξ that decides whether θ is kept."""


class Integrator(eqx.Module):
    """Composes a step of drifts, frictions and kicks."""

    @abstractmethod
    def step(
        self,
        parts: Parts,
        now: Rates,
        noise: StepNoise,
        state: State,
        potential: Potential,
        batch: Batch,
    ) -> StepResult:
        """One step."""

    @property
    def num_normals(self) -> int:
        """The number of standard normals that a step needs beside those of the parts."""
        return 0

    def memory(self, position: Position) -> Any:
        """What the integrator keeps from step to step, at a position whose energy is unknown."""
        return None

    def check(self, parts: Parts) -> None:
        """Raise an error for parts that the integrator cannot move."""


class Euler(Integrator):
    """Algorithm 1 to the letter, lines 4 to 15; the comments have its line numbers.

    Lines 1 and 2 are the sampler's ``init``, lines 16 and 17 are :class:`tacthmc.Keep`, and line 18
    is ``refresh``. The step updates thermostats, then momenta with the old friction, then
    positions. A step of ξ over the wall is undone, and its momentum is reversed. The λ before the
    move decides whether θ is kept. The weak order is 1 in √η, and the step is unstable in places
    where the splitting is stable.

    >>> import tacthmc
    >>> tacthmc.tact(0.01, integrator=Euler()).integrator
    Euler()
    """

    def step(
        self,
        parts: Parts,
        now: Rates,
        noise: StepNoise,
        state: State,
        potential: Potential,
        batch: Batch,
    ) -> StepResult:
        thermostat, tempering, xi, r = (*parts[:2], state.tempering, state.momentum)
        # Line 4: λ and δλ. Line 6: z_θ.
        lam, slope = tempering.coupling_at(xi, now.theta.bath)
        z = thermostat.update(state.thermostat, r, now.mass, now.theta, lam**2)
        # Line 8: Ũ and f̃ = −∇Ũ, by the batch of line 7.
        u = forces(potential, state.position, batch, state.model, lam / now.theta.bath)
        energy, tempered = u.energy.astype(lam.dtype), u.tempered.astype(lam.dtype)
        # Line 10: r_θ. Line 15: θ.
        drag = thermostat.drag(z, r, now.mass, lam**2)
        kick = random_kick(parts, now, noise, u.gradient, lam)
        r = jax.tree.map(lambda r, k, d: r + k - d, r, kick, drag)
        position = jax.tree.map(jnp.add, state.position, r)
        # Lines 5, 7, 9 and 11 to 14: z_ξ, δA, r_ξ, abfUpdate, ξ and the walls.
        moved = tempering.euler_step(xi, XiForce(tempered, slope), noise.xi, now.xi)
        after = State(
            position, r, z, moved, state.step + 1, u.model, state.mean_friction, state.center
        )
        kinetic = total(sum_of_squares(now.mass, r), lam.dtype)
        return StepResult(after, energy, tempered, kinetic, None if xi is None else xi.xi)

    def check(self, parts: Parts) -> None:
        if parts.coordinates.widens:
            raise ValueError(
                "center needs the splitting integrator; Euler() is Algorithm 1 as it is"
            )


MEAN_FRICTION_STEPS = 10_000
"""The length of the running mean of the friction, many times the memory of a thermostat."""


class Splitting(Integrator):
    r"""A symmetric splitting of Eq. 5 with one gradient per step, of weak order 2 in √η.

    A step is half a drift of (θ, ξ), mirrored at the walls; half of the friction, by the exact
    exp(−λ²z/2); the kick of force, noise and bias; the other half of the friction; and half a
    drift. The friction is that of the thermostat in the middle of the step.

    The thermostat of θ reads the mean of the momenta before and after the kick, because in a
    Gaussian of any curvatures ω², at any friction z,

    .. math:: \Big\langle\Big(\frac{r + r'}{2}\Big)^2\Big\rangle
        = e^{-z/2}\,\eta\omega^2\langle\theta^2\rangle

    holds exactly up to the stability limit ηω² = 4 (for λ = 1). Its equation is therefore

    .. math:: dz = \frac{\lambda^2}{\gamma}\Big[\Big(\frac{r + r'}{2}\Big)^2
        - e^{-\lambda^2\bar z/2}\,\eta T\Big]

    with the mean friction z̄ of the past. It holds the temperature of θ at T, rather than that of
    the momenta, whose ⟨r²⟩ is about ηT/(1 − ηω²/4). (With z in place of z̄, the thermostat would
    drive its own fluctuations and widen its law.) For a gradient without noise and T = 1, the mean
    of z is 2·asinh(c/2) ≈ c. With constant friction (no thermostat) the variance of θ in a Gaussian
    is exact up to a relative c²/24. The thermostat of ξ reads r_ξ² itself.

    >>> import tacthmc
    >>> tacthmc.tact(0.01).integrator
    Splitting()
    """

    def step(
        self,
        parts: Parts,
        now: Rates,
        noise: StepNoise,
        state: State,
        potential: Potential,
        batch: Batch,
    ) -> StepResult:
        thermostat, tempering, coordinates, _ = parts
        state = coordinates.with_cross_friction(state, tempering, thermostat, now)
        # A: half a drift of ξ and θ.
        xi = tempering.first_half(state.tempering, now.xi)
        lam, slope = tempering.coupling_at(xi, now.theta.bath)
        phi, old = half_drift(state.position, state.momentum), state.momentum
        # Energy and force of this batch, in the middle of the step.
        theta, scale = coordinates.scaled(phi, state.center, lam, now.theta.bath)
        term = tempering.covariance_term(xi, slope, now.xi, coordinates.widens)
        u = forces(potential, theta, batch, state.model, lam / now.theta.bath, term)
        energy, tempered = u.energy.astype(lam.dtype), u.tempered.astype(lam.dtype)
        # O B O: friction, kick, friction, by the thermostat in the middle.
        friction = thermostat.update(state.thermostat, old, now.mass, now.theta, 0.5 * scale**2)
        damp = thermostat.damping(friction, now.mass, 0.5 * scale**2)
        kick = random_kick(parts, now, noise, u.gradient, scale)
        r = computed_once(damp(jax.tree.map(jnp.add, damp(old), kick)))
        # D: the thermostat, by the mean of the momenta before and after.
        mean = jax.tree.map(lambda old, new: 0.5 * (old + new), old, r)
        momenta = StepMomenta(r, mean, now.mass, now.theta, scale**2, state.mean_friction)
        z = thermostat.finish_step(state.thermostat, friction, momenta)
        kinetic = thermostat.kinetic_sum(momenta).astype(lam.dtype)
        mean_friction = running_mean(state.mean_friction, z, state.step)
        # A: half a drift of θ; then ξ's O B O and half a drift.
        phi = half_drift(phi, r)
        xi_energy = coordinates.xi_energy(tempered, u.gradient, theta, state.center)
        xi = tempering.second_half(xi, XiForce(xi_energy, slope), noise.xi, now.xi)
        after = State(phi, r, z, xi, state.step + 1, u.model, mean_friction, state.center)
        return StepResult(after, energy, xi_energy, kinetic, None if xi is None else xi.xi)


def random_kick(
    parts: Parts, now: Rates, noise: StepNoise, gradient: Position, lam: Scalar
) -> Position:
    """λ·(−(η/m)·∇Ũ + N(0, 2c·g·η/m − (η/m)²·v̂)), v̂ an estimate of the noise of the force."""
    weights = parts.thermostat.weights(now.mass)
    estimate = 0.0 if parts.noise_estimate is None else parts.noise_estimate
    known = spread(estimate, gradient, "noise_estimate")

    def kick(gradient: Array, m: Array, g: Array, v: Array, n: Array) -> Array:
        eta = now.theta.eta.astype(m.dtype) / m
        variance = 2 * now.theta.c.astype(m.dtype) * g * eta
        if parts.noise_estimate is not None:
            variance = jnp.maximum(variance - eta**2 * v, 0)
        return lam.astype(m.dtype) * (jnp.sqrt(variance) * n - eta * gradient)

    return jax.tree.map(kick, gradient, now.mass, weights, known, noise.theta)


def half_drift(position: Position, r: Position) -> Position:
    """θ + r/2."""
    return jax.tree.map(lambda x, r: x + 0.5 * r, position, r)


def running_mean(mean: Any, z: Any, step: Array) -> Any:
    """The mean friction over all steps, or later over about the last ``MEAN_FRICTION_STEPS``."""

    def moved(mean: Array, z: Array) -> Array:
        return mean + (z - mean) / jnp.minimum(step + 2, MEAN_FRICTION_STEPS).astype(z.dtype)

    return jax.tree.map(moved, mean, z)


class Langevin(Sampler):
    """A sampler of the Langevin family, as made by :func:`tacthmc.tact` and :func:`tacthmc.sgnht`.

    >>> import tacthmc
    >>> xi = tacthmc.dynamics.ContinuousTempering(bias=tacthmc.dynamics.NoBias())
    >>> sampler = Langevin(0.01, tempering=xi)
    >>> type(sampler.thermostat).__name__, type(sampler.tempering.bias).__name__
    ('AutomaticThermostat', 'NoBias')
    """

    step_size: Rate
    injected: Rate
    mass: Any
    thermostat: Thermostat
    tempering: Tempering | None
    coordinates: Coordinates
    integrator: Integrator
    bath_temperature: Number
    noise_estimate: Any
    tuning: Any
    """The choices of :func:`tacthmc.tune` and their reasons; None for numbers given by hand."""
    jumps: ModeJumps | None
    """Moves between known modes, which a run makes between its intervals."""
    refresh: Refresh | None = eqx.field(static=True)

    def __init__(
        self,
        step_size: Rate,
        *,
        noise: Rate = 0.1,
        thermostat: Thermostat | None = None,
        tempering: Tempering | None = None,
        coordinates: Coordinates | None = None,
        mass: Any = 1.0,
        integrator: Integrator | None = None,
        bath_temperature: Number = 1.0,
        refresh: Refresh | None = None,
        noise_estimate: Any = None,
        jumps: ModeJumps | None = None,
    ):
        """Join the parts; :func:`tacthmc.tact` explains the arguments."""
        checks.positive("step_size", step_size)
        checks.non_negative("noise", noise)
        checks.positive("bath_temperature", bath_temperature)
        for leaf in jax.tree.leaves(mass):
            checks.all_positive("mass", leaf)
        for leaf in jax.tree.leaves(noise_estimate):
            checks.all_non_negative("noise_estimate", leaf)
        self.step_size, self.injected, self.mass = step_size, noise, mass
        self.bath_temperature, self.noise_estimate = bath_temperature, noise_estimate
        self.thermostat = AutomaticThermostat() if thermostat is None else thermostat
        self.integrator = Splitting() if integrator is None else integrator
        self.coordinates = Coordinates() if coordinates is None else coordinates
        self.tempering = None if tempering is None else _with_defaults(tempering, step_size, noise)
        self.refresh, self.jumps, self.tuning = refresh, jumps, None
        self._check_parts()

    def _check_parts(self) -> None:
        checks.instance("thermostat", self.thermostat, Thermostat, "a thermostat such as tacthmc's")
        checks.instance("integrator", self.integrator, Integrator, "Splitting() or Euler()")
        checks.instance(
            "coordinates", self.coordinates, Coordinates, "a tacthmc.dynamics.Coordinates"
        )
        if self.refresh is not None:
            checks.instance("refresh", self.refresh, Refresh, "a tacthmc.dynamics.Refresh")
        if self.jumps is not None:
            checks.instance("jumps", self.jumps, ModeJumps, "a tacthmc.dynamics.ModeJumps")
        self.integrator.check(self.parts)
        self.coordinates.check(self.tempering, self.thermostat, (self.step_size, self.injected))
        if self.coordinates.widens and self.noise_estimate is not None:
            raise ValueError("center and noise_estimate do not go together: use a thermostat")

    @property
    def parts(self) -> Parts:
        """The parts that an integrator moves, with :class:`NoTempering` if there is no ξ."""
        tempering = NoTempering() if self.tempering is None else self.tempering
        return Parts(self.thermostat, tempering, self.coordinates, self.noise_estimate)

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> State:
        """Lines 1 and 2: θ as given, ξ = 0, momenta from N(0, ηT/m), thermostats at c/T."""
        position = self.coordinates.from_theta(checked(position))
        dtype = scalar_dtype(position)
        now = self.rates(jnp.zeros((), int), position)
        theta, extra = normals(key, position, extra=1)
        thermostat = self.thermostat.init(position, now.theta.c / now.theta.bath)
        return State(
            position=position,
            momentum=self._fresh(theta, now),
            thermostat=thermostat,
            tempering=self._first_tempering(extra[0], now, position),
            step=jnp.zeros((), int),
            model=model,
            # A copy, because a state whose buffers are donated must not hold a buffer twice.
            mean_friction=jax.tree.map(jnp.copy, thermostat),
            center=self.coordinates.init(position, dtype),
            memory=self.integrator.memory(position),
        )

    def _first_tempering(self, normal: Scalar, now: Rates, position: Position) -> Any:
        if self.tempering is None:
            return None
        state = self.tempering.init(normal, now.xi, scalar_dtype(position))
        known = self.coordinates.analytic_log_lambda(position)
        if not known or self.tempering.bias.table is None:
            return state
        # The bias does not learn the part of A that the coordinates remove analytically.
        table = self.tempering.bias.with_log_lambda_term(
            state.bias, self.tempering.coupling, now.xi.bath, -known
        )
        return replace(state, bias=table)

    def position(self, state: State) -> Position:
        """θ, from the φ that moves."""
        return self.coordinates.theta(state, self.parts.tempering)

    def noise(self, key: PRNGKey, position: Position) -> StepNoise:
        """Standard normals for the kicks, and for fresh momenta if there is a ``refresh``."""
        like = position if self.refresh is None else (position, position)
        of_xi, own = self.parts.tempering.num_normals, self.integrator.num_normals
        both, extra = normals(key, like, extra=of_xi + own)
        theta, fresh = (both, None) if self.refresh is None else both
        return StepNoise(theta, extra[:of_xi], fresh, extra[of_xi:] if own else None)

    def advance(
        self, noise: StepNoise, state: State, potential: Potential, batch: Batch
    ) -> tuple[State, Info]:
        """One step of the integrator, then fresh momenta where they are due."""
        parts, now = self.parts, self.rates(state.step, state.position)
        state = self._on_new_rates(state, now)
        inside = self.coordinates.potential(potential)
        result = self.integrator.step(parts, now, noise, state, inside, batch)
        unit = jnp.asarray(True)
        if self.tempering is not None and result.deciding_xi is not None:
            unit = self.tempering.at_unit_temperature(result.deciding_xi)
        state = self._refreshed(result.state, now, noise, unit)
        state = self.coordinates.recentered(state, parts.tempering)
        return state, self._info(state, now, result, unit, potential)

    def jump(self, key: PRNGKey, state: State, potential: Potential) -> tuple[State, Jump]:
        """One attempt to jump to another mode, for a state at unit temperature."""
        assert self.jumps is not None
        found = self.jumps.move(key, self.position(state), potential)
        inside = self.coordinates.from_theta(found.position)
        # Without an accepted jump φ keeps all its digits, and the integrator what it knows.
        there, here = (inside, self.integrator.memory(inside)), (state.position, state.memory)
        chosen = jax.tree.map(lambda new, old: jnp.where(found.accepted, new, old), there, here)
        return replace(state, position=chosen[0], memory=chosen[1]), found

    def rates(self, step: Array, position: Position) -> Rates:
        """All rates at a step, in the dtype of the position's scalars."""
        dtype = scalar_dtype(position)
        theta = StepRates(
            eta=rate_at(self.step_size, step, dtype),
            c=rate_at(self.injected, step, dtype),
            bath=jnp.asarray(self.bath_temperature).astype(dtype),
            step=step,
        )
        mass = spread(self.mass, position, "mass", whole=not self.thermostat.separable)
        return Rates(theta, self.parts.tempering.rates(theta), mass)

    def _fresh(self, normals: Position, now: Rates) -> Position:
        def fresh(n: Array, m: Array) -> Array:
            return n * jnp.sqrt((now.theta.eta * now.theta.bath).astype(n.dtype) / m)

        return jax.tree.map(fresh, normals, now.mass)

    def _on_new_rates(self, state: State, now: Rates) -> State:
        """Keep the physical momentum p where a schedule changes Δt in r = pΔt/m."""
        xi = state.tempering
        if self.tempering is not None:
            xi = self.tempering.on_new_rates(xi, now.xi)
        if not callable(self.step_size):
            return replace(state, tempering=xi)
        eta = now.theta.eta
        before = rate_at(self.step_size, jnp.maximum(state.step - 1, 0), eta.dtype)
        ratio = eta / jnp.where(before > 0, before, 1)
        factor = jnp.where(before > 0, jnp.sqrt(ratio), 1)
        momentum = jax.tree.map(lambda r: r * factor.astype(r.dtype), state.momentum)
        return replace(state, momentum=momentum, tempering=xi)

    def _refreshed(self, state: State, now: Rates, noise: StepNoise, unit: Array) -> State:
        """Line 18 of Algorithm 1: draw momenta afresh where that is due."""
        if self.tempering is not None:
            xi = self.tempering.refreshed(state.tempering, unit, noise.xi, now.xi)
            state = replace(state, tempering=xi)
        if self.refresh is None or noise.fresh_theta is None:
            return state
        due = self.refresh.due(state.step, unit)
        fresh = self._fresh(noise.fresh_theta, now)
        momentum = jax.tree.map(lambda f, r: jnp.where(due, f, r), fresh, state.momentum)
        return replace(state, momentum=momentum)

    def _info(
        self, state: State, now: Rates, result: StepResult, unit: Array, potential: Potential
    ) -> Info:
        info = Info(
            energy=result.energy,
            at_unit_temperature=unit,
            kinetic_temperature=_over(
                result.kinetic_sum, now.theta.eta * dimension(state.position)
            ),
            thermostat=self.thermostat.level(state.thermostat),
        )
        if self.tempering is None:
            return info
        return info._replace(**self._xi_info(state, now, result, potential))

    def _xi_info(
        self, state: State, now: Rates, result: StepResult, potential: Potential
    ) -> dict[str, Any]:
        assert self.tempering is not None
        coupling, xi = self.tempering.coupling, state.tempering.xi
        shown: dict[str, Any] = {
            "xi": xi,
            "temperature": 1 / coupling.value_and_slope(xi)[0],
            "hot": coupling.is_hot(xi),
        }
        if self.tempering.has_momentum:
            moved = result.state.tempering
            shown["xi_kinetic_temperature"] = _over(moved.momentum**2, now.xi.eta)
            shown["xi_thermostat"] = moved.thermostat
        if potential.traits.is_split or self.coordinates.widens:
            shown["xi_energy"] = result.xi_energy
        return shown


def _with_defaults(tempering: Tempering, step_size: Rate, noise: Rate) -> Tempering:
    checks.instance("tempering", tempering, Tempering, "a tacthmc.dynamics.Tempering")
    return tempering.with_defaults(step_size, noise)


def _over(heat: Scalar, scale: Scalar) -> Scalar:
    """heat/scale, which stays finite where a schedule reaches η = 0, as the momenta do."""
    return heat / jnp.where(scale > 0, scale, 1)
