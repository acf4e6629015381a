r"""Step size and injected noise, from the curvature and from the noise of the force.

With a friction z per step that all coordinates share, a direction whose force noise has variance v
is heated by ηv/2 per step, while the mean direction is heated by ηv̄/2. The thermostat settles at
z = c + ηv̄/2, and the temperature of that direction is

.. math:: \frac{c + \eta v/2}{c + \eta\bar v/2}.

Injected noise c reduces the difference. η is the largest step size that keeps the largest curvature
L at ηL ≤ 0.4, the noisiest direction within a few percent, and the friction from noise at 0.15. c
is the smallest value that this η needs. (A larger η would be right for noise that is the same in
all directions, but mini-batch noise is not.)

**In high dimension** the noisiest direction cannot decide. In a network it may be thousands of
times noisier than the mean, and a step that keeps it within a few percent is too short for the
others. There a typical direction decides. It has the noise v₀ of all but the noisiest directions,
and is too cold by the share

.. math:: 1 - \frac{c + \eta v_0/2}{c + \eta\bar v/2}.

A linear map takes care of the noisiest directions (:mod:`tacthmc.tuning._low_rank_map`).

**A friction for each tensor.** The few weights of a first layer may be a hundred times noisier than
the many of a hidden layer. If they share a friction, the few are at several times unit temperature.
With one friction for each tensor, every tensor has the right temperature in the mean, and
directions differ only within tensors. Steps may then be longer (:mod:`tacthmc.tuning._tensors`):
with one friction, the noise of the few tensors is what makes the many too cold.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tacthmc.tuning._spectrum import spectrum
from tacthmc.tuning._tensors import (
    TensorNoise,
    along_directions,
    by_tensor,
    median_tensor,
    noisiest_tensor,
)

MAX_ETA_CURVATURE = 0.4
"""The largest ηL. The splitting is stable up to 4. At 0.4 its error is a few percent of a variance,
and zero for a quadratic energy."""
MAX_DENSE_DIMENSION = 256
"""The largest dimension in which the noisiest direction decides."""
MAX_HOT_SHARE = 0.03
"""The largest relative excess temperature of the noisiest direction."""
MAX_COLD_SHARE = 0.01
"""In higher dimension, the largest relative lack of temperature of a typical direction."""
MAX_TENSOR_COLD_SHARE = 0.004
"""The same within a tensor that has its own friction. It is smaller, because the noise of other
tensors does not contribute: for an MLP 784-100-10 both rules give the same step size."""
MIN_NOTABLE_HEAT = 0.1
"""The relative excess temperature from which the noisiest direction is reported, and from which the
noisiest tensor gets its own friction."""
MAX_NOISE_FRICTION = 0.15
"""The largest friction from the noise of the force, ηv̄/2."""
MAX_TENSOR_FRICTION = 1.0
"""The same for each tensor, if each has its own friction."""
MIN_INJECTED, MAX_INJECTED = 0.1, 0.5
"""The limits of injected noise c."""


class Noise(NamedTuple):
    """Variances of the noise of the force."""

    mean: float
    """The mean over coordinates."""
    top: float
    """The variance in the noisiest direction."""
    typical: float | None = None
    """The variance in a typical direction, if that decides: the mean over all but the noisiest
    directions, or the median over coordinates if that is smaller."""
    friction_noise: float | None = None
    """The noise that determines the friction of the noisiest direction, if each tensor has its own
    friction. Otherwise it is ``mean``."""
    noisiest_tensor: float = 0.0
    """The mean over the noisiest tensor, less its statistical error, if there are several."""
    per_tensor: "Noise | None" = None
    """The noise that decides if each tensor has its own friction: that of the median tensor, and of
    the direction that is hottest relative to its friction."""

    def shared_friction_heat(self, eta: float, c: float) -> float:
        """The relative temperature of the noisiest tensor with one friction for all.

        >>> noise = Noise(mean=2.0, top=9.0, typical=1.0, noisiest_tensor=9.0)
        >>> noise.shared_friction_heat(eta=0.1, c=0.1)
        2.75
        """
        quiet = c + eta * self.mean / 2
        return max((c + eta * self.noisiest_tensor / 2) / quiet, 1.0) if quiet > 0 else 1.0


class Steps(NamedTuple):
    """η and c with their reasons."""

    eta: float
    c: float
    why_eta: str
    why_c: str
    per_tensor: bool = False
    """Whether they are for a friction for each tensor."""


def force_noise(gradients: Float[np.ndarray, "n d"], sizes: Sequence[int] | None = None) -> Noise:
    """The noise from estimates of the force at one place, or at several less the mean at each.

    ``sizes`` are those of the tensors, for the noise of each in high dimension.

    The noisiest direction is found in one half of the estimates and measured in the other half,
    because in high dimension some direction of a few samples is always noisy by chance.

    >>> rng = np.random.default_rng(0)
    >>> noise = force_noise(rng.normal(size=(4000, 3)) * [1.0, 1.0, 3.0])
    >>> round(noise.mean), round(noise.top)
    (4, 8)
    """
    centered = gradients - gradients.mean(axis=0)
    each = np.mean(centered**2, axis=0) * len(centered) / (len(centered) - 1)
    mean = float(np.mean(each, dtype=float))
    if not mean > 0:
        return Noise(0.0, 0.0)
    many = gradients.shape[1] > MAX_DENSE_DIMENSION
    found = spectrum(centered, len(centered) if many else 1)
    # An excess of two standard errors does not count.
    top = float(found.along[0]) / (1 + 2 * found.doubt)
    # Which of the two is smaller depends on where the noisiest directions point.
    typical = min(found.bulk, float(np.median(each)), mean)
    if not many:
        return Noise(mean, max(top, mean))
    if sizes is None:
        return Noise(mean, max(top, mean), typical)
    tensors = by_tensor(centered, sizes, found)
    if len(tensors) < 2:
        return Noise(mean, max(top, mean), typical)
    friction_noise = along_directions(tensors, sizes, found)
    hottest = int(np.argmax(found.along / np.maximum(friction_noise, np.finfo(float).tiny)))
    median = median_tensor(tensors, _allowed)
    loud = noisiest_tensor(tensors, float(np.sqrt(2 / len(centered))))
    hot = float(found.along[hottest]) / (1 + 2 * found.doubt)
    per_tensor = Noise(median.mean, hot, median.typical, float(friction_noise[hottest]), loud)
    return Noise(mean, max(top, mean), typical, noisiest_tensor=loud, per_tensor=per_tensor)


def _allowed(one: TensorNoise) -> float:
    """The largest η for the noise of one tensor, with its own friction and the smallest c."""
    need = one.mean - one.typical - MAX_TENSOR_COLD_SHARE * one.mean
    by_cold = 2 * MAX_TENSOR_COLD_SHARE * MIN_INJECTED / need if need > 0 else np.inf
    return min(by_cold, 2 * MAX_NOISE_FRICTION / one.mean if one.mean > 0 else np.inf)


class _Misfit(NamedTuple):
    """The direction whose temperature limits the step size."""

    excess: float
    """How much its noise differs from the mean."""
    share: float
    """The largest relative error of its temperature."""
    max_injected: float
    """The largest injected noise."""
    who: str
    how: str

    def need(self, noise: Noise) -> float:
        """The limit is η·need ≤ share·c, from (excess/2)·η ≤ share·(c + η·mean/2)."""
        return self.excess / 2 - self.share * noise.mean / 2


def _misfit(noise: Noise) -> _Misfit:
    if noise.typical is None:
        who = f"the noisiest direction, of variance {noise.top:.3g}"
        return _Misfit(noise.top - noise.mean, MAX_HOT_SHARE, MAX_INJECTED, who, "hot")
    per_tensor = noise.friction_noise is not None
    share = MAX_TENSOR_COLD_SHARE if per_tensor else MAX_COLD_SHARE
    who = f"a typical direction{' of the median tensor' * per_tensor}"
    who = f"{who}, of variance {noise.typical:.3g}"
    return _Misfit(noise.mean - noise.typical, share, MIN_INJECTED, who, "cold")


def steps(
    curvature: float, noise: Noise, eta: float | None = None, c: float | None = None
) -> Steps:
    """The largest η within all limits, and the c that it needs.

    If a typical direction decides, c is the smallest allowed value, because the relaxation time
    grows as c/η. For a friction for each tensor, ``noise`` is :attr:`Noise.per_tensor`.

    >>> steps(4.0, Noise(0.0, 0.0))[:2]
    (0.1, 0.1)
    >>> steps(4.0, Noise(10.0, 90.0)).why_eta
    'the noisiest direction, of variance 90 to a mean of 10, is to be no more than 3% too hot'
    >>> print(steps(4.0, Noise(10.0, 9e4, typical=2.0)).why_eta)            # doctest: +ELLIPSIS
    a typical direction, of variance 2 to a mean of 10, is to be no more than 1% too cold ...
    """
    misfit = _misfit(noise)
    limits = _limits(curvature, noise, misfit, misfit.max_injected if c is None else c)
    why, best = min(limits.items(), key=lambda item: item[1])
    eta, why = (best, why) if eta is None else (eta, "given")
    c, reason = _injected(eta, noise, misfit) if c is None else (c, "given")
    friction_noise = noise.mean if noise.friction_noise is None else noise.friction_noise
    heat = (c + eta * noise.top / 2) / (c + eta * friction_noise / 2)
    if noise.typical is not None and heat > 1 + MIN_NOTABLE_HEAT:
        why = f"{why} (the noisiest is {heat:.3g} times too hot)"
    return Steps(eta, c, why, reason, noise.friction_noise is not None)


def _limits(curvature: float, noise: Noise, misfit: _Misfit, injected: float) -> dict[str, float]:
    """The largest η by each limit, by the reason."""
    reason = f"{MAX_ETA_CURVATURE:g} over the largest curvature, {curvature:.3g}"
    limits = {reason: MAX_ETA_CURVATURE / curvature}
    if noise.mean > 0:
        reason = f"the noise of the force, of variance {noise.mean:.3g}, makes a friction of"
        limits[f"{reason} {MAX_NOISE_FRICTION:g}"] = 2 * MAX_NOISE_FRICTION / noise.mean
    if noise.friction_noise is not None and noise.noisiest_tensor > 0:
        reason = f"the noise of the noisiest tensor, of variance {noise.noisiest_tensor:.3g}, makes"
        reason = f"{reason} a friction of {MAX_TENSOR_FRICTION:g}"
        limits[reason] = 2 * MAX_TENSOR_FRICTION / noise.noisiest_tensor
    if (need := misfit.need(noise)) > 0:
        reason = f"{misfit.who} to a mean of {noise.mean:.3g}, is to be no more than"
        reason = f"{reason} {100 * misfit.share:g}% too {misfit.how}"
        limits[reason] = misfit.share * injected / need
    return limits


def _injected(eta: float, noise: Noise, misfit: _Misfit) -> tuple[float, str]:
    """The c that η needs, and the reason."""
    needed = eta * max(misfit.need(noise), 0.0) / misfit.share
    reason = "hides the unequal variances of the noise"
    if needed <= MIN_INJECTED:
        reason = "little noise to hide"
    if noise.typical is not None and needed > 0.99 * MIN_INJECTED:
        reason = "no more, because steps are shortened instead"
    return float(np.clip(needed, MIN_INJECTED, misfit.max_injected)), reason
