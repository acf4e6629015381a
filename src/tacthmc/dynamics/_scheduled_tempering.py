r"""A ξ that follows a schedule: temperature as a prescribed function of the step count.

On mini-batches the force on ξ is mostly noise, and a ξ that diffuses under it makes no round trips
(``research/high-dimension.md``). A heavier ξ keeps its direction for longer, and an infinitely
heavy one glides at constant speed under any force. This is that limit: ξ rests on the plateau for a
share of each period, then moves from the edge of the plateau ξ0 to the wall W0 and back,

.. math::
    \xi(k) = \begin{cases} 0 & q < 0 \\ \xi_0 + (W_0 - \xi_0)(1 - |1 - q|) & q \ge 0 \end{cases}
    \qquad q = \frac{2\,(p - \text{rest}\cdot P)}{(1 - \text{rest})\,P},
    \quad p = (k - \text{start}) \bmod P,

so the path depends neither on the noise of the energy nor on N nor on D. (It jumps from 0 to ξ0,
which has no effect because λ = 1 in between.) Before the step ``start`` ξ is 0, and the sampler is
SGNHT.

**The law.** At fixed ξ a step leaves exp(−λ(ξ)U(θ)) invariant, under the assumptions of
:func:`tacthmc.tact` about noise and step size. But ξ moves, and the law of θ lags behind. In the
limit of slow schedules θ is in equilibrium at every temperature, and kept draws follow the
posterior. *That the schedule is slow is an assumption that neither a thermostat nor a bias can
replace.* Where forces move ξ, it responds to the energy of θ, and their joint law is invariant at
any speed. Here it does not respond. At finite speed

* θ is still cooling when the rest begins, and its spread within a mode is too large for a few
  relaxation times. A long rest makes the effect small, and ``Keep(relaxation_window=…)`` drops the
  draws that have it;
* between modes, crossings get rarer on the way down. Below some temperature T_f they are too slow
  for the schedule, and the weights of the modes no longer change. The weights of kept draws lie
  between those under exp(−U/T_f) and those of the posterior. A longer rest does not help; a slower
  schedule does. Compare the weights from two periods.

ξ passes every place at the same speed on its way up and down, so the lags there have opposite
signs. The mean energies that the bias learns (it learns, but does not act) are therefore right to
first order in the speed, and so is :meth:`tacthmc.Run.log_evidence_ratio`.

**With temperature-scaled coordinates** (:mod:`tacthmc.dynamics._coordinates`) θ = μ + (φ − μ)/√λ
widens with ξ. The cross friction of φ and ξ is left out. Its part on r_ξ would remove the heat of
the noise −b·N, which does not reach a ξ on a schedule. Its part on φ, −z_f·a·b·dξ/dk, is not needed
either: only φ is in a bath, its noise is −a·N, the matching friction is a²z_f, which the thermostat
of θ supplies, and together they leave exp(−λU(θ(φ, ξ))) invariant at each ξ. The additional drag
would oppose the widening. Where U is quadratic about μ, the law of φ does not depend on ξ, and
without the drag θ is in equilibrium at any speed.

**Related methods.** Cyclical SG-MCMC moves the step size instead of the temperature. The first
steps of a cycle are a descent, and where they end decides the weights. Replica exchange has the
right weights at any speed, but needs energies, and about √D replicas with a gradient each. A
tempered transition (R. M. Neal, *Sampling from multimodal distributions using tempered
transitions*, Statistics and Computing 6, 1996) is one such trip with a Metropolis test at its end,
which needs exact energies.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float

from tacthmc import _checks as checks
from tacthmc._typing import Number, Scalar
from tacthmc.dynamics._bias import (
    AdaptiveBiasingForce,
    Bias,
    BiasInput,
    FrozenBias,
    LiteralAdaptiveBiasingForce,
    Metadynamics,
)
from tacthmc.dynamics._coupling import Coupling, PowerCoupling
from tacthmc.dynamics._step_rates import StepRates
from tacthmc.dynamics._tempering import Tempering, TemperingState, XiForce

MIN_TRIP_STEPS = 10
"""Steps per trip to the wall and back. With fewer, ξ may jump over the outer tenth of the slope."""


class ScheduledTempering(Tempering):
    """ξ as a periodic function of the step count, for :func:`tacthmc.tact`.

    One period is a rest on the plateau, then a trip to the wall and back. The bias learns the free
    energy and does not act. :mod:`tacthmc.dynamics._scheduled_tempering` has the assumptions.

    >>> import tacthmc
    >>> xi = ScheduledTempering(period=40, rest=0.5, start=100)
    >>> [round(float(xi.at(k)[0]), 3) for k in (0, 119, 125, 130, 140)]
    [0.0, 0.0, 1.0, 1.667, 0.0]
    """

    period: Number
    rest: Number
    start: Number
    coupling: Coupling
    bias: Bias

    def __init__(
        self,
        period: int,
        rest: float = 0.5,
        start: int = 0,
        *,
        coupling: Coupling | None = None,
        bias: Bias | None = None,
    ):
        """Make one trip every ``period`` steps, with rest at ξ = 0 for the share ``rest`` of them.

        ``start`` additional steps of rest come before the first period. The default coupling is
        that of :class:`tacthmc.dynamics.ContinuousTempering`.
        """
        checks.whole("period", period, 1)
        checks.within("rest", rest, 0.0, 1.0)
        checks.whole("start", start, 0)
        if (1 - rest) * period < MIN_TRIP_STEPS:
            raise ValueError(
                f"period and rest must leave {MIN_TRIP_STEPS} steps or more for the way to the wall"
                f" and back; got {(1 - rest) * period:g} with period={period} and rest={rest}"
            )
        coupling = PowerCoupling.up_to(9.0, power=2) if coupling is None else coupling
        bias = AdaptiveBiasingForce() if bias is None else bias
        checks.instance("coupling", coupling, Coupling, "a Coupling")
        checks.instance("bias", bias, Bias, "a Bias")
        learns = bias.inner if isinstance(bias, FrozenBias) else bias
        if isinstance(learns, Metadynamics | LiteralAdaptiveBiasingForce):
            raise ValueError(
                "bias must be AdaptiveBiasingForce() or NoBias() where ξ follows a schedule: from"
                f" a prescribed path {type(learns).__name__} learns nothing"
            )
        self.period, self.rest, self.start = period, rest, start
        self.coupling, self.bias = coupling, bias

    @property
    def rest_steps(self) -> Number:
        """Steps of rest in each period."""
        return self.rest * self.period

    @property
    def expected_unit_share(self) -> Number:
        """The share of each period in which ξ rests."""
        return self.rest

    def at(self, step: Any, ahead: float = 0.0) -> tuple[Scalar, Scalar]:
        """ξ and dξ/dk at ``step`` + ``ahead``, 0 ≤ ahead < 1."""
        step, coupling = jnp.asarray(step), self.coupling
        plateau, wall = (jnp.asarray(x).astype(float) for x in (coupling.plateau, coupling.wall))
        period, start = (jnp.asarray(x).astype(step.dtype) for x in (self.period, self.start))
        # Integer arithmetic first: single precision cannot hold the step count of a long run.
        phase = jax.lax.rem(jnp.maximum(step - start, 0), period).astype(float) + ahead
        resting = jnp.asarray(self.rest).astype(float) * period.astype(float)
        half = 0.5 * (period.astype(float) - resting)
        q = (phase - resting) / half
        travels = (step >= start) & (q >= 0)
        height = 1 - jnp.abs(1 - q)
        xi = jnp.where(travels, plateau + (wall - plateau) * height, 0)
        speed = jnp.where(q < 1, wall - plateau, plateau - wall) / half
        return xi, jnp.where(travels, speed, 0)

    def init(self, normal: Scalar, rates: StepRates, dtype: DTypeLike) -> TemperingState:
        """ξ = 0, at rest."""
        zero = jnp.zeros((), dtype)
        return TemperingState(zero, jnp.zeros_like(normal), (), self.bias.init(dtype))

    def first_half(self, state: TemperingState, rates: StepRates) -> TemperingState:
        """ξ half a step later."""
        return self._placed(state, rates.step, 0.5)

    def second_half(
        self,
        state: TemperingState,
        force: XiForce,
        normals: Float[Array, " n"],
        rates: StepRates,
    ) -> TemperingState:
        """ξ at the end of the step; the bias learns from the middle of it."""
        at = BiasInput(state.xi, force.slope, force.energy, rates.step)
        learned = replace(state, bias=self.bias.update(state.bias, at, self.coupling))
        return self._placed(learned, rates.step + 1)

    def euler_step(
        self,
        state: TemperingState,
        force: XiForce,
        normals: Float[Array, " n"],
        rates: StepRates,
    ) -> TemperingState:
        return self.second_half(state, force, normals, rates)

    def _placed(self, state: TemperingState, step: Array, ahead: float = 0.0) -> TemperingState:
        xi, speed = (x.astype(state.xi.dtype) for x in self.at(step, ahead))
        return replace(state, xi=xi, momentum=speed)
