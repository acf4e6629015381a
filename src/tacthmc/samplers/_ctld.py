r"""Continuously tempered Langevin dynamics: constant friction in place of thermostats."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float

from tacthmc import _checks as checks
from tacthmc._positions import rate_at
from tacthmc._typing import Batch, Number, Position, Rate, Scalar
from tacthmc.dynamics import (
    Bias,
    BiasInput,
    Coupling,
    Integrator,
    Langevin,
    Metadynamics,
    NoThermostat,
    PowerCoupling,
    State,
    StepNoise,
    StepRates,
    Tempering,
    TemperingState,
    XiForce,
)
from tacthmc.dynamics._coordinates import Rates
from tacthmc.dynamics._langevin import Parts, StepResult, half_drift
from tacthmc.dynamics._step_rates import StepMomenta
from tacthmc.potentials import Potential, forces

LIGHTNESS = 0.1
"""The default step size of α relative to that of θ. α has to move less than a bin of the bias in a
step, or the bias heats it."""

BINS = 20
"""The default number of bins of metadynamics."""


class ShareOf(eqx.Module):
    """A schedule times a number."""

    rate: Any
    share: float

    def __call__(self, step: Any) -> Array:
        """The product at a step."""
        value = jnp.asarray(self.rate(step))
        return value * jnp.asarray(self.share).astype(value.dtype)


class ConstantFrictionTempering(Tempering):
    r"""The augmented variable α of :func:`ctld`, here ξ, with Langevin dynamics of its own.

    .. math:: d\xi = r, \qquad
        dr = \eta_\xi(A'(\xi) - \lambda'(\xi)\,\tilde U) + N(0, 2c_\xi\eta_\xi) - (c_\xi/T)\,r,

    between walls that reflect it. Unlike in :class:`tacthmc.dynamics.ContinuousTempering`, friction
    and noise are the same everywhere, on the plateau too.
    """

    coupling: Coupling
    bias: Bias
    step_size: Rate
    noise: Rate

    @property
    def num_normals(self) -> int:
        """One, for the kick."""
        return 1

    @property
    def has_momentum(self) -> bool:
        return True

    @property
    def expected_unit_share(self) -> Any:
        """ξ0/W0, the share if ξ is uniform."""
        return self.coupling.efficiency

    def rates(self, theta: StepRates) -> StepRates:
        """η_ξ and c_ξ."""
        eta, c = (
            rate_at(rate, theta.step, theta.eta.dtype) for rate in (self.step_size, self.noise)
        )
        return StepRates(eta, c, theta.bath, theta.step)

    def init(self, normal: Scalar, rates: StepRates, dtype: DTypeLike) -> TemperingState:
        """ξ = 0, and r from its law N(0, η_ξT)."""
        return TemperingState(
            xi=jnp.zeros((), dtype),
            momentum=normal * jnp.sqrt(rates.eta * rates.bath),
            thermostat=rates.c / rates.bath,
            bias=self.bias.init(dtype),
        )

    def first_half(self, state: TemperingState, rates: StepRates) -> TemperingState:
        """Half a drift, mirrored at the walls."""
        xi, r = self.coupling.reflect(state.xi + 0.5 * state.momentum, state.momentum)
        return replace(state, xi=xi, momentum=r)

    def second_half(
        self,
        state: TemperingState,
        force: XiForce,
        normals: Float[Array, " n"],
        rates: StepRates,
    ) -> TemperingState:
        """Half of the friction, the kick, half of the friction, half a drift."""
        at = BiasInput(state.xi, force.slope, force.energy, rates.step)
        push = self.bias.force(state.bias, at, self.coupling) - force.slope * force.energy
        kick = rates.eta * push + jnp.sqrt(2 * rates.c * rates.eta) * normals[0]
        half = half_of_friction(state.thermostat)
        moved = replace(
            state,
            momentum=half * (half * state.momentum + kick),
            bias=self.bias.update(state.bias, at, self.coupling),
        )
        return self.first_half(moved, rates)

    def on_new_rates(self, state: TemperingState, rates: StepRates) -> TemperingState:
        """Keep the physical momentum r/√η_ξ where a schedule changes η_ξ."""
        if not callable(self.step_size):
            return state
        before = rate_at(self.step_size, jnp.maximum(rates.step - 1, 0), rates.eta.dtype)
        factor = jnp.where(before > 0, jnp.sqrt(rates.eta / jnp.where(before > 0, before, 1)), 1)
        return replace(state, momentum=state.momentum * factor)


class ConstantFriction(Integrator):
    r"""The splitting of :class:`tacthmc.dynamics.Splitting` for :func:`ctld`.

    A step is half a drift of (θ, ξ); half of the friction; the kick −λη∇Ũ + N(0, 2cη); the other
    half of the friction; and half a drift. Neither noise nor friction is multiplied by λ. Half of
    the friction multiplies r by exp(−asinh(z/2)) with z = c/T. In a Gaussian of any curvature, at
    any constant λ, the variance of θ is then exact up to the stability limit ηλω² = 4.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> sampler = tacthmc.dynamics.Langevin(
    ...     0.5, thermostat=tacthmc.dynamics.NoThermostat(), integrator=ConstantFriction())
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(9), 20_000, 4)
    >>> bool(abs(run.draws.var() - 1.0) < 0.05)
    True
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
        thermostat, tempering, old = parts.thermostat, parts.tempering, state.momentum
        # A: half a drift of ξ and θ.
        xi = tempering.first_half(state.tempering, now.xi)
        lam, slope = tempering.coupling_at(xi, now.theta.bath)
        theta = half_drift(state.position, old)
        # Energy and force of this batch, in the middle of the step.
        u = forces(potential, theta, batch, state.model, lam / now.theta.bath)
        energy, tempered = u.energy.astype(lam.dtype), u.tempered.astype(lam.dtype)
        # O B O: friction, kick, friction.
        half = thermostat.apply(state.thermostat, now.mass, half_of_friction)
        kick = _kick(parts, now, noise, u.gradient, lam)
        r = half(jax.tree.map(jnp.add, half(old), kick))
        mean = jax.tree.map(lambda old, new: 0.5 * (old + new), old, r)
        momenta = StepMomenta(r, mean, now.mass, now.theta, jnp.ones_like(lam), state.mean_friction)
        kinetic = thermostat.kinetic_sum(momenta).astype(lam.dtype)
        # A: half a drift of θ; then ξ's O B O and half a drift.
        xi = tempering.second_half(xi, XiForce(tempered, slope), noise.xi, now.xi)
        after = State(
            half_drift(theta, r),
            r,
            state.thermostat,
            xi,
            state.step + 1,
            u.model,
            state.mean_friction,
            state.center,
        )
        return StepResult(after, energy, tempered, kinetic, None if xi is None else xi.xi)

    def check(self, parts: Parts) -> None:
        if parts.coordinates.widens:
            raise ValueError("center needs the integrator Splitting(), and ctld has its own")


def half_of_friction(friction: Array) -> Array:
    """exp(−asinh(z/2)), the factor of half of the friction z of a step."""
    return jnp.exp(-jnp.arcsinh(0.5 * friction))


def _kick(parts: Parts, now: Rates, noise: StepNoise, gradient: Position, lam: Scalar) -> Position:
    """−λ(η/m)·∇Ũ + N(0, 2c·g·η/m)."""

    def kick(gradient: Array, m: Array, g: Array, n: Array) -> Array:
        eta = now.theta.eta.astype(m.dtype) / m
        spread = jnp.sqrt(2 * now.theta.c.astype(m.dtype) * g * eta)
        return spread * n - lam.astype(m.dtype) * eta * gradient

    weights = parts.thermostat.weights(now.mass)
    return jax.tree.map(kick, gradient, now.mass, weights, noise.theta)


def ctld(
    step_size: Rate,
    *,
    noise: Number = 0.1,
    coupling: Coupling | None = None,
    bias: Bias | None = None,
    tempering_step_size: Rate | None = None,
    tempering_noise: Number | None = None,
    mass: Any = 1.0,
) -> Langevin:
    r"""Continuously tempered Langevin dynamics (Ye, Zhu and Mantiuk 2017), without thermostats.

    An augmented variable α, which this library calls ξ, scales the force by g(α), the coupling
    λ(ξ). Both have Langevin dynamics with constant friction:

    .. math::
        d\theta &= r, & dr &= g(\alpha)\,\eta\tilde f + N(0, 2c\eta) - c\,r, \\
        d\alpha &= r_\alpha, & dr_\alpha &= \eta_\alpha\big(A'(\alpha) - g'(\alpha)\,\tilde U\big)
            + N(0, 2c_\alpha\eta_\alpha) - c_\alpha r_\alpha,

    inside a well whose walls reflect α. Metadynamics learns the bias A, which makes α uniform. For
    exact gradients this leaves

    .. math:: \exp\big(-g(\alpha)\,U(\theta) + A(\alpha)\big)\,N(r; 0, \eta)\,
        N(r_\alpha; 0, \eta_\alpha)

    invariant as η → 0. Draws are kept on the plateau, where g = 1, and follow the posterior for any
    constant A. Metadynamics never stops changing A. That heats α and leaves an error, which falls
    with the height of its increments; ``bias.started_from(run.bias_table()).frozen()`` removes it.

    **What differs from** :func:`tacthmc.tact`:

    * c and c_α are constants. TACT-HMC has thermostats, which adapt to the noise.
    * Friction and noise are those of a bath at temperature one for every α. TACT-HMC multiplies
      the noise by λ and λ′ and the friction by their squares. So α diffuses on the plateau here,
      where the ξ of TACT-HMC glides without any force.
    * The bias is metadynamics, not an adaptive biasing force.
    * Nothing corrects for the noise that force and energy of one batch share.

    **Mini-batch noise heats it.** Nothing takes out the heat of force noise of variance v_f: where
    g = 1, θ is at the temperature 1 + ηv_f/(2c) instead of one, so the draws are too wide. α is at
    1 + g′²η_α v_U/(2c_α) on the slope. Halving η halves the heat. With exact gradients there is
    none; with mini-batches use :func:`tacthmc.tact`.

    **In the paper this is the first of two phases** of training a network. It explores wide
    valleys, and an optimizer then begins at its last position:
    ``tacthmc.samplers.momentum_sgd(…)`` from ``run.state.position``. The second phase ends in one
    point and samples nothing. The discretization here is this library's symmetric splitting
    (:class:`tacthmc.samplers._ctld.ConstantFriction`).

    Args:
        step_size: η in full-data units.
        noise: c, the level of injected noise and the friction per step.
        coupling: g(α), by default PowerCoupling.up_to(9.0, power=2), as in :func:`tacthmc.tact`.
        bias: Metadynamics(bins=20) by default; any bias of :mod:`tacthmc.dynamics` will do.
        tempering_step_size: η_α; by default a tenth of that of θ.
        tempering_noise: c_α; by default that of θ.
        mass: as in :func:`tacthmc.tact`.

    Reference: N. Ye, Z. Zhu, R. K. Mantiuk. *Langevin dynamics with continuous tempering for
    training deep neural networks.* NeurIPS 2017.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 4.0 * jnp.sum((x**2 - 1.0) ** 2))
    >>> run = tacthmc.sample(jax.random.key(0), ctld(1e-2), target, init=jnp.ones(1),
    ...                      num_steps=20_000, num_chains=4)
    >>> bool((run.draws > 0.5).any() and (run.draws < -0.5).any())     # both wells
    True
    """
    coupling = PowerCoupling.up_to(9.0, power=2) if coupling is None else coupling
    bias = Metadynamics(BINS) if bias is None else bias
    checks.instance("coupling", coupling, Coupling, "a Coupling")
    checks.instance("bias", bias, Bias, "a Bias")
    tempering_noise = noise if tempering_noise is None else tempering_noise
    for name, value in (("noise", noise), ("tempering_noise", tempering_noise)):
        if callable(value):
            raise TypeError(f"{name} must be a number: the friction is constant; got a schedule")
        checks.positive(name, value)
    checks.positive("step_size", step_size)
    if tempering_step_size is None:
        schedule = callable(step_size)
        tempering_step_size = ShareOf(step_size, LIGHTNESS) if schedule else LIGHTNESS * step_size
    checks.positive("tempering_step_size", tempering_step_size)
    return Langevin(
        step_size,
        noise=noise,
        thermostat=NoThermostat(),
        tempering=ConstantFrictionTempering(coupling, bias, tempering_step_size, tempering_noise),
        integrator=ConstantFriction(),
        mass=mass,
    )
