"""The family: Langevin dynamics with momentum, and what TACT-HMC adds to it.

A coupling to a tempering variable, thermostats and a bias, moved by an integrator. Leaving
parts out gives the baselines: no coupling is SGNHT, no thermostat the paper's ablation,
neither is SGHMC.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._positions import checked, dimension, scalar_dtype, spread
from tacthmc._typing import Batch, Number, Position, PRNGKey, Rate, Scalar
from tacthmc.compiler._random import normals
from tacthmc.dynamics._bias import Bias, NoBias
from tacthmc.dynamics._coupling import Coupling
from tacthmc.dynamics._heated_block import HeatedBlock, check_heated
from tacthmc.dynamics._integrator import (
    Integrator,
    Moved,
    Parts,
    Settings,
    Splitting,
    StepNoise,
    half_drifted,
)
from tacthmc.dynamics._linear_map import Frame, FramedPotential
from tacthmc.dynamics._rates import rate_at
from tacthmc.dynamics._relaxation import Relaxed, check_relaxed
from tacthmc.dynamics._sampler import Sampler
from tacthmc.dynamics._schedule import Sweep, check_sweep
from tacthmc.dynamics._state import Info, State, Tempering
from tacthmc.dynamics._temperature_scaled import recentred, widened
from tacthmc.dynamics._thermostat import (
    Conditions,
    ScalarThermostat,
    SeparableThermostat,
    Thermostat,
)
from tacthmc.potentials._base import Potential


class Refresh(NamedTuple):
    """Which momenta are drawn afresh at every ``keep_every``-th step, and where.

    Algorithm 1 names both, as an option, on the plateau. Refreshing ξ's turns its glide
    across the plateau, where no force acts on it, into a slow walk.

    >>> import tacthmc
    >>> tacthmc.tact(0.01, refresh=Refresh(theta=True)).refresh
    Refresh(theta=True, xi=False, everywhere=False)
    """

    theta: bool = False
    xi: bool = False
    everywhere: bool = False


class Langevin(Sampler):
    """A member of the family; :func:`tacthmc.tact` and its sisters make them.

    >>> import tacthmc
    >>> sampler = Langevin(0.01, coupling=tacthmc.dynamics.PowerCoupling())      # tempered, no bias
    >>> type(sampler.thermostat).__name__, type(sampler.bias).__name__
    ('ScalarThermostat', 'NoBias')
    """

    step_size: Rate
    injected: Rate
    xi_step_size: Rate
    xi_injected: Rate
    mass: Any
    thermostat: Thermostat
    xi_thermostat: Thermostat
    coupling: Coupling | None
    bias: Bias
    integrator: Integrator
    bath_temperature: Number
    noise_estimate: Any
    keep_within: Number
    xi_speed_limit: Number | None
    centre: Any
    frame: Frame | None
    tuning: Any
    """What a warm-up chose and why (:class:`tacthmc.tuning.Tuning`); None for numbers given by hand."""
    keep_every: int = eqx.field(static=True)
    refresh: Refresh = eqx.field(static=True)
    # With defaults, so that samplers stored before there were these are read.
    sweep: Sweep | None = None
    relaxed: Relaxed | None = None
    heated: HeatedBlock | None = None

    def __init__(
        self,
        step_size: Rate,
        *,
        noise: Rate = 0.1,
        xi_step_size: Rate | None = None,
        xi_noise: Rate | None = None,
        mass: Any = 1.0,
        thermostat: Thermostat | None = None,
        xi_thermostat: Thermostat | None = None,
        coupling: Coupling | None = None,
        bias: Bias | None = None,
        integrator: Integrator | None = None,
        bath_temperature: Number = 1.0,
        noise_estimate: Any = None,
        keep_every: int = 50,
        keep_within: Number = 1.0,
        refresh: Refresh | None = None,
        xi_speed_limit: Number | None = None,
        centre: Any = None,
        frame: Frame | None = None,
        sweep: Sweep | None = None,
        relaxed: Relaxed | None = None,
        heated: HeatedBlock | None = None,
    ):
        """Join the parts; see :func:`tacthmc.tact` for each argument's meaning."""
        checks.positive("step_size", step_size)
        checks.non_negative("noise", noise)
        for leaf in jax.tree.leaves(mass):
            checks.positive("mass", leaf)
        checks.positive("bath_temperature", bath_temperature)
        checks.whole("keep_every", keep_every, 1)
        checks.within("keep_within", keep_within, 0.0, 1.0)
        if xi_step_size is not None:
            checks.positive("xi_step_size", xi_step_size)
        if xi_noise is not None:
            checks.non_negative("xi_noise", xi_noise)
        if xi_speed_limit is not None:
            checks.positive("xi_speed_limit", xi_speed_limit)
        for leaf in jax.tree.leaves(noise_estimate):
            checks.non_negative("noise_estimate", leaf)
        thermostat = ScalarThermostat() if thermostat is None else thermostat
        xi_thermostat = ScalarThermostat() if xi_thermostat is None else xi_thermostat
        checks.instance("thermostat", thermostat, Thermostat, "a thermostat such as tacthmc's")
        checks.instance("xi_thermostat", xi_thermostat, Thermostat, "a thermostat")
        if coupling is not None:
            checks.instance("coupling", coupling, Coupling, "a Coupling")
        bias = NoBias() if bias is None else bias
        checks.instance("bias", bias, Bias, "a Bias")
        integrator = Splitting() if integrator is None else integrator
        checks.instance("integrator", integrator, Integrator, "Splitting() or Euler()")
        self.step_size, self.injected = step_size, noise
        self.xi_step_size = step_size if xi_step_size is None else xi_step_size
        self.xi_injected = noise if xi_noise is None else xi_noise
        self.mass, self.bath_temperature = mass, bath_temperature
        self.thermostat, self.xi_thermostat = thermostat, xi_thermostat
        self.coupling, self.bias = coupling, bias
        self.integrator, self.noise_estimate = integrator, noise_estimate
        self.keep_every, self.keep_within = keep_every, keep_within
        self.refresh = Refresh() if refresh is None else refresh
        if frame is not None:
            checks.instance("frame", frame, Frame, "a tacthmc.dynamics.Frame")
        self.xi_speed_limit, self.frame, self.tuning = xi_speed_limit, frame, None
        self.centre = _checked_centre(centre, coupling, integrator, thermostat)
        if centre is not None and (callable(step_size) or callable(noise)):
            raise ValueError("centre needs a step_size and a noise that are numbers, not schedules")
        if centre is not None and noise_estimate is not None:
            raise ValueError("centre and noise_estimate do not go together: use a thermostat")
        if sweep is not None:
            idle = {"xi_step_size": xi_step_size, "xi_noise": xi_noise}
            idle |= {"xi_speed_limit": xi_speed_limit, "refresh.xi": self.refresh.xi or None}
            check_sweep(sweep, coupling, bias, idle)
        if relaxed is not None:
            check_relaxed(relaxed, coupling, sweep)
        if heated is not None:
            has = {
                "an untempered sampler": coupling is None,
                "centre": centre is not None,
                "a frame": frame is not None,
                type(integrator).__name__: not isinstance(integrator, Splitting),
                type(thermostat).__name__: not isinstance(thermostat, SeparableThermostat),
            }
            check_heated(heated, has, sweep)
        self.sweep, self.relaxed, self.heated = sweep, relaxed, heated

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> State:
        """θ as given, ξ = 0, momenta from their law N(0, ηT/m), thermostats at c/T."""
        position = self.inward(checked(position))
        dtype = scalar_dtype(position)
        now = self.settings(jnp.zeros((), int), position)
        theta, extra = normals(key, position, extra=1)
        momentum = self._fresh(theta, now)
        thermostat = self.thermostat.init(position, now.c / now.theta.bath)
        # A copy: a state whose buffers are to be donated must not hold one twice.
        settled = jax.tree.map(jnp.copy, thermostat)
        tempering = None
        if self.coupling is not None:
            tempering = Tempering(
                xi=jnp.zeros((), dtype),
                momentum=self._first_glide(extra[0], now),
                thermostat=self.xi_thermostat.init(jnp.zeros((), dtype), now.xi_c / now.xi.bath),
                bias=self._first_table(position, now),
                relaxing=None if self.relaxed is None else self.relaxed.init(dtype),
                **self._centred(position, dtype),
            )
        return State(position, momentum, thermostat, tempering, jnp.zeros((), int), model, settled)

    def _first_glide(self, normal: Scalar, now: Settings) -> Scalar:
        if self.sweep is not None:
            return jnp.zeros_like(normal)
        return normal * jnp.sqrt(now.xi.eta * now.xi.bath)

    def _first_table(self, position: Position, now: Settings) -> Any:
        table = self.bias.init(scalar_dtype(position))
        if self.centre is None or self.bias.table is None:
            return table
        assert self.coupling is not None
        # What breathing takes off by itself is not the bias's.
        return self.bias.raised(table, self.coupling, now.xi.bath, -self.known_part(position))

    @property
    def has_law_when_hot(self) -> bool:
        """Whether draws off the plateau follow exp(−λU): not where ξ is led and a part stands."""
        return self.sweep is None or self.heated is None

    def known_part(self, position: Position) -> float:
        """The factor of T·log λ in the free energy that no bias has to learn: D/2, or none."""
        return 0.0 if self.centre is None else 0.5 * dimension(position)

    def _centred(self, position: Position, dtype: Any) -> dict[str, Any]:
        if self.centre is None:
            return {}
        if isinstance(self.centre, str):
            # A copy, as the thermostat's mean is.
            return {"centre": jax.tree.map(jnp.copy, position), "visits": jnp.zeros((), dtype)}
        return {"centre": self.inward(spread(self.centre, position, "centre", whole=True))}

    def inward(self, position: Position) -> Position:
        """What moves where θ is at a position of unit temperature."""
        return position if self.frame is None else self.frame.inward(position)

    def inside(self, potential: Potential) -> Potential:
        """The potential of what moves: of θ in its frame."""
        return potential if self.frame is None else FramedPotential(potential, self.frame)

    def unit_position(self, state: State) -> Position:
        """θ on the plateau: what moves, seen from outside its frame."""
        return state.position if self.frame is None else self.frame.outward(state.position)

    def drawn(self, state: State) -> Position:
        """θ, which is not what moves where coordinates breathe."""
        tempering = state.tempering
        if tempering is None or tempering.centre is None:
            return self.unit_position(state)
        assert self.coupling is not None
        own = self.coupling.value_and_slope(tempering.xi)[0]
        inside = widened(state.position, tempering.centre, own)
        return inside if self.frame is None else self.frame.outward(inside)

    def noise(self, key: PRNGKey, position: Position) -> StepNoise:
        """Standard normals for the kick, and for fresh momenta where they are used."""
        limit = self.xi_speed_limit is not None
        tempered = self.coupling is not None
        again = self.refresh.theta
        like = (position, position) if again else position
        moves = tempered and self.sweep is None
        both, extra = normals(key, like, extra=2 if moves else 0)
        theta, fresh = both if again else (both, None)
        xi = extra[0] if moves else None
        fresh_xi = extra[1] if moves and (self.refresh.xi or limit) else None
        return StepNoise(theta, xi, fresh, fresh_xi)

    @property
    def can_lead(self) -> bool:
        """Where nothing looks at θ between two kicks, or changes momenta there, but at draws."""
        plain = self.centre is None and self.heated is None and not callable(self.step_size)
        # What is made of these parts may look between two kicks.
        own = type(self.integrator) is Splitting and type(self).advance is Langevin.advance
        return plain and own

    def led(self, state: State) -> State:
        """θ half a drift ahead."""
        return replace(state, position=half_drifted(state.position, state.momentum))

    def advance(
        self, noise: StepNoise, state: State, potential: Potential, batch: Batch
    ) -> tuple[State, Info]:
        """One step of the integrator, then fresh momenta where they are due."""
        return self._advanced(noise, state, potential, batch, led=False)

    def advance_led(
        self, noise: StepNoise, state: State, potential: Potential, batch: Batch
    ) -> tuple[State, Info]:
        """The same step of a state that is :meth:`led`."""
        return self._advanced(noise, state, potential, batch, led=True)

    def _advanced(
        self, noise: StepNoise, state: State, potential: Potential, batch: Batch, led: bool
    ) -> tuple[State, Info]:
        potential = self.inside(potential)
        now = self.settings(state.step, state.position)
        if callable(self.step_size) or callable(self.xi_step_size):
            state = self._rescaled(state, now)
        parts = Parts(
            self.thermostat,
            self.xi_thermostat,
            self.coupling,
            self.bias,
            self.noise_estimate,
            self.sweep,
            self.heated,
        )
        due = jax.lax.rem(state.step + 1, jnp.asarray(self.keep_every, state.step.dtype)) == 0
        given = (parts, now, noise, state, potential, batch)
        if led:
            assert isinstance(self.integrator, Splitting)
            # A draw is of a whole step, and momenta may be made anew there.
            moved = self.integrator.advance(*given, ahead=jnp.where(due, 0.0, 0.5))
        else:
            moved = self.integrator.advance(*given)
        state, unit = moved.state, jnp.asarray(True)
        if moved.decisive_xi is not None:
            assert self.coupling is not None
            unit = self.coupling.on_plateau(moved.decisive_xi, self.keep_within)
        state = self._recentred(self._refreshed(state, now, noise, due, unit))
        keep = unit & due
        if self.relaxed is not None:
            state, relaxed = self._relaxing(self.relaxed, state, moved)
            keep = keep & relaxed
        return state, self._info(state, now, moved, unit, keep)

    def _relaxing(self, test: Relaxed, state: State, moved: Moved) -> tuple[State, Array]:
        tempering = state.tempering
        assert tempering is not None
        assert moved.decisive_xi is not None
        assert self.coupling is not None
        # All of the plateau is at unit temperature, whatever keep_within says.
        here = self.coupling.on_plateau(moved.decisive_xi)
        if self.heated is not None:
            # What still stands has not begun to relax beside what was heated.
            here = self.heated.free(moved.decisive_xi, state.step, self.coupling, self.sweep)
        window = test.seen(tempering.relaxing, moved.energy, here)
        return replace(state, tempering=replace(tempering, relaxing=window)), window.relaxed

    def settings(self, step: Array, position: Position) -> Settings:
        """All rates at a step, in the dtype of the position's scalars."""
        dtype = scalar_dtype(position)
        bath = jnp.asarray(self.bath_temperature).astype(dtype)
        return Settings(
            theta=Conditions(rate_at(self.step_size, step, dtype), bath, step),
            xi=Conditions(rate_at(self.xi_step_size, step, dtype), bath, step),
            c=rate_at(self.injected, step, dtype),
            xi_c=rate_at(self.xi_injected, step, dtype),
            mass=spread(self.mass, position, "mass", whole=not self.thermostat.separable),
        )

    def _fresh(self, normals: Position, now: Settings) -> Position:
        def fresh(n: Array, m: Array) -> Array:
            return n * jnp.sqrt((now.theta.eta * now.theta.bath).astype(n.dtype) / m)

        return jax.tree.map(fresh, normals, now.mass)

    def _rescaled(self, state: State, now: Settings) -> State:
        # r = pΔt/m: when a schedule changes Δt, the physical momentum p stays.
        earlier = jnp.maximum(state.step - 1, 0)

        def factor(rate: Rate, conditions: Conditions) -> Scalar:
            before = rate_at(rate, earlier, conditions.eta.dtype)
            ratio = conditions.eta / jnp.where(before > 0, before, 1)
            return jnp.where(before > 0, jnp.sqrt(ratio), 1)

        theta = factor(self.step_size, now.theta)
        momentum = jax.tree.map(lambda r: r * theta.astype(r.dtype), state.momentum)
        state = eqx.tree_at(lambda s: s.momentum, state, momentum)
        if state.tempering is None:
            return state
        xi = state.tempering.momentum * factor(self.xi_step_size, now.xi)
        return eqx.tree_at(_xi_momentum, state, xi)

    def _refreshed(
        self, state: State, now: Settings, noise: StepNoise, due: Array, unit: Array
    ) -> State:
        here = due if self.refresh.everywhere else due & unit
        if noise.fresh_theta is not None:
            fresh = self._fresh(noise.fresh_theta, now)
            momentum = jax.tree.map(lambda f, r: jnp.where(here, f, r), fresh, state.momentum)
            state = eqx.tree_at(lambda s: s.momentum, state, momentum)
        if noise.fresh_xi is not None and state.tempering is not None:
            again = here if self.refresh.xi else jnp.zeros_like(here)
            if self.xi_speed_limit is not None:
                again = again | (jnp.abs(state.tempering.momentum) >= self.xi_speed_limit)
            fresh_xi = noise.fresh_xi * jnp.sqrt(now.xi.eta * now.xi.bath)
            momentum = jnp.where(again, fresh_xi, state.tempering.momentum)
            state = eqx.tree_at(_xi_momentum, state, momentum)
        return state

    def _recentred(self, state: State) -> State:
        tempering = state.tempering
        if tempering is None or tempering.visits is None:
            return state
        assert self.coupling is not None
        here = self.coupling.on_plateau(tempering.xi)
        centre, visits = recentred(tempering.centre, state.position, tempering.visits, here)
        return replace(state, tempering=replace(tempering, centre=centre, visits=visits))

    def _info(self, state: State, now: Settings, moved: Moved, unit: Array, keep: Array) -> Info:
        energy = moved.energy
        info = Info(
            energy=energy,
            at_unit_temperature=unit,
            keep=keep,
            kinetic_temperature=_over(moved.felt, now.theta.eta * dimension(state.position)),
            thermostat=self.thermostat.level(state.thermostat),
        )
        if state.tempering is None:
            return info
        assert self.coupling is not None
        xi = state.tempering.xi
        r, level = moved.felt_xi, self.xi_thermostat.level(state.tempering.thermostat)
        return info._replace(
            xi=xi,
            temperature=1 / self.coupling.value_and_slope(xi)[0],
            xi_kinetic_temperature=None if r is None else _over(r**2, now.xi.eta),
            xi_thermostat=None if r is None else level,
            hot=self.coupling.is_hot(xi),
            felt_energy=moved.felt_energy,
        )


def _checked_centre(
    centre: Any, coupling: Coupling | None, integrator: Integrator, thermostat: Thermostat
) -> Any:
    if centre is None:
        return None
    if isinstance(centre, str) and centre != "mean":
        raise ValueError(f'centre must be None, "mean" or a position; got {centre!r}')
    if coupling is None:
        raise ValueError("centre is for tempered samplers: without a coupling nothing breathes")
    if not isinstance(integrator, Splitting):
        raise ValueError("centre needs the splitting integrator; Euler() is Algorithm 1 as it is")
    if not isinstance(thermostat, SeparableThermostat):
        raise ValueError(
            "centre needs a thermostat that damps each coordinate by itself; got"
            f" {type(thermostat).__name__}"
        )
    return centre


def _over(heat: Scalar, scale: Scalar) -> Scalar:
    """heat/scale; momenta stay finite where a schedule is at η = 0, and so does this."""
    return heat / jnp.where(scale > 0, scale, 1)


def _xi_momentum(state: State) -> Any:
    assert state.tempering is not None
    return state.tempering.momentum
