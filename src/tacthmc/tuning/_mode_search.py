"""The search for modes: minimization from over-dispersed starts, and a Gaussian at each minimum.

Starts come in rounds, from widened Gaussians of the modes that are known so far, from a Gaussian of
the prior, if the potential knows it, and in single directions from the heaviest mode
(:mod:`tacthmc.tuning._mode_starts`). The search ends when a round finds nothing new. The share
of starts that ended in a mode that no other start found estimates the probability that the next
start finds a new mode (Good and Turing); it goes with the result.

Reference: I. Good. *The population frequencies of species and the estimation of population
parameters.* Biometrika 1953.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.linalg import solve_triangular

from tacthmc import _checks as checks
from tacthmc._positions import dimension, finite, scalar_dtype
from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics import Modes
from tacthmc.potentials import Potential, StreamedPosterior
from tacthmc.potentials._base import innermost
from tacthmc.run._start import trace_once
from tacthmc.tuning._curvature import NO_SECOND_DERIVATIVE
from tacthmc.tuning._minimize import MAX_ITERATIONS, Minima, minimize
from tacthmc.tuning._mode_gaussian import (
    MAX_NEWTON_DISTANCE,
    NEWTON_STEPS,
    gaussian_at_minimum,
    scale_of_hessian,
    uneven_units,
)
from tacthmc.tuning._mode_starts import Gaussian, around_modes, around_start, single_directions
from tacthmc.tuning._mode_width import width_factor
from tacthmc.tuning._objective import Objective, objective, prior_energy
from tacthmc.tuning._screening import Known, excess, screened

ROUND_STARTS = 64
"""The number of starts in a round."""
MAX_ROUNDS = 64
"""The largest number of rounds."""
MAX_DIMENSION = 2048
"""The largest dimension in which curvatures are computed in all directions."""
MAX_MODES = 256
"""The largest number of modes in a list."""
MAX_SCALE_NUMBERS = 1 << 23
"""The largest number of values in the scales of all modes."""
MAX_DIRECTIONS = 32
"""The largest dimension in which starts go in single directions."""
SCREEN_PLACES, MIN_SCREEN_PLACES = 1 << 14, 1 << 11
"""The number of places of a screening, and the smallest one that is worth it."""
SCREEN_BEST, SCREEN_STEPS = 512, 5
"""The number of places of a screening that are minimized, and of their first steps."""
CANDIDATE_GRADIENTS = 6_000
"""About what these minimizations take."""
MIN_EXCESS = 1.0
"""The smallest excess, in units of kT, of a place that known modes do not explain."""
MAX_NEWTON_STEP = 3.0
"""The largest length of a Newton step per √D, in standard deviations given the part of the data."""
SAME_MODE = 1.0
"""The largest Mahalanobis distance between minima that count as one mode. Two equal Gaussians have
two minima from a distance of 2."""
MAX_FAILURES = 16
"""The largest number of ends in a round that are examined and turn out not to be modes."""
QUIET_ROUNDS, FAILED_ROUNDS = 10, 3
"""The number of rounds without a new mode that ends a search, and that without any mode."""
MANY_ROUNDS, MANY_UNSEEN = 3, 0.3
"""The number of rounds after which a search is given up if so many starts find new modes."""
MAX_UNSEEN = 0.03
"""The probability of a new mode in the next start at which a search is exhaustive."""
MIN_ENDED = 0.7
"""The smallest share of starts that has to end in a mode for that."""
MAX_ELSEWHERE = 256
"""The largest number of ends that are kept and are no modes."""
MIN_LOG_WEIGHT = float(np.log(1e-9))
"""The smallest logarithm of the weight of a mode that is kept, relative to the heaviest."""


class Found(NamedTuple):
    """One mode."""

    center: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, "d d"]
    """The Cholesky factor of the inverse Hessian."""
    energy: float
    """U of all data at the center."""
    end: Float[np.ndarray, " d"]
    """The end of the minimization that found it, with the energy of a part of the data."""

    @property
    def log_mass(self) -> float:
        """The logarithm of ∫exp(−U) over the mode by Laplace's approximation."""
        size = len(self.center)
        volume = np.log(np.diag(self.scale)).sum() + 0.5 * size * np.log(2 * np.pi)
        return float(volume - self.energy)

    def distance(self, difference: Float[np.ndarray, " d"]) -> float:
        """The length of a difference in standard deviations of the mode."""
        solved = solve_triangular(self.scale, difference, lower=True, check_finite=False)
        return float(np.linalg.norm(solved))


class Search(NamedTuple):
    """The result of a search."""

    found: list[Found]
    hits: list[int]
    """The number of starts that ended in each mode."""
    starts: int
    rounds: int
    gradients: int
    why_not: str = ""
    """Why there was no search, or why it ended early."""
    elsewhere: tuple[tuple[float, Float[np.ndarray, " d"]], ...] = ()
    """Ends of minimizations that are no isolated minima, as on a ridge, with their energies."""

    @property
    def ended(self) -> float:
        """The share of starts that ended in a mode of the list."""
        return sum(self.hits) / max(self.starts, 1)

    @property
    def unseen(self) -> float:
        """The estimated probability that the next start finds a new mode."""
        return sum(hits == 1 for hits in self.hits) / max(self.starts, 1)

    @property
    def exhaustive(self) -> bool:
        """Whether nearly all starts ended in modes that several starts found."""
        few = self.unseen <= MAX_UNSEEN and self.ended >= MIN_ENDED
        return bool(self.found) and few and not self.why_not

    def modes(self, dtype: Any) -> Modes:
        """The modes that weigh enough, with their Laplace weights, from the heaviest."""
        masses = np.array([one.log_mass for one in self.found])
        order = [i for i in np.argsort(-masses) if masses[i] - masses.max() > MIN_LOG_WEIGHT]
        order = order[:MAX_MODES]
        return Modes(
            jnp.asarray(np.stack([self.found[i].center for i in order]), dtype),
            jnp.asarray(np.stack([self.found[i].scale for i in order]), dtype),
            jnp.asarray(np.exp(masses[order] - masses.max()), dtype),
        )


def search_modes(
    key: PRNGKey, potential: Potential, starts: Position, max_gradients: float
) -> Search:
    """Search for modes with at most about ``max_gradients`` gradients of a step.

    The first round begins at ``starts`` too, a stack of positions. ``tacthmc.tact()`` does this
    before it samples; by itself it says where modes are and how many starts ended in each.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> wells = tacthmc.potential(lambda x: jnp.sum(8.0 * (x**2 - 1.0) ** 2))
    >>> found = search_modes(jax.random.key(0), wells, jnp.full((1, 1), 0.5), 5_000)
    >>> sorted(float(one.center.round(2)[0]) for one in found.found), found.exhaustive
    ([-1.0, 1.0], True)
    """
    key = checks.key("key", key)
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.positive("max_gradients", max_gradients)
    starts = finite(starts, "starts")
    if any(not leaf.shape or not leaf.shape[0] for leaf in jax.tree.leaves(starts)):
        shapes = jax.tree.map(jnp.shape, starts)
        raise ValueError(
            f"starts must be a stack of positions, with a leading axis on every leaf; got {shapes}"
        )
    like = jax.tree.map(lambda x: x[0], starts)
    if not isinstance(innermost(potential), StreamedPosterior):
        trace_once(potential, like)
    if (why_not := _reason_against(potential, like)) is not None:
        return Search([], [], 0, 0, 0, why_not)
    key, now = jax.random.split(key)
    energies = objective(now, potential, like)
    if not _has_curvature(energies, jax.tree.map(lambda x: x[0], starts)):
        return Search([], [], 0, 0, 0, "JAX cannot differentiate the energy twice")
    given = np.unique(np.asarray(jax.vmap(energies.vector)(starts)), axis=0)
    prior = _prior_gaussian(potential, like, given[0])
    searching = _Searching(energies, max_gradients)
    for number in range(MAX_ROUNDS):
        rng = np.random.default_rng(
            np.asarray(jax.random.key_data(jax.random.fold_in(key, number)))
        )
        begin = searching.starts(rng, given, prior, number == 0)
        before = len(searching.found)
        searching.round(begin)
        if searching.is_over(len(searching.found) - before) and not searching.screen(rng, prior):
            break
    return searching.result()


def _reason_against(potential: Potential, like: Position) -> str | None:
    """Why modes cannot be searched for, or None."""
    if not potential.traits.has_energy:
        return "the potential has no energy of all data"
    size = dimension(like)
    if size > MAX_DIMENSION:
        return f"{size:,} dimensions are too many for the curvature in all directions"
    return None


def _has_curvature(energies: Objective, position: Position) -> bool:
    """Whether the energy has second derivatives; models with a custom gradient may have none."""
    try:
        jax.eval_shape(jax.hessian(energies.rough), energies.vector(position))
    except NO_SECOND_DERIVATIVE:
        return False
    return True


class _Searching:
    """The state of a search."""

    def __init__(self, energies: Objective, max_gradients: float):
        self.energies, self.max_gradients = energies, max_gradients
        self.found: list[Found] = []
        self.hits: list[int] = []
        self.count, self.rounds, self.gradients, self.why_not = 0, 0, 0.0, ""
        self.quiet_rounds = 0
        self.elsewhere: list[tuple[float, np.ndarray]] = []
        self.queue = np.zeros((0, dimension(energies.like)))
        """Planned starts."""
        self.searched: set[int] = set()
        """The modes from which single directions were searched."""
        self.dtype = scalar_dtype(energies.like)
        self.units = np.ones(dimension(energies.like))
        """The units of the coordinates in minimizations."""
        self.first_units = self.units
        """The same at the first start."""

    def starts(
        self, rng: np.random.Generator, given: np.ndarray, prior: Gaussian | None, first: bool
    ) -> np.ndarray:
        """The starts of a round."""
        parts = [given[: ROUND_STARTS // 4]] if first else []
        # Half of a round asks whether modes differ in one direction.
        parts.append(self.queue[: ROUND_STARTS // 2])
        self.queue = self.queue[ROUND_STARTS // 2 :]
        if prior is not None:
            room = (ROUND_STARTS - len(parts[-1])) // 2
            parts.append(prior.draw(rng, np.resize([1.0, 2.0], room)))
        left = ROUND_STARTS - sum(map(len, parts))
        if self.found:
            known = [Gaussian(one.center, one.scale) for one in self.found]
            parts += around_modes(rng, known, left)
        else:
            # No mode gives a scale yet. (A start may be a saddle point, such as zero.)
            hessian = self._hessian_at(given[0])
            self.units = self.first_units = uneven_units(np.diag(hessian))
            parts.append(around_start(rng, given[0], hessian, left))
        return np.concatenate(parts)

    def _hessian_at(self, vector: np.ndarray) -> np.ndarray:
        self.gradients += len(vector) * self.energies.part_cost
        return np.asarray(_hessian(self.energies, jnp.asarray(vector, self.dtype)), float)

    def _queue_directions(self) -> None:
        """Plan starts in single directions from the heaviest mode, if it is a new one."""
        heaviest = int(np.argmax([one.log_mass for one in self.found]))
        size = len(self.found[0].center)
        if heaviest in self.searched or len(self.searched) >= 2 or size > MAX_DIRECTIONS:
            return
        self.searched.add(heaviest)
        one = self.found[heaviest]
        self.queue = np.concatenate([self.queue, single_directions(one.center, one.scale)])

    def round(self, starts: np.ndarray) -> None:
        """Minimize from each start, and add what is new to the list."""
        self.rounds += 1
        ends, energies, evaluations = self._minimized(starts[:ROUND_STARTS])
        # A start where the posterior is zero says nothing about its modes.
        self.count += int(np.sum(np.isfinite(energies) | (evaluations > 1)))
        failed = 0
        for i in np.argsort(energies):
            if not np.isfinite(energies[i]) or not np.isfinite(ends[i]).all():
                continue
            known = self._known(ends[i])
            if known is None and failed < MAX_FAILURES:
                known = self._added(ends[i])
                failed += known is None
            if known is not None:
                self.hits[known] += 1
            elif len(self.elsewhere) < MAX_ELSEWHERE:
                self.elsewhere.append((float(energies[i]), ends[i]))

    def screen(self, rng: np.random.Generator, prior: Gaussian | None) -> bool:
        """Look for modes where known ones do not explain the energy; whether there are new ones."""
        before = len(self.found)
        if self.why_not or not self.found or dimension(self.energies.like) > MAX_DIRECTIONS:
            return False
        while len(self.found) == before:
            room = (self.max_gradients - self.gradients) / self.energies.part_cost
            room -= CANDIDATE_GRADIENTS
            if room < MIN_SCREEN_PLACES:
                break
            self._screen_once(rng, prior, min(SCREEN_PLACES, int(room)))
        return len(self.found) > before

    def _screen_once(self, rng: np.random.Generator, prior: Gaussian | None, count: int) -> None:
        known = [Known(Gaussian(one.center, one.scale), one.log_mass) for one in self.found]
        places, spent = screened(rng, self.energies, known, prior, count, SCREEN_BEST, self.dtype)
        self.gradients += spent
        if not len(places):
            return
        # A few steps lead places in the tails of known modes into them.
        groups = [
            self._minimized(places[i : i + ROUND_STARTS], SCREEN_STEPS)
            for i in range(0, len(places), ROUND_STARTS)
        ]
        ends, energies, _ = (np.concatenate(each) for each in zip(*groups, strict=True))
        over = excess(known, ends, energies)
        left = np.flatnonzero(over > MIN_EXCESS)
        # The deepest places first, and those that known modes explain least.
        both = np.stack([left[np.argsort(energies[left])], left[np.argsort(-over[left])]], axis=1)
        chosen = list(dict.fromkeys(both.ravel().tolist()))[:ROUND_STARTS]
        if chosen:
            count, hits, rounds = self.count, list(self.hits), self.rounds
            self.round(ends[chosen])
            # These starts were chosen, so they say nothing about what others would find.
            new = len(self.hits) - len(hits)
            self.count, self.hits, self.rounds = count + new, hits + [1] * new, rounds

    def _minimized(
        self, starts: np.ndarray, iterations: int = MAX_ITERATIONS
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The ends of minimizations from up to 64 starts, their energies, and their gradients."""
        real = len(starts)
        # One shape for all rounds, so that the program is compiled once.
        padded = np.concatenate([starts, np.repeat(starts[:1], ROUND_STARTS - real, axis=0)])
        vectors, units = (jnp.asarray(x, self.dtype) for x in (padded, self.units))
        minima = _minima(self.energies, vectors, units, jnp.asarray(iterations))
        evaluations = np.asarray(minima.evaluations)[:real]
        self.gradients += float(evaluations.sum()) * self.energies.part_cost
        ends, energies = (np.asarray(x, float)[:real] for x in (minima.positions, minima.energies))
        return ends, energies, evaluations

    def _known(self, end: np.ndarray) -> int | None:
        """The mode of the list to which an end of a minimization belongs."""
        if not self.found:
            return None
        distances = [one.distance(end - one.end) for one in self.found]
        nearest = int(np.argmin(distances))
        if distances[nearest] < SAME_MODE:
            return nearest
        # A minimization may end early, and a Newton step shows where it would have gone.
        one = self.found[nearest]
        gradient = np.asarray(_rough_gradient(self.energies, jnp.asarray(end, self.dtype)), float)
        self.gradients += self.energies.part_cost
        later = end - one.scale @ (one.scale.T @ gradient)
        return nearest if one.distance(later - one.end) < SAME_MODE else None

    def _added(self, end: np.ndarray) -> int | None:
        """The number of the mode at the end of a minimization, added if it is new."""
        new = self._polished(end)
        if new is None:
            return None
        for number, one in enumerate(self.found):
            if one.distance(new.center - one.center) < SAME_MODE:
                return number
        self.found.append(new)
        self.hits.append(0)
        return len(self.found) - 1

    def _polished(self, end: np.ndarray) -> Found | None:
        """The mode at an end, by Newton steps on the energy of all data; None without one."""
        vector, size, part_cost = end, len(end), self.energies.part_cost
        dtype = self.dtype
        hessian = np.asarray(_hessian(self.energies, jnp.asarray(vector, dtype)), float)
        self.gradients += size * self.energies.part_cost
        for _ in range(NEWTON_STEPS):
            value, gradient = _value_and_grad(self.energies, jnp.asarray(vector, dtype))
            self.gradients += self.energies.full_cost
            scale = scale_of_hessian(hessian, self.first_units)
            if scale is None or not np.isfinite(gradient).all():
                return None
            z = scale.T @ np.asarray(gradient, float)
            left = float(np.sqrt(np.sum(z**2)))
            if left < MAX_NEWTON_DISTANCE:
                center, energy = vector - scale @ z, float(value) - 0.5 * float(z @ z)
                factor = width_factor(self._rough_energies, center, scale)
                if factor is None:
                    return None
                at = center if self.energies.part is None else end
                return Found(center, factor * scale, energy, at)
            # A long step would leave the region in which the Hessian holds. With a part of the
            # data, a minimum is some of its standard deviations away from that of all data.
            longest = MAX_NEWTON_STEP * np.sqrt(size * self.energies.full_cost / part_cost)
            vector = vector - scale @ z * min(1.0, longest / left)
            if self.energies.part is None:
                hessian = np.asarray(_hessian(self.energies, jnp.asarray(vector, dtype)), float)
                self.gradients += size * self.energies.part_cost
        return None

    def _rough_energies(self, vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        self.gradients += len(vectors) * self.energies.part_cost
        return np.asarray(_rough_energies(self.energies, jnp.asarray(vectors, self.dtype)), float)

    def is_over(self, new: int) -> bool:
        """Whether the search has ended after a round with ``new`` modes."""
        self.quiet_rounds = 0 if new else self.quiet_rounds + 1
        if self.found:
            self._queue_directions()
            heaviest = max(self.found, key=lambda one: one.log_mass)
            self.units = uneven_units(1 / np.sum(heaviest.scale**2, axis=1))
        self.why_not = self._why_give_up()
        if self.why_not or self.gradients > self.max_gradients:
            return True
        done = self.quiet_rounds >= QUIET_ROUNDS and not len(self.queue)
        return done and self._unseen <= MAX_UNSEEN

    @property
    def _unseen(self) -> float:
        """The estimated probability that the next start finds a new mode."""
        return sum(hits == 1 for hits in self.hits) / self.count

    def _why_give_up(self) -> str:
        """Why further rounds would not help, or nothing."""
        count = len(self.found)
        if not count:
            none = f"none of {self.count} starts ended in an isolated minimum"
            return none if self.rounds >= FAILED_ROUNDS else ""
        if count > MAX_MODES or count * len(self.found[0].center) ** 2 > MAX_SCALE_NUMBERS:
            return f"{count:,} modes were found, and there are more"
        if self.rounds >= MANY_ROUNDS and self._unseen > MANY_UNSEEN:
            return f"{self._unseen:.0%} of {self.count} starts ended in a mode of their own"
        return ""

    def result(self) -> Search:
        """The modes and what the search took."""
        return Search(
            self.found,
            self.hits,
            self.count,
            self.rounds,
            round(self.gradients),
            self.why_not,
            tuple(self.elsewhere),
        )


@eqx.filter_jit
def _minima(
    energies: Objective,
    starts: Float[Array, "n d"],
    units: Float[Array, " d"],
    iterations: Int[Array, ""],
) -> Minima:
    found = minimize(lambda z: energies.rough(units * z), starts / units[None], iterations)
    return found._replace(positions=found.positions * units[None])


@eqx.filter_jit
def _hessian(energies: Objective, vector: Float[Array, " d"]) -> Float[Array, "d d"]:
    return jax.hessian(energies.rough)(vector)


@eqx.filter_jit
def _rough_energies(energies: Objective, vectors: Float[Array, "n d"]) -> Float[Array, " n"]:
    return jax.vmap(energies.rough)(vectors)


@eqx.filter_jit
def _rough_gradient(energies: Objective, vector: Float[Array, " d"]) -> Float[Array, " d"]:
    return jax.grad(energies.rough)(vector)


@eqx.filter_jit
def _value_and_grad(energies: Objective, vector: Float[Array, " d"]) -> tuple[Array, Array]:
    return jax.value_and_grad(energies.full)(vector)


def _prior_gaussian(potential: Potential, like: Position, start: np.ndarray) -> Gaussian | None:
    """A Gaussian for the prior, from its curvature at its mode; None if it is improper."""
    energy = prior_energy(potential, like)
    return None if energy is None else gaussian_at_minimum(energy, start)
