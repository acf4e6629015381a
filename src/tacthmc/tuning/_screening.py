r"""Places that the known modes do not explain, among many at which the energy is evaluated.

A minimization finds a narrow mode only from its own basin, and takes some thirty gradients to tell.
One gradient tells nearly as much. With the known modes :math:`m(\theta) = \sum_k M_k\,q_k(\theta)`
of masses M_k, the *excess* at a place is

.. math:: e(\theta) = -U(\theta) - \log m(\theta).

In the basin of an unknown mode the excess is positive, and the force :math:`-\nabla U` does not
point where :math:`\nabla\log m` does. In a heavy tail of a known mode the excess is positive, too,
but the forces agree. So places are ranked by several rules, and the best of each rule take a few
steps of a minimization. Those that then lie in a known mode are dropped, and the rest end in modes.

With n places over a region, a basin with a share p of that region is hit with the probability
:math:`1 - (1 - p)^n`. No search without knowledge of the energy does better, so n is the bound.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp

from tacthmc.tuning._mode_starts import Gaussian, over_region
from tacthmc.tuning._objective import Objective

CHUNK = 2048
"""The number of places whose gradients are computed at once."""
RULES = 3
"""The number of rankings."""
WIDTHS = (1.0, 2.0)
"""The widths of the region, relative to the spread of what is known."""


class Known(NamedTuple):
    """One known mode: a Gaussian with a mass."""

    shape: Gaussian
    log_mass: float


class Screened(NamedTuple):
    """Places from the most to the least promising, and what they cost."""

    places: Float[np.ndarray, "n d"]
    gradients: float


def screened(
    rng: np.random.Generator,
    energies: Objective,
    known: list[Known],
    prior: Gaussian | None,
    count: int,
    best: int,
    dtype: jnp.dtype,
) -> Screened:
    """The ``best`` of ``count`` places around known modes and in the prior."""
    chunks = max(1, count // CHUNK)
    kept: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    for _ in range(chunks):
        places = over_region(rng, [one.shape for one in known], prior, CHUNK)
        energy, gradient = _values(energies, jnp.asarray(places, dtype))
        score = _scores(known, places, np.asarray(energy, float), np.asarray(gradient, float))
        # A chunk keeps no more than what all chunks together may keep.
        first = _best(score, best)
        kept.append(places[first])
        scores.append(score[:, first])
    places, score = np.concatenate(kept), np.concatenate(scores, axis=1)
    return Screened(places[_best(score, best)], chunks * CHUNK * energies.part_cost)


@eqx.filter_jit
def _values(energies: Objective, places: Float[Array, "n d"]) -> tuple[Array, Array]:
    return jax.vmap(jax.value_and_grad(energies.rough))(places)


def excess(
    known: list[Known], places: Float[np.ndarray, "n d"], energy: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """−U − log m at each place; −∞ where U is not finite."""
    log_m = logsumexp(_log_parts(known, places)[0], axis=0)
    return np.where(np.isfinite(energy), -energy - log_m, -np.inf)


def _log_parts(
    known: list[Known], places: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, "k n"], Float[np.ndarray, "k n d"]]:
    """log(M_k·q_k), and its gradient in the coordinates of mode k, which is −z."""
    parts, standardized = [], []
    for one in known:
        scale = one.shape.scale
        z = np.linalg.solve(scale, (places - one.shape.center).T).T
        volume = np.log(np.diag(scale)).sum() + 0.5 * places.shape[1] * np.log(2 * np.pi)
        parts.append(one.log_mass - volume - 0.5 * np.sum(z * z, axis=1))
        standardized.append(z)
    return np.stack(parts), np.stack(standardized)


def _scores(
    known: list[Known],
    places: Float[np.ndarray, "n d"],
    energy: Float[np.ndarray, " n"],
    gradient: Float[np.ndarray, "n d"],
) -> Float[np.ndarray, "rules n"]:
    """A ranking by each rule; places without excess come last in all."""
    parts, z = _log_parts(known, places)
    over = np.where(np.isfinite(energy), -energy - logsumexp(parts, axis=0), -np.inf)
    nearest = np.argmax(parts, axis=0)
    toward = -z[nearest, np.arange(len(places))]
    scales = np.stack([one.shape.scale for one in known])[nearest]
    force = -np.einsum("nij,ni->nj", scales, gradient)
    lengths = np.linalg.norm(force, axis=1) * np.linalg.norm(toward, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        away = 1 - np.where(lengths > 0, np.sum(force * toward, axis=1) / lengths, 1.0)
    away = np.where(np.isfinite(away), away, 0.0)
    unknown = over > 0
    rules = (over, np.log1p(np.maximum(over, 0)) * away, -energy)
    return np.stack([np.where(unknown, rule, -np.inf) for rule in rules])


def _best(score: Float[np.ndarray, "rules n"], count: int) -> np.ndarray:
    """The numbers of the best places, in turns by each rule; none without excess."""
    orders = [np.argsort(-rule, kind="stable") for rule in score]
    turns = np.stack(orders, axis=1).ravel()
    _, first = np.unique(turns, return_index=True)
    chosen = turns[np.sort(first)]
    return chosen[np.isfinite(score[0][chosen])][:count]
