"""Jumps between the modes that a search has found: their weights, and how often they succeed."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc._typing import PRNGKey
from tacthmc.diagnostics._bridge import log_mass
from tacthmc.dynamics import ModeJumps, Modes
from tacthmc.tuning._objective import Objective

JUMP_COST, RARE_JUMP_COST = 1.0, 0.2
"""The cost of jumps relative to that of steps, if attempts are often accepted and if they are not.
An accepted one makes a draw that is nearly independent of the last."""
MAX_CHEAP_ENERGY = 10.0
"""The cost of an energy of all data, in gradients of a step, up to which it is cheap."""
OFTEN = 0.3
"""The probability of acceptance from which attempts are often accepted."""
EVEN_SHARE = 0.2
"""The share of jumps whose goal is any mode with the same probability."""
MAX_DRAWS = 400
"""The largest number of draws from which jumps are tried."""
MODE_DRAWS = 32
"""The largest number of draws from the Gaussian of each mode."""
MIN_DRAWS = 4
"""The smallest number of draws of either kind."""
MIN_LEAVING = 0.003
"""The smallest probability with which an attempt has to leave a mode. Heat rarely crosses more
often than once in some thousand steps."""
MIN_ACCEPTED = 0.02
"""The smallest probability with which moves within the only mode have to be accepted."""
PRIOR_DRAWS = 4
"""The number of draws that the mean over all modes counts for in the probability of each."""
MIN_NOTABLE_WEIGHT = 0.01
"""The weight of a mode from which it counts."""


class Tried(NamedTuple):
    """Jumps with better weights, and what a trial of them gave."""

    jumps: ModeJumps
    modes: Modes
    """The modes with their estimated shares. Those of the jumps are more even."""
    leaving: float
    """The smallest probability over notable modes with which an attempt leaves a mode."""
    accepted: float
    """The mean probability that an attempt is accepted."""
    gradients: int

    @property
    def connected(self) -> bool:
        """Whether jumps leave every notable mode often enough."""
        return self.jumps.modes.count == 1 or self.leaving >= MIN_LEAVING

    @property
    def useful(self) -> bool:
        """Whether jumps are worth their energies."""
        return self.connected and self.accepted >= MIN_ACCEPTED


def tried_jumps(
    key: PRNGKey, energies: Objective, modes: Modes, draws: Float[np.ndarray, "n d"], most: float
) -> Tried:
    """Estimate the weights of the modes by bridge sampling, and try a jump from each draw.

    It takes at most about ``most`` gradients of a step.
    """
    room = most / energies.full_cost
    count = int(np.clip(room / 3, MIN_DRAWS, MAX_DRAWS))
    per_mode = int(np.clip(room / 3 / modes.count, MIN_DRAWS, MODE_DRAWS))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    some = draws[rng.permutation(len(draws))[:count]]
    here = _evaluated(energies, modes, jnp.asarray(some, modes.centers.dtype))
    normal = rng.normal(size=(per_mode, modes.centers.shape[1]))
    there = _from_modes(energies, modes, normal)
    estimated = _reweighted(modes, here, there)
    modes = _evened(estimated)
    goal = _proposals(key, modes, jnp.asarray(some, modes.centers.dtype))
    proposed = _evaluated(energies, modes, goal)
    here = here._replace(log_density=_densities(modes, jnp.asarray(some, modes.centers.dtype)))
    with np.errstate(invalid="ignore"):
        chance = np.minimum(1.0, np.exp(proposed.log_ratio - here.log_ratio))
    chance = np.where(np.isfinite(proposed.log_ratio), chance, 0.0)
    leaves = chance * (proposed.mode != here.mode)
    weights = np.exp(np.asarray(modes.log_weights, float))
    heavy = [k for k in np.flatnonzero(weights > MIN_NOTABLE_WEIGHT) if np.any(here.mode == k)]
    # A few draws of one mode say little about it, so they count beside the mean over all modes.
    overall = float(np.mean(leaves))
    leaving = [
        (float(np.sum(leaves[here.mode == k])) + PRIOR_DRAWS * overall)
        / (np.sum(here.mode == k) + PRIOR_DRAWS)
        for k in heavy
    ]
    accepted = float(np.mean(chance))
    # In the only mode, steps make draws too, and cheaper ones if energies are expensive.
    pays = modes.count > 1 or energies.full_cost <= MAX_CHEAP_ENERGY
    cost = JUMP_COST if accepted >= OFTEN and pays else RARE_JUMP_COST
    every = int(np.ceil(2 * energies.full_cost / cost))
    spent = (2 * len(some) + per_mode * modes.count) * energies.full_cost
    return Tried(
        ModeJumps(modes, every),
        estimated,
        float(min(leaving, default=0.0)),
        accepted,
        round(spent),
    )


class _Values(NamedTuple):
    energy: np.ndarray
    log_density: np.ndarray
    mode: np.ndarray

    @property
    def log_ratio(self) -> np.ndarray:
        """log(π/m), up to the constant log Z."""
        return -self.energy - self.log_density


def _evaluated(energies: Objective, modes: Modes, vectors: Float[Array, "n d"]) -> _Values:
    energy, density, mode = _all(energies, modes, vectors)
    return _Values(np.asarray(energy, float), np.asarray(density, float), np.asarray(mode))


@eqx.filter_jit
def _all(
    energies: Objective, modes: Modes, vectors: Float[Array, "n d"]
) -> tuple[Array, Array, Array]:
    return (
        jax.lax.map(energies.full, vectors),
        jax.vmap(modes.log_density)(vectors),
        jax.vmap(modes.nearest)(vectors),
    )


@eqx.filter_jit
def _mode_densities(modes: Modes, vectors: Float[Array, "n d"]) -> Float[Array, "n k"]:
    """log q_k(θ), normalized, of each mode by itself."""
    parts = jax.vmap(lambda v: modes.log_parts(modes.standardized(v)))(vectors)
    return parts - jnp.broadcast_to(modes.log_weights.astype(parts.dtype), parts.shape)


def _densities(modes: Modes, vectors: Float[Array, "n d"]) -> np.ndarray:
    return np.asarray(jax.vmap(modes.log_density)(vectors), float)


def _from_modes(
    energies: Objective, modes: Modes, normal: Float[np.ndarray, "n d"]
) -> list[_Values]:
    """Values at draws from the Gaussian of each mode, where the density is that of this mode."""
    found = []
    for k in range(modes.count):
        scale = np.asarray(modes.scales[k], float)
        vectors = np.asarray(modes.centers[k], float) + normal @ scale.T
        vectors = jnp.asarray(vectors, modes.centers.dtype)
        values = _evaluated(energies, modes, vectors)
        own = np.asarray(_mode_densities(modes, vectors), float)[:, k]
        found.append(values._replace(log_density=own))
    return found


def _reweighted(modes: Modes, here: _Values, there: list[_Values]) -> Modes:
    """The modes with the masses of their regions as weights."""
    laplace = np.asarray(modes.log_weights, float)
    log_masses = np.full(modes.count, np.nan)
    for k, values in enumerate(there):
        inside = values.mode == k
        of_q = np.where(inside, values.log_ratio, -np.inf)
        of_q = np.where(np.isnan(of_q), -np.inf, of_q)
        mine = here.mode == k
        # Inside the region of a mode its own part is nearly all of the mixture.
        of_p = here.log_ratio[mine] + laplace[k]
        log_masses[k] = log_mass(of_p[np.isfinite(of_p)], of_q).value
    known = np.isfinite(log_masses)
    if not known.any():
        return modes
    shift = np.median(log_masses[known] - laplace[known])
    log_masses = np.where(known, log_masses, laplace + shift)
    weights = np.exp(np.maximum(log_masses - log_masses.max(), -30.0))
    return Modes(modes.centers, modes.scales, weights)


def _evened(modes: Modes) -> Modes:
    """The modes with weights that are never much smaller than those of equal modes.

    The weight of a mode without draws is uncertain in many dimensions. If it came out far too
    small, no jump would ever try the mode, and nobody would notice.
    """
    weights = np.exp(np.asarray(modes.log_weights, float))
    evened = (1 - EVEN_SHARE) * weights + EVEN_SHARE / modes.count
    return Modes(modes.centers, modes.scales, evened)


@eqx.filter_jit
def _proposals(key: PRNGKey, modes: Modes, vectors: Float[Array, "n d"]) -> Float[Array, "n d"]:
    return jax.vmap(modes.proposed)(jax.random.split(key, vectors.shape[0]), vectors)
