r"""How large R-hat, and how small an effective sample size, may be by chance among many scalars.

If half-chains agree, the variance of their means is by chance about

.. math:: \hat R^2 - \frac{n-1}{n} \approx \frac{m}{S}\,F_{m-1,\,S-m}

for m half-chains of n draws, which have S effective draws together when differences between chains
are left out, and F with the law of Fisher. Of many scalars, the largest R-hat of a right run is
therefore well above 1.01, and the smallest of many estimates of S is well below S. The limits here
are quantiles of these laws for the number of scalars, so that a run does not fail for having many.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import fdtri, ndtri

MAX_RHAT = 1.01
"""An R-hat with which chains agree, whatever else is known."""
MIN_ESS_PER_CHAIN = 100
"""The number of effective draws per chain that a run should have."""
FALSE_ALARMS = 1e-3
"""The probability that the largest R-hat of all scalars of a right run exceeds its limit."""
ESS_SPREAD = 2.5
"""The standard deviation of the logarithm of an estimate of S, times √S, found by simulation."""


def rhat_limits(
    within: Float[np.ndarray, " k"], chains: int, draws: int, scalars: int
) -> Float[np.ndarray, " k"]:
    """The largest R-hat by chance, at least 1.01, of scalars with ``within`` effective draws.

    A scalar with few effective draws is judged as if it had those that a run should have.
    Otherwise chains that hardly move would be allowed to disagree.

    >>> import numpy as np
    >>> rhat_limits(np.array([400.0, 4000.0, 40_000.0]), 4, 1000, scalars=1000).round(3).tolist()
    [1.06, 1.01, 1.01]
    """
    parts = 2 * chains
    enough = np.fmax(within, MIN_ESS_PER_CHAIN * chains)
    rest = np.maximum(enough - parts, 1.0)
    # Location and scale of each scalar are looked at.
    quantile = fdtri(parts - 1, rest, 1 - FALSE_ALARMS / (2 * max(scalars, 1)))
    length = max(draws // 2, 1)
    return np.maximum(MAX_RHAT, np.sqrt((length - 1) / length + parts / enough * quantile))


def fewest_effective(chains: int, scalars: int) -> float:
    """The fewest effective draws of many scalars, if each has those that a run should have.

    This is the median of the smallest of so many estimates.

    >>> round(fewest_effective(4, 1)), round(fewest_effective(4, 100_000))
    (400, 230)
    """
    wanted = MIN_ESS_PER_CHAIN * chains
    deviations = -ndtri(0.5 / max(scalars, 1))
    return float(wanted * np.exp(-ESS_SPREAD * deviations / np.sqrt(wanted)))
