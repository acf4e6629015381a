r"""Step size and injected noise, from the curvature and from the force's noise.

With friction z per step shared by all coordinates, a direction whose force noise has variance v
is heated by ηv/2 per step where the mean direction is by ηv̄/2; the thermostat settles at
z = c + ηv̄/2, and that direction's temperature comes out at

.. math:: \frac{c + \eta v/2}{c + \eta\bar v/2}.

Injected noise c hides the difference. η is the largest that keeps the largest curvature L at
ηL ≤ 0.4, the noisiest direction within a few per cent and the friction that noise makes at 0.15; c
the least that then does. (A larger one would be right for noise that is the same everywhere; that
of mini-batches is not.)

In high dimension the noisiest direction cannot decide. In a network it may be thousands of times
noisier than the mean one, and a step that has it within a few per cent is too short to move the
others. There the many decide: a direction of the noise v₀ that is left beside the noisiest may be
so much too cold,

.. math:: 1 - \frac{c + \eta v_0/2}{c + \eta\bar v/2},

and what is done for the noisiest is a linear map (:mod:`tacthmc.tuning._thin_preconditioner`). And a friction for each
tensor: the few weights of a first layer may be noisier by a hundred times than the many of a
hidden one, and settle at several times unit temperature where they share its friction. One of
their own has each tensor right in the mean; within it directions differ as before. Steps are
then as long as that allows (:mod:`tacthmc.tuning._tensors`), which is longer: with one friction most
of what makes the many too cold is the few tensors' noise.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tacthmc.tuning._spectrum import spectrum
from tacthmc.tuning._tensors import TensorNoise, along_directions, by_tensor, loudest, middle

SHARE = 0.4
"""ηL at most: the splitting is stable up to 4, its error at 0.4 a few per cent of a variance
where the energy is not quadratic, and nothing where it is."""
LOOKED_AFTER = 256
"""Dimensions up to which the noisiest direction decides."""
CROWD = 0.01
"""How much colder than the mean one a typical direction may be, where there are more."""
APART = 0.004
"""The same beside the mean of its tensor, where each tensor has a friction of its own. Less, since
other tensors' noise has no part in it: on an MLP 784-100-10 the step is the same by both rules."""
HOT = 0.1
"""How much too hot the noisiest direction has to be there to be spoken of; and the noisiest
tensor, to have a friction of its own."""
MISFIT = 0.03
"""How much hotter than the mean direction the noisiest may be."""
NOISE_FRICTION = 0.15
"""ηv̄/2 at most."""
LOUDEST_FRICTION = 1.0
"""The same in any tensor, where each has a friction of its own."""
LEAST, MOST = 0.1, 0.5
"""Injected noise."""


class Noise(NamedTuple):
    """Variances of the force's noise: the mean over coordinates, and in the noisiest direction."""

    mean: float
    top: float
    typical: float | None = None
    """That of a typical direction, where that decides: the mean over all but the noisiest, or the
    median over coordinates if that is less."""
    beside: float | None = None
    """The noise that makes the friction of the noisiest direction, where that is not the mean
    because each tensor has a friction of its own."""
    loudest: float = 0.0
    """The mean over the noisiest tensor, where there are several: what surely is."""
    apart: "Noise | None" = None
    """What decides where each tensor has a friction of its own: the middle tensor's noise, and the
    direction that is hottest beside the frictions it has."""

    def uneven(self, eta: float, c: float) -> float:
        """How many times too hot the noisiest tensor comes out with one friction for all.

        >>> Noise(mean=2.0, top=9.0, typical=1.0, loudest=9.0).uneven(eta=0.1, c=0.1)
        2.75
        """
        quiet = c + eta * self.mean / 2
        return max((c + eta * self.loudest / 2) / quiet, 1.0) if quiet > 0 else 1.0


class Steps(NamedTuple):
    """η and c, and what decided."""

    eta: float
    c: float
    why_eta: str
    why_c: str
    apart: bool = False
    """Whether they are for a friction for each tensor."""


def force_noise(gradients: Float[np.ndarray, "n d"], sizes: Sequence[int] | None = None) -> Noise:
    """From estimates at one place, or at several less their mean at each.

    ``sizes`` are those of the tensors, for the noise of each in high dimension.

    The noisiest direction is sought in one half of them and measured in the other, since in high
    dimension some direction of few samples is always noisy by chance.

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
    many = gradients.shape[1] > LOOKED_AFTER
    seen = spectrum(centered, len(centered) if many else 1)
    # Two standard errors of a variance are no excess.
    top = float(seen.along[0]) / (1 + 2 * seen.doubt)
    # Which of the two is less depends on which way the noisiest directions point.
    typical = min(seen.bulk, float(np.median(each)), mean)
    if not many:
        return Noise(mean, max(top, mean))
    if sizes is None:
        return Noise(mean, max(top, mean), typical)
    found = by_tensor(centered, sizes, seen)
    if len(found) < 2:
        return Noise(mean, max(top, mean), typical)
    beside = along_directions(found, sizes, seen)
    worst = int(np.argmax(seen.along / np.maximum(beside, np.finfo(float).tiny)))
    one = middle(found, _allowed)
    loud = loudest(found, float(np.sqrt(2 / len(centered))))
    hot = float(seen.along[worst]) / (1 + 2 * seen.doubt)
    apart = Noise(one.mean, hot, one.typical, float(beside[worst]), loud)
    return Noise(mean, max(top, mean), typical, loudest=loud, apart=apart)


def _allowed(one: TensorNoise) -> float:
    """The largest η by the noise of one tensor, with a friction of its own and the least c."""
    need = one.mean - one.typical - APART * one.mean
    by_cold = 2 * APART * LEAST / need if need > 0 else np.inf
    return min(by_cold, 2 * NOISE_FRICTION / one.mean if one.mean > 0 else np.inf)


def steps(
    curvature: float, noise: Noise, eta: float | None = None, c: float | None = None
) -> Steps:
    """The largest η that all three limits allow, and the c that it needs.

    Where the many decide that is the least c: the time in which they relax goes as c/η. For
    frictions of each tensor's own ``noise`` is :attr:`Noise.apart`.

    >>> steps(4.0, Noise(0.0, 0.0))[:2]
    (0.1, 0.1)
    >>> steps(4.0, Noise(10.0, 90.0)).why_eta
    'the noisiest direction, of variance 90 to a mean of 10, is to be no more than 3% too hot'
    >>> print(steps(4.0, Noise(10.0, 9e4, typical=2.0)).why_eta)            # doctest: +ELLIPSIS
    a typical direction, of variance 2 to a mean of 10, is to be no more than 1% too cold ...
    """
    apart = noise.beside is not None
    beside = noise.mean if noise.beside is None else noise.beside
    if noise.typical is None:
        excess, share, most = noise.top - noise.mean, MISFIT, MOST
        who, how = f"the noisiest direction, of variance {noise.top:.3g}", "hot"
    else:
        excess, share, most = noise.mean - noise.typical, APART if apart else CROWD, LEAST
        who = f"a typical direction{' of the middle tensor' * apart}"
        who, how = f"{who}, of variance {noise.typical:.3g}", "cold"
    most = most if c is None else c
    limits = {f"{SHARE:g} over the largest curvature, {curvature:.3g}": SHARE / curvature}
    if noise.mean > 0:
        what = f"the force's noise, of variance {noise.mean:.3g}, makes a friction of"
        limits[f"{what} {NOISE_FRICTION:g}"] = 2 * NOISE_FRICTION / noise.mean
    if apart and noise.loudest > 0:
        what = f"the noisiest tensor's noise, of variance {noise.loudest:.3g}, makes a friction of"
        limits[f"{what} {LOUDEST_FRICTION:g}"] = 2 * LOUDEST_FRICTION / noise.loudest
    # (excess/2)·η ≤ share·(c + η·mean/2)
    if (need := excess / 2 - share * noise.mean / 2) > 0:
        limits[
            f"{who} to a mean of {noise.mean:.3g}, is to be no more than {100 * share:g}% too {how}"
        ] = share * most / need
    why, best = min(limits.items(), key=lambda item: item[1])
    eta, why = (best, why) if eta is None else (eta, "given")
    wanted = eta * max(need, 0.0) / share
    reason = "little noise to hide" if wanted <= LEAST else "hides the noise's unequal variances"
    if noise.typical is not None and wanted > 0.99 * LEAST:
        reason = "no more, since steps are shortened instead"
    if c is None:
        c = float(np.clip(wanted, LEAST, MOST if noise.typical is None else LEAST))
    else:
        reason = "given"
    most_heated = (c + eta * noise.top / 2) / (c + eta * beside / 2)
    if noise.typical is not None and most_heated > 1 + HOT:
        why = f"{why} (the noisiest is {most_heated:.3g} times too hot)"
    return Steps(eta, c, why, reason, apart)
