r"""A first step size, from the curvature of the energy and the noise of its gradient at one place.

The curvature limits η by stability. The noise limits it by what a friction for each coordinate
(:class:`tacthmc.dynamics.AutomaticThermostat`) cannot balance. Let V be the covariance of the noise
of the force, and F the diagonal matrix of the variances that determine the frictions: those of
coordinates, or the mean over a large leaf. A direction u, in coordinates scaled by the frictions
Z = c + ηF/2, has the temperature

.. math:: 1 + \tfrac{\eta}{2}\, u^\top Z^{-1/2} (V - F) Z^{-1/2} u

which is 1 in all directions if noise is not correlated. η is so small that no direction exceeds 1
by more than a tenth, and that no friction ηF/2 is above one half. (A variance of a coordinate is
then wrong by less than that tenth, because its own mean is right.) Without a thermostat, with a
constant friction c, all noise heats, and ηv/(2c) has to be small for the noisiest direction.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacthmc._positions import dimension, scalar_dtype
from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics import AutomaticThermostat
from tacthmc.potentials._base import Potential
from tacthmc.tuning import _friction as friction
from tacthmc.tuning._bursts import estimates
from tacthmc.tuning._curvature import largest_curvature
from tacthmc.tuning._spectrum import spectrum

ETA_CURVATURE = 0.1
"""η times the largest curvature. 0.1 is well within the stability limit of the splitting, 4."""
MAX_NOISE_FRICTION = 0.5
"""The largest friction from the noise of the force, ηv/2."""
MAX_EXCESS = 0.1
"""The largest relative excess temperature of a direction."""
ESTIMATES, MAX_NUMBERS, LEAST_ESTIMATES = 1024, 1 << 24, 64
"""The number of gradients that measure the noise, the most numbers in them, and the smallest."""


class FirstStep(NamedTuple):
    """A step size, and where it comes from."""

    eta: float
    reason: str


def first_step_size(
    key: PRNGKey,
    potential: Potential,
    position: Position,
    noise: float = 0.1,
    *,
    constant_friction: float | None = None,
) -> FirstStep:
    """An untuned first guess of η at a position, and the reason.

    ``noise`` is the injected noise c. ``constant_friction`` is the friction of a sampler without a
    thermostat, in which all noise of the force heats.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 50.0 * jnp.sum(x**2))
    >>> found = first_step_size(jax.random.key(0), target, jnp.zeros(2))
    >>> round(found.eta, 6), found.reason
    (0.001, 'the curvature at the start')
    >>> rough = tacthmc.noisy(target, force=100.0)
    >>> found = first_step_size(jax.random.key(0), rough, jnp.zeros(2))
    >>> 8e-5 < found.eta < 12e-5, found.reason
    (True, 'the noise of the gradient at the start')
    """
    first, second = jax.random.split(key)
    curvature = largest_curvature(first, potential, position)
    if not np.isfinite(curvature) or curvature <= 0:
        raise ValueError(
            "no step size can be guessed: the curvature of the energy at the starting point is"
            f" {curvature}. Give step_size"
        )
    by_curvature = ETA_CURVATURE / curvature
    gradients = _noise(second, potential, position)
    if not np.any(gradients) or not np.all(np.isfinite(gradients)):
        return FirstStep(by_curvature, "the curvature at the start")
    if constant_friction is not None:
        by_noise = 2 * MAX_EXCESS * constant_friction / _top(gradients)
    elif gradients.shape[1] > friction.MAX_DENSE_DIMENSION:
        by_noise = _in_high_dimension(curvature, gradients, position, noise)
    else:
        by_noise = _by_directions(gradients, position, noise)
    if by_noise < by_curvature:
        return FirstStep(by_noise, "the noise of the gradient at the start")
    return FirstStep(by_curvature, "the curvature at the start")


def _noise(key: PRNGKey, potential: Potential, position: Position) -> Float[np.ndarray, "n d"]:
    """Estimates of the gradient less their mean; zeros if they have no noise."""
    size = dimension(position)
    count = max(min(ESTIMATES, MAX_NUMBERS // max(size, 1)), LEAST_ESTIMATES)
    stack = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), position)
    _, found = estimates(key, potential, stack, jnp.ones((), scalar_dtype(position)))
    gradients = np.asarray(found, float)
    away = gradients - gradients.mean(axis=0)
    # Without noise, rounding is left.
    scale = np.finfo(np.asarray(found).dtype).eps * np.abs(gradients).max(axis=0)
    return np.where(np.abs(away) > 16 * scale, away, 0.0)


def _top(gradients: Float[np.ndarray, "n d"]) -> float:
    return float(spectrum(gradients, 1).along[0])


def _in_high_dimension(
    curvature: float, gradients: Float[np.ndarray, "n d"], position: Position, noise: float
) -> float:
    """η by a typical direction: the noisiest one of a network would leave no step."""
    sizes = [leaf.size for leaf in jax.tree.leaves(position)]
    found = friction.force_noise(gradients, sizes)
    return friction.steps(curvature, found.per_tensor or found, c=noise).eta


def _by_directions(gradients: Float[np.ndarray, "n d"], position: Position, noise: float) -> float:
    shared = _friction_variances(np.var(gradients, axis=0, ddof=1), position)
    eta = 2 * MAX_NOISE_FRICTION / float(shared.max())
    return _largest(lambda eta: _excess(gradients, shared, eta, noise) <= MAX_EXCESS, eta)


def _friction_variances(
    variances: Float[np.ndarray, " d"], position: Position
) -> Float[np.ndarray, " d"]:
    """The variances that determine the frictions of the default thermostat."""
    default, parts, begin = AutomaticThermostat(), [], 0
    for leaf in jax.tree.leaves(position):
        part = variances[begin : begin + leaf.size]
        parts.append(np.full(leaf.size, part.mean()) if default.is_shared(leaf.size) else part)
        begin += leaf.size
    return np.concatenate(parts)


def _excess(
    gradients: Float[np.ndarray, "n d"], shared: Float[np.ndarray, " d"], eta: float, noise: float
) -> float:
    """The relative excess temperature of the hottest direction, less its statistical error."""
    weight = 0.5 * eta / np.maximum(noise + 0.5 * eta * shared, np.finfo(float).tiny)
    scaled, own = gradients * np.sqrt(weight), weight * shared
    # Found in one half and measured in the other, as in the spectrum.
    first, second = scaled[::2], scaled[1::2]
    direction = np.linalg.eigh(first.T @ first / len(first) - np.diag(own))[1][:, -1]
    along = float(np.mean((second @ direction) ** 2))
    return along / (1 + 2 * np.sqrt(2 / len(second))) - float(own @ direction**2)


def _largest(holds: Callable[[float], bool], most: float, halvings: int = 30) -> float:
    """The largest of most, most/√2, most/2, … for which something holds."""
    for power in range(2 * halvings):
        if holds(eta := most * 2 ** (-power / 2)):
            return eta
    return most * 2.0**-halvings
