r"""A ξ that is led, not pushed: temperature as a prescribed function of the step count.

What ξ feels on mini-batches is mostly noise, and a ξ that diffuses under it makes no round trip
(``docs/high-dimension.md``). Made heavier it keeps its direction for longer; infinitely heavy it
glides at constant speed and feels nothing. That limit is this: ξ rests on the plateau for a share
of each period, then goes from the plateau's edge ξ0 to the wall W0 and back,

.. math::
    \xi(k) = \begin{cases} 0 & q < 0 \\ \xi_0 + (W_0 - \xi_0)(1 - |1 - q|) & q \ge 0 \end{cases}
    \qquad q = \frac{2\,(p - \text{rest}\cdot P)}{(1 - \text{rest})\,P},
    \quad p = (k - \text{start}) \bmod P,

so that neither the energy's noise nor N nor D enters. (From 0 to ±ξ0 it jumps: λ = 1 on all of
that way, and nothing notices.) Before the step ``start`` it is 0: SGNHT.

**The law.** At fixed ξ a step leaves exp(−λ(ξ)U(θ)) invariant, under the assumptions of
:func:`tacthmc.tact` about noise and steps. ξ moves all the same, and θ's law comes after it. In
the limit of slow sweeps θ is in equilibrium at every temperature, and what is kept follows the
posterior. *That the sweep is slow is an assumption that no thermostat and no bias makes good*: a
ξ that moves by itself feels θ's energy, and their joint law is invariant at any speed; this one
does not. At finite speed

* θ is still cooling when the rest begins, and its spread within a mode is too large for a few
  relaxation times. A long rest makes little of it, :class:`tacthmc.dynamics.Relaxed` keeps nothing of it;
* between modes, crossings get rarer on the way down, and at some temperature T_f they fall behind
  the sweep. From there on the modes' weights stay what they were: those of kept draws lie between
  the weights at T_f, under exp(−U/T_f), and the posterior's. No rest mends this, slower sweeps do.
  Compare weights of two periods.

ξ passes every place as fast on its way down as on its way up, so that the lags there have
opposite signs: the mean energies that the bias learns (it goes on learning, and does not act) are
right to first order in the speed, and so is :meth:`tacthmc.Run.log_evidence_ratio`.

**With breathing coordinates** (``centre=``, :mod:`tacthmc.dynamics._temperature_scaled`) θ = μ + (φ − μ)/√λ widens
as ξ goes. The friction that φ and ξ share there is left out. It takes out of r_ξ the heat that the
force's noise −b·N brings in, and none reaches a ξ that is led. Nor does φ want the other half of
it, −z_f·a·b·dξ/dk: φ alone is in a bath now, its noise is −a·N, the friction that matches is
a²z_f, θ's thermostat's, and with these exp(−λU(θ(φ, ξ))) is invariant at each ξ. The drag would
hold θ back against the widening that is the point of the coordinates: where U is quadratic
about μ, the law of φ does not depend on ξ, and without the drag θ is in equilibrium at any speed.

**Compared.** Cyclical SG-MCMC moves the step size instead of the temperature; its first steps of
a cycle are a descent, and where they end decides the weights. Replica exchange has the weights at
any speed and needs energies, and about √D replicas with a gradient each. A tempered transition
(R. M. Neal, *Sampling from multimodal distributions using tempered transitions*, Statistics and
Computing 6, 1996) is one such sweep with a Metropolis test at its end, which needs exact energies.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._typing import Number, Scalar
from tacthmc.dynamics._bias import Bias, FrozenBias, LiteralAdaptiveBiasingForce, Metadynamics
from tacthmc.dynamics._coupling import Coupling

LEAST_GLIDE = 10
"""Steps; with fewer, ξ may pass the outer tenth of its way between two of them."""


class Sweep(eqx.Module):
    """ξ as a periodic function of the step count, for :func:`tacthmc.tact`; see the module.

    One period is a rest on the plateau, then the way to the wall and back.

    >>> import tacthmc
    >>> sampler = tacthmc.tact(0.01, sweep=Sweep(period=40, rest=0.5, start=100))
    >>> [round(float(sampler.sweep.at(k, sampler.coupling)[0]), 3) for k in (0, 119, 125, 130, 140)]
    [0.0, 0.0, 1.0, 1.667, 0.0]
    """

    period: Number
    rest: Number
    start: Number

    def __init__(self, period: int, rest: float = 0.5, start: int = 0):
        """Sweep every ``period`` steps, resting at ξ = 0 for the share ``rest`` of them.

        ``start`` more steps of rest come before the first period.
        """
        checks.whole("period", period, 1)
        checks.within("rest", rest, 0.0, 1.0)
        checks.whole("start", start, 0)
        if (1 - rest) * period < LEAST_GLIDE:
            raise ValueError(
                f"period and rest must leave {LEAST_GLIDE} steps or more for the way to the wall"
                f" and back; got {(1 - rest) * period:g} of period={period} and rest={rest}"
            )
        self.period, self.rest, self.start = period, rest, start

    def since_trip(self, step: Any) -> Array:
        """Steps since ξ came back from its last trip; very many where it was on none yet."""
        step = jnp.asarray(step)
        period, start = (jnp.asarray(x).astype(step.dtype) for x in (self.period, self.start))
        gone = jnp.maximum(step - start, 0)
        return jnp.where(gone < period, jnp.iinfo(step.dtype).max, jax.lax.rem(gone, period))

    def at(self, step: Any, coupling: Coupling, ahead: float = 0.0) -> tuple[Scalar, Scalar]:
        """ξ and dξ/dk at ``step`` + ``ahead``, 0 ≤ ahead < 1."""
        step = jnp.asarray(step)
        plateau, wall = (jnp.asarray(x).astype(float) for x in (coupling.plateau, coupling.wall))
        period, start = (jnp.asarray(x).astype(step.dtype) for x in (self.period, self.start))
        # Whole numbers first: a long run's step count is none in single precision.
        phase = jax.lax.rem(jnp.maximum(step - start, 0), period).astype(float) + ahead
        resting = jnp.asarray(self.rest).astype(float) * period.astype(float)
        half = 0.5 * (period.astype(float) - resting)
        q = (phase - resting) / half
        glides = (step >= start) & (q >= 0)
        height = 1 - jnp.abs(1 - q)
        xi = jnp.where(glides, plateau + (wall - plateau) * height, 0)
        speed = jnp.where(q < 1, wall - plateau, plateau - wall) / half
        return xi, jnp.where(glides, speed, 0)


def check_sweep(sweep: Sweep, coupling: Coupling | None, bias: Bias, idle: dict[str, Any]) -> None:
    """Refuse what does nothing where ξ is led: ``idle`` has the settings that would."""
    checks.instance("sweep", sweep, Sweep, "a tacthmc.dynamics.Sweep")
    if coupling is None:
        raise ValueError("sweep is for tempered samplers: without a coupling there is no ξ to lead")
    for name, value in idle.items():
        if value is not None:
            raise ValueError(
                f"{name} does nothing with a sweep, which prescribes ξ's path; got {value!r},"
                " expected none"
            )
    learns = bias.inner if isinstance(bias, FrozenBias) else bias
    if isinstance(learns, Metadynamics | LiteralAdaptiveBiasingForce):
        raise ValueError(
            "bias must be AdaptiveBiasingForce() or NoBias() with a sweep: of where ξ was led"
            f" {type(learns).__name__} learns nothing"
        )
