r"""The inertia Γ of thermostats: fast enough to follow the noise, slow enough not to follow r.

The friction of a thermostat fluctuates about its mean z with the variance 1/(ΓD), where D is the
number of coordinates that share it. Γ = 4/(Dz²) makes the standard deviation z/2. It is the fastest
choice with fluctuations that small.

**The error of a fast thermostat.** Mini-batch noise is skewed. With the third cumulant κ of the
force on a coordinate, N³/n² times that of the gradients of examples, a momentum has

.. math:: \mathrm{E}\,r^3 = -\frac{\eta^3\kappa}{3z}, \qquad
    \mathrm{E}[(z_t - z)\,r] = \frac{\mathrm{E}\,r^3}{\eta\,\Gamma z}

for Γ ≫ 1/z², because dz = (r² − η)/(ηΓ). A friction that is stronger on one side is a mean force,
which the force of the energy has to balance:

.. math:: \mathrm{E}\,\nabla U = \frac{\eta\kappa}{3z^2\,\Gamma}

(0.4 of this was measured at Γ = 4/z², and 0.9 ± 0.1 at sixteen times that Γ). η is about z·n/N²
over the variance of the gradient of an example. So the displacement of θ is about 1/(nzΓ) in its
own units for any N, which is more and more standard deviations as N grows. (For a logistic
regression with N = 10⁵, n = 100 and Γ = 64 it is 0.07 of them, and with Γ = 1,000 it is not
detectable.)

A thermostat that many coordinates share responds to the mean over j of E[r_i r_j²] in the same way.
That mean is smaller if the coordinates are independent, but not if one skewed number moves all.

**The cost of a slow thermostat.** It takes zΓ steps to settle. If chains move between modes and
temperatures, the noise changes and the friction has to follow. If they stay in one mode, the noise
is nearly the same everywhere, and nothing is lost.

>>> thermostat_steps(friction=0.25, sharing=1, noisy=True, changes_modes=True)
(64.0, 'adapts fast')
>>> thermostat_steps(friction=0.25, sharing=1, noisy=True, changes_modes=False)[0]
1000.0
"""

import numpy as np

MIN_STEPS, MAX_STEPS = 50.0, 1000.0
"""The limits of Γ. A larger one takes more than some hundred steps to settle."""


def thermostat_steps(
    friction: float, sharing: int, *, noisy: bool, changes_modes: bool
) -> tuple[float, str]:
    """Γ for ``sharing`` coordinates with a friction of about ``friction``, and the reason.

    ``noisy`` says whether the noise of the force, which may be skewed, makes much of the friction.
    ``changes_modes`` says whether chains move to places where the noise differs.
    """
    if noisy and not changes_modes:
        return MAX_STEPS, "slow, because noise may be skewed and is nearly constant in one mode"
    return float(np.clip(4 / (sharing * friction**2), MIN_STEPS, MAX_STEPS)), "adapts fast"
