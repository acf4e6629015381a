r"""The tempering variable ξ: the interface, the paper's continuous tempering, and no tempering.

The extended system multiplies the energy by λ(ξ) (the paper's Eq. 4). A :class:`Tempering` defines
how ξ moves within one step. In :class:`ContinuousTempering`, the paper's form, forces move ξ, with
a thermostat and a bias (the second line of the paper's Eq. 5, with the A′ of its Eq. 10, in the
variables of §3.3 and with T·λ for λ):

.. math::
    d\xi = r_\xi, \qquad
    dr_\xi = -\lambda'(\eta_\xi\tilde U + N(0, 2c_\xi\eta_\xi)) + \eta_\xi A'(\xi)
        - \lambda'^2 z_\xi r_\xi, \qquad
    dz_\xi = \lambda'^2(r_\xi^2 - \eta_\xi T)/\gamma_\xi.

In :class:`tacthmc.dynamics.ScheduledTempering` ξ follows a schedule. A new form is a subclass of
:class:`Tempering` in a file of its own; integrators and samplers need nothing else.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Float

from tacthmc import _checks as checks
from tacthmc._positions import rate_at
from tacthmc._typing import Number, Rate, Scalar
from tacthmc.dynamics._bias import AdaptiveBiasingForce, Bias, BiasInput, NoBias
from tacthmc.dynamics._coupling import Coupling, PowerCoupling
from tacthmc.dynamics._refresh import Refresh
from tacthmc.dynamics._step_rates import StepRates
from tacthmc.dynamics._thermostat import ScalarThermostat, Thermostat
from tacthmc.potentials import CovarianceTerm


class TemperingState(eqx.Module):
    """ξ and the variables that belong to it."""

    xi: Scalar
    momentum: Scalar
    """r_ξ, or the speed of a ξ that follows a schedule."""
    thermostat: Any
    """z_ξ."""
    bias: Any
    """The table of the bias."""


class XiForce(NamedTuple):
    """The force on ξ in a step: the energy that λ multiplies, and T·λ′(ξ)."""

    energy: Scalar
    slope: Scalar


class Tempering(eqx.Module):
    """How ξ moves, with its coupling λ(ξ) and its bias.

    A step of the splitting calls :meth:`first_half`, :meth:`coupling_at`, :meth:`covariance_term`
    and :meth:`second_half`, in this order. A step of Algorithm 1 calls :meth:`coupling_at` and
    :meth:`euler_step`. Both then call :meth:`refreshed`.
    """

    coupling: eqx.AbstractVar[Coupling]
    bias: eqx.AbstractVar[Bias]

    @abstractmethod
    def init(self, normal: Scalar, rates: StepRates, dtype: DTypeLike) -> TemperingState:
        """The state before the first step, at ξ = 0. ``normal`` is for the momentum."""

    @abstractmethod
    def first_half(self, state: TemperingState, rates: StepRates) -> TemperingState:
        """The state in the middle of the step, before the energy is known."""

    @abstractmethod
    def second_half(
        self,
        state: TemperingState,
        force: XiForce,
        normals: Float[Array, " n"],
        rates: StepRates,
    ) -> TemperingState:
        """The state after the step, from the one in the middle."""

    def euler_step(
        self,
        state: TemperingState,
        force: XiForce,
        normals: Float[Array, " n"],
        rates: StepRates,
    ) -> TemperingState:
        """The state after a step of Algorithm 1, from the one before."""
        raise TypeError(f"a {type(self).__name__} needs the splitting integrator")

    def with_defaults(self, step_size: Rate, noise: Rate) -> "Tempering":
        """The same tempering, with the step size and noise of θ where none were given."""
        return self

    @property
    def num_normals(self) -> int:
        """How many standard normals a step takes."""
        return 0

    @property
    def has_momentum(self) -> bool:
        """Whether forces move ξ. Then its momentum has a temperature and a thermostat."""
        return False

    @property
    def rest_steps(self) -> Number | None:
        """For how many steps ξ rests on the plateau at a time, or None if that is not fixed."""
        return None

    @property
    def expected_unit_share(self) -> Number | None:
        """The expected share of steps at unit temperature, or None if it is not known."""
        return None

    def rates(self, theta: StepRates) -> StepRates:
        """The rates of ξ at this step, from those of θ."""
        return theta

    def coupling_at(self, state: TemperingState, bath: Number) -> tuple[Scalar, Scalar]:
        """T·λ(ξ) and T·λ′(ξ)."""
        value, slope = self.coupling.value_and_slope(state.xi)
        return bath * value, bath * slope

    def covariance_term(
        self, state: TemperingState, slope: Scalar, rates: StepRates, widens: bool
    ) -> CovarianceTerm | None:
        """The correction for noise that θ and ξ share, if one batch moves both.

        ``slope`` is T·λ′(ξ). ``widens`` says whether the coordinates of θ widen with ξ.
        """
        return None

    def on_new_rates(self, state: TemperingState, rates: StepRates) -> TemperingState:
        """The state after a schedule has changed η_ξ."""
        return state

    def refreshed(
        self, state: TemperingState, unit: Array, normals: Float[Array, " n"], rates: StepRates
    ) -> TemperingState:
        """The state after a step, with a momentum drawn afresh where that is due."""
        return state

    def at_unit_temperature(self, xi: Scalar) -> Bool[Array, ""]:
        """Whether θ may be kept as a draw from the posterior."""
        return self.coupling.on_plateau(xi)


class NoTempering(Tempering):
    """No ξ: the posterior at its own temperature, λ = T.

    >>> NoTempering().has_momentum
    False
    """

    coupling: Any = None
    bias: Bias = NoBias()

    def init(self, normal: Scalar, rates: StepRates, dtype: DTypeLike) -> Any:
        return None

    def first_half(self, state: Any, rates: StepRates) -> Any:
        return None

    def second_half(
        self, state: Any, force: XiForce, normals: Float[Array, " n"], rates: StepRates
    ) -> Any:
        return None

    def euler_step(
        self, state: Any, force: XiForce, normals: Float[Array, " n"], rates: StepRates
    ) -> Any:
        return None

    def coupling_at(self, state: Any, bath: Number) -> tuple[Scalar, Scalar]:
        """T and 0."""
        return jnp.asarray(bath), jnp.zeros_like(jnp.asarray(bath))

    def covariance_term(self, state: Any, slope: Scalar, rates: StepRates, widens: bool) -> None:
        return None


class CovarianceCorrection(eqx.Module):
    r"""The friction for mini-batch noise that θ and ξ share.

    One mini-batch gives both the force on θ and the energy that acts on ξ, so their errors are
    correlated: c = Cov(δg, δU) = ½∇v_U. Separate thermostats of θ and ξ do not remove the heat of
    this correlation. The step therefore uses the force and energy of

    .. math:: \tilde U(\theta) + \tfrac12\,\Delta\lambda\,\hat v_U(\theta), \qquad
        \Delta\lambda = \lambda' r_\xi / T,

    with v̂_U, the estimate of the variance of the energy from the batch itself. It costs no further
    pass over the batch. :mod:`tacthmc.potentials._batch_noise` has the derivation and the
    assumptions. Potentials without independent mini-batches ignore it.
    ``ContinuousTempering(batch_noise=None)`` leaves it out.

    >>> import tacthmc
    >>> plain = tacthmc.dynamics.ContinuousTempering(batch_noise=None)
    >>> tacthmc.tact(0.01, tempering=plain).tempering.batch_noise is None
    True
    """

    def term(
        self,
        tempering: "ContinuousTempering",
        state: TemperingState,
        slope: Scalar,
        rates: StepRates,
        widens: bool,
    ) -> CovarianceTerm:
        """Δλ from the momentum of ξ in the middle of its kick, up to the energy of the batch."""
        rate = slope / rates.bath
        if widens:
            # The energy that acts on ξ is small here, and known only after the gradient.
            return CovarianceTerm(rate * state.momentum, jnp.zeros_like(rate))
        # The energy is not known yet. Only an empty bias would use it, in the first step, and then
        # ξ is on the plateau.
        at = BiasInput(state.xi, slope, jnp.zeros_like(slope), rates.step)
        half = 0.5 * rates.eta
        start = state.momentum + half * tempering.bias.force(state.bias, at, tempering.coupling)
        return CovarianceTerm(rate * start, rate * half * slope)


class ContinuousTempering(Tempering):
    """ξ moved by forces, as in the paper, for :func:`tacthmc.tact`.

    Arguments that are not given have defaults, or are chosen by :func:`tacthmc.tune`.

    >>> import tacthmc
    >>> sampler = tacthmc.tact(0.01, tempering=ContinuousTempering(PowerCoupling.up_to(4.0)))
    >>> float(sampler.tempering.coupling.hottest).__round__(3), sampler.tempering.step_size
    (4.0, 0.01)
    """

    coupling: Coupling
    bias: Bias
    step_size: Rate | None
    noise: Rate | None
    thermostat: Thermostat
    max_speed: Number | None
    keep_within: Number
    batch_noise: CovarianceCorrection | None
    refresh: Refresh | None = eqx.field(static=True)
    given: frozenset[str] = eqx.field(static=True)
    """The names of the given arguments, which :func:`tacthmc.tune` does not change."""

    def __init__(
        self,
        coupling: Coupling | None = None,
        bias: Bias | None = None,
        *,
        step_size: Rate | None = None,
        noise: Rate | None = None,
        thermostat: Thermostat | None = None,
        refresh: Refresh | None = None,
        max_speed: Number | None = None,
        keep_within: Number = 1.0,
        batch_noise: CovarianceCorrection | None = CovarianceCorrection(),  # noqa: B008
    ):
        """Join the parts of ξ.

        Args:
            coupling: λ(ξ). The default is PowerCoupling.up_to(9.0, power=2): the paper's family
                with its plateau, walls and hottest temperature, but n = 2 instead of 3, which
                spends less of the range of ξ on temperatures just above one.
            bias: AdaptiveBiasingForce() by default; or Metadynamics, well_tempered, NoBias, ….
            step_size: η_ξ; by default that of θ.
            noise: c_ξ; by default that of θ.
            thermostat: ScalarThermostat() by default; or NoThermostat().
            refresh: when r_ξ is drawn afresh; by default never. It turns the glide of ξ across the
                plateau, where no force acts on ξ, into a slow walk.
            max_speed: draw r_ξ afresh whenever |r_ξ| reaches this (the authors use 0.25). It
                changes the law of ξ, but not that of θ on the plateau.
            keep_within: keep draws only where |ξ| ≤ keep_within·ξ0.
            batch_noise: the correction for noise that θ and ξ share; None leaves it out.
        """
        named = {"coupling": coupling, "bias": bias, "step_size": step_size, "noise": noise}
        named |= {"thermostat": thermostat}
        if step_size is not None:
            checks.positive("tempering.step_size", step_size)
        if noise is not None:
            checks.non_negative("tempering.noise", noise)
        if max_speed is not None:
            checks.positive("max_speed", max_speed)
        checks.within("keep_within", keep_within, 0.0, 1.0)
        coupling = PowerCoupling.up_to(9.0, power=2) if coupling is None else coupling
        bias = AdaptiveBiasingForce() if bias is None else bias
        thermostat = ScalarThermostat() if thermostat is None else thermostat
        checks.instance("coupling", coupling, Coupling, "a Coupling")
        checks.instance("bias", bias, Bias, "a Bias")
        checks.instance("thermostat", thermostat, Thermostat, "a thermostat")
        if refresh is not None:
            checks.instance("refresh", refresh, Refresh, "a tacthmc.dynamics.Refresh")
        self.coupling, self.bias, self.thermostat = coupling, bias, thermostat
        self.step_size, self.noise, self.refresh = step_size, noise, refresh
        self.max_speed, self.keep_within, self.batch_noise = max_speed, keep_within, batch_noise
        self.given = frozenset(name for name, value in named.items() if value is not None)

    def with_defaults(self, step_size: Rate, noise: Rate) -> "ContinuousTempering":
        made = self
        if made.step_size is None:
            made = eqx.tree_at(lambda t: t.step_size, made, step_size, is_leaf=_is_none)
        if made.noise is None:
            made = eqx.tree_at(lambda t: t.noise, made, noise, is_leaf=_is_none)
        return made

    @property
    def num_normals(self) -> int:
        """One for the kick and one for a fresh momentum."""
        return 2

    @property
    def has_momentum(self) -> bool:
        return True

    @property
    def expected_unit_share(self) -> Number:
        """ξ0/W0·``keep_within``, the share if ξ is uniform."""
        return self.coupling.efficiency * self.keep_within

    def rates(self, theta: StepRates) -> StepRates:
        """η_ξ and c_ξ."""
        assert self.step_size is not None
        assert self.noise is not None
        eta = rate_at(self.step_size, theta.step, theta.eta.dtype)
        return StepRates(eta, rate_at(self.noise, theta.step, eta.dtype), theta.bath, theta.step)

    def init(self, normal: Scalar, rates: StepRates, dtype: DTypeLike) -> TemperingState:
        """ξ = 0, r_ξ from its law N(0, η_ξT), z_ξ = c_ξ/T."""
        return TemperingState(
            xi=jnp.zeros((), dtype),
            momentum=normal * jnp.sqrt(rates.eta * rates.bath),
            thermostat=self.thermostat.init(jnp.zeros((), dtype), rates.c / rates.bath),
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
        one, half = jnp.ones_like(state.xi), 0.5 * force.slope**2
        z = self.thermostat.update(state.thermostat, state.momentum, one, rates, half)
        damp = self.thermostat.damping(z, one, half)
        kick, bias = self._kick(state, force, normals[0], rates)
        r = damp(damp(state.momentum) + kick)
        z = self.thermostat.update(z, r, one, rates, half)
        return self.first_half(replace(state, momentum=r, thermostat=z, bias=bias), rates)

    def euler_step(
        self,
        state: TemperingState,
        force: XiForce,
        normals: Float[Array, " n"],
        rates: StepRates,
    ) -> TemperingState:
        """Algorithm 1: a step over the wall is undone, and its momentum is reversed."""
        one = jnp.ones_like(state.xi)
        z = self.thermostat.update(state.thermostat, state.momentum, one, rates, force.slope**2)
        kick, bias = self._kick(state, force, normals[0], rates)
        r = state.momentum + kick - self.thermostat.drag(z, state.momentum, one, force.slope**2)
        moved = state.xi + r
        over = jnp.abs(moved) > self.coupling.wall
        xi, r = jnp.where(over, state.xi, moved), jnp.where(over, -r, r)
        return replace(state, xi=xi, momentum=r, thermostat=z, bias=bias)

    def _kick(
        self, state: TemperingState, force: XiForce, normal: Scalar, rates: StepRates
    ) -> tuple[Scalar, Any]:
        """−λ′(η_ξŨ + N(0, 2c_ξη_ξ)) + η_ξA′(ξ), and the table of the bias after this step."""
        at = BiasInput(state.xi, force.slope, force.energy, rates.step)
        push = self.bias.force(state.bias, at, self.coupling)
        random = jnp.sqrt(2 * rates.c * rates.eta) * normal
        kick = rates.eta * push - force.slope * (rates.eta * force.energy + random)
        return kick, self.bias.update(state.bias, at, self.coupling)

    def covariance_term(
        self, state: TemperingState, slope: Scalar, rates: StepRates, widens: bool
    ) -> CovarianceTerm | None:
        if self.batch_noise is None:
            return None
        return self.batch_noise.term(self, state, slope, rates, widens)

    def on_new_rates(self, state: TemperingState, rates: StepRates) -> TemperingState:
        """Keep the physical momentum r_ξ/√η_ξ where a schedule changes η_ξ."""
        if not callable(self.step_size):
            return state
        earlier = jnp.maximum(rates.step - 1, 0)
        before = rate_at(self.step_size, earlier, rates.eta.dtype)
        ratio = rates.eta / jnp.where(before > 0, before, 1)
        factor = jnp.where(before > 0, jnp.sqrt(ratio), 1)
        return replace(state, momentum=state.momentum * factor)

    def refreshed(
        self, state: TemperingState, unit: Array, normals: Float[Array, " n"], rates: StepRates
    ) -> TemperingState:
        if self.refresh is None and self.max_speed is None:
            return state
        again = jnp.zeros_like(unit)
        if self.refresh is not None:
            again = self.refresh.due(rates.step + 1, unit)
        if self.max_speed is not None:
            again = again | (jnp.abs(state.momentum) >= self.max_speed)
        fresh = normals[1] * jnp.sqrt(rates.eta * rates.bath)
        return replace(state, momentum=jnp.where(again, fresh, state.momentum))

    def at_unit_temperature(self, xi: Scalar) -> Bool[Array, ""]:
        return self.coupling.on_plateau(xi, self.keep_within)


def _is_none(x: Any) -> bool:
    return x is None
