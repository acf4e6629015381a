r"""The width of a mode where the Hessian at its center does not say it.

The Gaussian of a Hessian promises that the energy rises by D/2 on average at :math:`\mu + Lz` with
z ~ N(0, I). A sharp peak rises much less, and a flat bottom with steep walls much more. Then L is
multiplied by the number with which the energy rises as promised.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

PROBES = 8
"""The number of directions."""
MAX_RATIO = 20.0
"""The largest factor between the rise of the energy and that of the Gaussian that is left."""
MAX_LOG_FACTOR = 50.0
"""The largest |log| of the factor of a width."""
STEPS = 24
"""The number of bisections: to a few parts in a million."""

Energies = Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, " n"]]


def width_factor(
    energies: Energies, center: Float[np.ndarray, " d"], scale: Float[np.ndarray, "d d"]
) -> float | None:
    """The number by which to multiply a scale; None if the energy does not rise in any distance.

    >>> walls = lambda x: np.sum((x / 3.0) ** 8, axis=1)
    >>> factor = width_factor(walls, np.zeros(2), 1e18 * np.eye(2))
    >>> round(1e18 * factor)
    4
    >>> bowl = lambda x: 0.5 * np.sum(x**2, axis=1)
    >>> width_factor(bowl, np.zeros(2), np.eye(2))
    1.0
    """
    size = len(center)
    # The same directions for every mode, and each with its opposite.
    normal = np.random.default_rng(0).normal(size=(PROBES // 2, size))
    offsets = np.concatenate([normal, -normal]) @ scale.T
    bottom = float(energies(center[None])[0])

    def ratio(log_factor: float) -> float:
        """The rise of the energy over that of the Gaussian; infinite where it is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            rises = energies(center + np.exp(log_factor) * offsets) - bottom
            expected = 0.5 * np.sum((normal**2), axis=1)
        each = np.where(np.isnan(rises), np.inf, rises) / np.concatenate([expected, expected])
        return float(np.median(each))

    if 1 / MAX_RATIO < ratio(0.0) < MAX_RATIO:
        return 1.0
    low, high = (-MAX_LOG_FACTOR, 0.0) if ratio(0.0) > 1 else (0.0, MAX_LOG_FACTOR)
    if not (ratio(low) < 1 < ratio(high)):
        return None
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ratio(middle) < 1 else (low, middle)
    return float(np.exp(0.5 * (low + high)))
