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

and what is done for the noisiest is a frame (:mod:`tacthmc.tuning.thin`). And a friction for each
tensor: the few weights of a first layer may be noisier by a hundred times than the many of a
hidden one, and settle at several times unit temperature where they share its friction. One of
their own has each tensor right in the mean; within it directions differ as before.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tacthmc.tuning.spectrum import spectrum

SHARE = 0.4
"""ηL at most: the splitting is stable up to 4, its error at 0.4 a few per cent of a variance
where the energy is not quadratic, and nothing where it is."""
LOOKED_AFTER = 256
"""Dimensions up to which the noisiest direction decides."""
CROWD = 0.01
"""How much colder than the mean one a typical direction may be, where there are more."""
HOT = 0.1
"""How much too hot the noisiest direction has to be there to be spoken of; and the noisiest
tensor, to have a friction of its own."""
MISFIT = 0.03
"""How much hotter than the mean direction the noisiest may be."""
NOISE_FRICTION = 0.15
"""ηv̄/2 at most."""
LEAST, MOST = 0.1, 0.5
"""Injected noise."""


class Noise(NamedTuple):
    """Variances of the force's noise: the mean over coordinates, and in the noisiest direction."""

    mean: float
    top: float
    typical: float | None = None
    """That of a typical direction, where that decides: the mean over all but the noisiest, or the
    median over coordinates if that is less."""


class Steps(NamedTuple):
    """η and c, and what decided."""

    eta: float
    c: float
    why_eta: str
    why_c: str


def by_tensor(
    gradients: Float[np.ndarray, "n d"], sizes: Sequence[int]
) -> Float[np.ndarray, " tensors"]:
    """The mean variance over the coordinates of each tensor, of estimates less their mean.

    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(4000, 5)) * [1.0, 1.0, 1.0, 3.0, 3.0]
    >>> by_tensor(noise, [3, 2]).round().tolist()
    [1.0, 9.0]
    """
    each = np.mean(gradients**2, axis=0, dtype=float)
    parts = np.split(each, np.cumsum(sizes)[:-1])
    return np.array([part.mean() for part in parts if part.size])


def hottest_tensor(
    tensors: Float[np.ndarray, " tensors"], mean: float, eta: float, c: float
) -> float:
    """How many times too hot the noisiest tensor comes out where all share a friction.

    >>> hottest_tensor(np.array([1.0, 9.0]), mean=2.0, eta=0.1, c=0.1)
    2.75
    """
    quiet = c + eta * mean / 2
    return float((c + eta * np.max(tensors) / 2) / quiet) if quiet > 0 else 1.0


def force_noise(gradients: Float[np.ndarray, "n d"]) -> Noise:
    """From estimates at one place, or at several less their mean at each.

    The noisiest direction is sought in one half of them and measured in the other, since in high
    dimension some direction of few samples is always noisy by chance.

    >>> rng = np.random.default_rng(0)
    >>> noise = force_noise(rng.normal(size=(4000, 3)) * [1.0, 1.0, 3.0])
    >>> round(noise.mean), round(noise.top)
    (4, 8)
    """
    centred = gradients - gradients.mean(axis=0)
    each = np.mean(centred**2, axis=0) * len(centred) / (len(centred) - 1)
    mean = float(np.mean(each, dtype=float))
    if not mean > 0:
        return Noise(0.0, 0.0)
    many = gradients.shape[1] > LOOKED_AFTER
    seen = spectrum(centred, len(centred) if many else 1)
    # Two standard errors of a variance are no excess.
    top = float(seen.along[0]) / (1 + 2 * seen.doubt)
    # Which of the two is less depends on which way the noisiest directions point.
    typical = min(seen.bulk, float(np.median(each)), mean)
    return Noise(mean, max(top, mean), typical if many else None)


def steps(
    curvature: float, noise: Noise, eta: float | None = None, c: float | None = None
) -> Steps:
    """The largest η that all three limits allow, and the c that it needs.

    Where the many decide that is the least c: the time in which they relax goes as c/η.

    >>> steps(4.0, Noise(0.0, 0.0))[:2]
    (0.1, 0.1)
    >>> steps(4.0, Noise(10.0, 90.0)).why_eta
    'the noisiest direction, of variance 90 to a mean of 10, is to be no more than 3% too hot'
    >>> print(steps(4.0, Noise(10.0, 9e4, typical=2.0)).why_eta)            # doctest: +ELLIPSIS
    a typical direction, of variance 2 to a mean of 10, is to be no more than 1% too cold ...
    """
    if noise.typical is None:
        excess, share, most = noise.top - noise.mean, MISFIT, MOST
        who, how = f"the noisiest direction, of variance {noise.top:.3g}", "hot"
    else:
        excess, share, most = noise.mean - noise.typical, CROWD, LEAST
        who, how = f"a typical direction, of variance {noise.typical:.3g}", "cold"
    most = most if c is None else c
    limits = {f"{SHARE:g} over the largest curvature, {curvature:.3g}": SHARE / curvature}
    if noise.mean > 0:
        what = f"the force's noise, of variance {noise.mean:.3g}, makes a friction of"
        limits[f"{what} {NOISE_FRICTION:g}"] = 2 * NOISE_FRICTION / noise.mean
    # (excess/2)·η ≤ share·(c + η·mean/2)
    if (need := excess / 2 - share * noise.mean / 2) > 0:
        limits[
            f"{who} to a mean of {noise.mean:.3g}, is to be no more than {share:.0%} too {how}"
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
    hottest = (c + eta * noise.top / 2) / (c + eta * noise.mean / 2)
    if noise.typical is not None and hottest > 1 + HOT:
        why = f"{why} (the noisiest is {hottest:.3g} times too hot)"
    return Steps(eta, c, why, reason)
