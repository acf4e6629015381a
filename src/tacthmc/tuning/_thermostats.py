r"""Γ, the thermostats' inertia: fast enough to follow the noise, slow enough not to follow r.

A thermostat's friction fluctuates with a variance of 1/(ΓD), D the coordinates that share it, about
its mean z. Γ = 4/(Dz²) leaves that a standard deviation of z/2, and is the fastest that does.

**What a fast one does to the mean.** Mini-batches' noise is skewed: with the third cumulant κ of a
coordinate's force, N³/n² times that of the examples' gradients, a momentum has

.. math:: \mathrm{E}\,r^3 = -\frac{\eta^3\kappa}{3z}, \qquad
    \mathrm{E}[(z_t - z)\,r] = \frac{\mathrm{E}\,r^3}{\eta\,\Gamma z}

for Γ ≫ 1/z², as dz = (r² − η)/(ηΓ). A friction that is stronger on one side is a mean force, which
the energy's own has to balance,

.. math:: \mathrm{E}\,\nabla U = \frac{\eta\kappa}{3z^2\,\Gamma}

(0.4 of it was measured at Γ = 4/z², 0.9 ± 0.1 at sixteen times that). η is about z·n/N² over the
variance of an example's gradient, so that this displaces θ by about 1/(nzΓ) in its own units,
whatever N is: by more and more standard deviations as N grows. (It is 0.07 of them for a logistic
regression with N = 10⁵, n = 100, Γ = 64, and not to be seen with Γ = 1,000.)

One that many coordinates share answers to the mean over j of E[r_i r_j²] in the same way. That
is less where they are independent, and no less where one skewed number moves them all.

**What a slow one costs.** It takes zΓ steps to settle. Where chains go from mode to mode, and up
and down in temperature, noise differs and the friction has to follow; where they stay in one mode
it is nearly the same everywhere, and nothing is lost.

>>> thermostat_steps(friction=0.25, sharing=1, noisy=True, far=True)
(64.0, 'adapts fast')
>>> thermostat_steps(friction=0.25, sharing=1, noisy=True, far=False)[0]
1000.0
"""

import numpy as np

SHORTEST, LONGEST = 50.0, 1000.0
"""Γ; what takes longer settles in more than some hundred steps."""


def thermostat_steps(friction: float, sharing: int, *, noisy: bool, far: bool) -> tuple[float, str]:
    """Γ for so many coordinates that share a friction of about so much, and why.

    ``noisy`` says whether much of that is by the force's own noise, which may be skewed; ``far``
    whether chains go to places where it differs.
    """
    if noisy and not far:
        return LONGEST, "slow, since noise may be skewed and is much the same in one mode"
    return float(np.clip(4 / (sharing * friction**2), SHORTEST, LONGEST)), "adapts fast"
