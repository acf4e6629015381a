r"""Step size and injected noise, from the curvature and from the force's noise.

With friction z per step shared by all coordinates, a direction whose force noise has variance v
is heated by ηv/2 per step where the mean direction is by ηv̄/2; the thermostat settles at
z = c + ηv̄/2, and that direction's temperature comes out at

.. math:: \frac{c + \eta v/2}{c + \eta\bar v/2}.

Injected noise c hides the difference. η is the largest that keeps the largest curvature L at
ηL ≤ 0.4, the noisiest direction within a few per cent and the friction that noise makes at 0.25; c
the least that then does. (A larger one would be right for noise that is the same everywhere; that
of mini-batches is not.)

In high dimension the noisiest direction cannot decide. A network's is tens of thousands of times
noisier than its mean one, and a step that has it within a few per cent is too short to move the
others. There the many decide: a coordinate of median noise may be so much too cold,

.. math:: 1 - \frac{c + \eta v_{1/2}/2}{c + \eta\bar v/2},

and what is done for the noisiest is a frame (:mod:`tacthmc.tuning.thin`).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

SHARE = 0.4
"""ηL at most: the splitting is stable up to 4, its error at 0.4 a few per cent of a variance
where the energy is not quadratic, and nothing where it is."""
LOOKED_AFTER = 256
"""Dimensions up to which the noisiest direction decides."""
CROWD = 0.01
"""How much colder than the mean one a typical direction may be, where there are more."""
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
    """The median over coordinates, where that decides."""


class Steps(NamedTuple):
    """η and c, and what decided."""

    eta: float
    c: float
    why_eta: str
    why_c: str


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
    # Every other one, so that both halves have seen all places.
    first, second = centred[::2], centred[1::2]
    each = np.mean(centred**2, axis=0) * len(centred) / (len(centred) - 1)
    mean = float(np.mean(each, dtype=float))
    if not mean > 0:
        return Noise(0.0, 0.0)
    # The first right singular vector, by way of the smaller Gram matrix.
    if first.shape[0] < first.shape[1]:
        direction = first.T @ np.linalg.eigh((first @ first.T).astype(float))[1][:, -1]
    else:
        direction = np.linalg.eigh((first.T @ first).astype(float))[1][:, -1]
    direction /= np.linalg.norm(direction)
    top = float(np.var(second @ direction, ddof=1))
    # Two standard errors of a variance are no excess.
    top /= 1 + 2 * np.sqrt(2 / len(second))
    many = gradients.shape[1] > LOOKED_AFTER
    return Noise(mean, max(top, mean), min(float(np.median(each)), mean) if many else None)


def steps(
    curvature: float, noise: Noise, eta: float | None = None, c: float | None = None
) -> Steps:
    """The largest η that all three limits allow, and the c that it needs.

    Where the many decide that is the least c: the time in which they relax goes as c/η.

    >>> steps(4.0, Noise(0.0, 0.0))[:2]
    (0.1, 0.1)
    >>> steps(4.0, Noise(10.0, 90.0)).why_eta
    'the noisiest direction, of variance 90 to a mean of 10, is to be no more than 3% too hot'
    >>> steps(4.0, Noise(10.0, 9e4, typical=2.0)).why_eta
    'a typical coordinate, of variance 2 to a mean of 10, is to be no more than 1% too cold'
    """
    if noise.typical is None:
        excess, share, most = noise.top - noise.mean, MISFIT, MOST
        who, how = f"the noisiest direction, of variance {noise.top:.3g}", "hot"
    else:
        excess, share, most = noise.mean - noise.typical, CROWD, LEAST
        who, how = f"a typical coordinate, of variance {noise.typical:.3g}", "cold"
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
    if c is not None:
        return Steps(eta, c, why, "given")
    wanted = eta * max(need, 0.0) / share
    c = float(np.clip(wanted, LEAST, MOST))
    reason = "little noise to hide" if wanted <= LEAST else "hides the noise's unequal variances"
    return Steps(eta, c, why, reason)
