r"""The base of a path, and the shapes of the densities on it.

The base is the prior where it is known to be a Gaussian. If it is improper or far too wide, or if
there is none, it is a Gaussian with the mean and covariance of the modes, plus the covariance of
the widest mode. It also covers the places where minimizations ended without a mode, as on a ring.
The barrier between two Gaussians in D dimensions that differ in width by a factor w is

.. math:: \Lambda \approx \sqrt{2D/\pi}\,\log w,

so that a Gaussian is widened by the factor that adds ½ to the barrier. Where draws of the posterior
turn out to be wider than that, as in a banana, it is widened again in those directions.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import eigh, solve_triangular

from tacthmc._positions import dimension, flatten, scalar_dtype, unflatten
from tacthmc._typing import Position
from tacthmc.potentials import Potential
from tacthmc.samplers._gaussian_reference import GaussianReference
from tacthmc.tuning._mode_gaussian import gaussian_at_minimum
from tacthmc.tuning._mode_search import MAX_DIMENSION, Found, Search
from tacthmc.tuning._mode_starts import Gaussian
from tacthmc.tuning._objective import prior_energy

WIDENING_BARRIER, MAX_WIDENING = 0.5, 3.0
"""What widening adds to the barrier, and its largest factor."""
MAX_DENSE_DIMENSION = 256
"""The largest dimension in which scales of steps have all correlations."""
MIN_WIDER = 1.2
"""The smallest ratio of variances for which a base is widened again."""
LAST_PART = 1 / 9
"""The last λ where exp(−U0) cannot be normalized."""
MAX_PRIOR_BARRIER = 6.0
"""The barrier between a prior and a Gaussian of the modes from which the prior is far too wide."""
MAX_RISE, MAX_REACH = 10.0, 100.0
"""The energy above the lowest one, besides D, up to which a base covers the end of a minimization,
and the largest factor by which that widens it."""
FAR = 1e6
"""How far away an energy is asked whether it still changes."""
SPREADS, MAX_GAUSSIAN_ERROR, ROUNDING = (0.5, 1.0, 2.0, 3.0), 1e-3, 1e-5
"""The distances at which an energy is compared with that of a Gaussian, in standard deviations, the
largest difference, and that from rounding, relative to the energy."""


class Base(NamedTuple):
    """The density at λ = 0."""

    gaussian: GaussianReference | None
    """The Gaussian that it is, if it is one."""
    covariance: Float[np.ndarray, "d d"] | Float[np.ndarray, " d"] | None
    """The covariance, or variances, of that Gaussian or of its mode; None without a mode."""
    of_potential: bool
    """Whether it belongs to the potential, or was given."""
    adapts: bool
    """Whether it may be widened to cover draws."""
    why: str
    widened: float = 1.0
    """The factor by which draws have widened it in one direction or more."""

    @property
    def reason(self) -> str:
        """Where it comes from, in words."""
        if self.widened == 1.0:
            return self.why
        return f"{self.why}, and {self.widened:.2g} times wider where draws are"

    @property
    def last(self) -> float:
        """The last λ of a ladder: 0 if exp(−U0) can be normalized."""
        return 0.0 if self.covariance is not None else LAST_PART

    def covering(self, draws: Float[np.ndarray, "n d"], effective: float) -> "Base":
        """The base after widening it in directions in which draws are wider.

        ``effective`` is the number of independent draws that they are worth.
        """
        if not self.adapts or self.gaussian is None or self.covariance is None:
            return self
        size = draws.shape[1]
        # Sampling errors alone widen the widest direction by this factor.
        noise = (1 + np.sqrt(size / max(effective, 1.0))) ** 2
        return self._over(draws, widening(size) ** 2 / noise, np.inf)

    def covering_places(self, places: Float[np.ndarray, "n d"]) -> "Base":
        """The base after widening it in directions in which these places are farther away."""
        if not len(places) or not self.adapts:
            return self
        return self._over(places, widening(places.shape[1]) ** 2, MAX_REACH**2)

    def _over(self, places: Float[np.ndarray, "n d"], factor: float, most: float) -> "Base":
        """The base, where variances are at least those of places times a factor."""
        assert self.gaussian is not None
        assert self.covariance is not None
        away = places - np.asarray(self.gaussian.mean, float)
        if self.covariance.ndim == 1:
            ratios = np.minimum(factor * np.mean(away**2, axis=0) / self.covariance, most)
            wider = self.covariance * np.maximum(ratios, 1.0)
        else:
            ratios, vectors = eigh(away.T @ away / len(away), self.covariance)
            ratios = np.minimum(factor * ratios, most)
            # The eigenvectors V have VᵀCV = 1, so that C = (CV)(CV)ᵀ.
            sides = self.covariance @ vectors
            wider = (sides * np.maximum(ratios, 1.0)) @ sides.T
        largest = ratios.max()
        if largest < MIN_WIDER:
            return self
        return self._replace(
            gaussian=_reference(np.asarray(self.gaussian.mean, float), wider),
            covariance=wider,
            widened=self.widened * float(np.sqrt(largest)),
        )


def widening(dimension: int) -> float:
    """The factor by which a Gaussian of modes is widened.

    >>> [round(widening(size), 2) for size in (1, 16, 400)]
    [1.87, 1.17, 1.03]
    """
    return float(min(np.exp(WIDENING_BARRIER / np.sqrt(2 * dimension / np.pi)), MAX_WIDENING))


def base_of_modes(found: list[Found]) -> Base:
    """A Gaussian that covers all modes."""
    centers = np.stack([one.center for one in found])
    count, size = centers.shape
    widest = max(found, key=lambda one: float(np.log(np.diag(one.scale)).sum()))
    covariance = widest.scale @ widest.scale.T
    if count > 1:
        away = centers - centers.mean(axis=0)
        # The covariance of another center from the same law, about the mean of these.
        covariance = covariance + away.T @ away / count * (count + 1) / (count - 1)
    factor = widening(size)
    modes = f"of {count} modes" if count > 1 else "of the only mode"
    return Base(
        _reference(centers.mean(axis=0), factor**2 * covariance),
        factor**2 * covariance,
        of_potential=False,
        adapts=True,
        why=f"a Gaussian {modes}, {factor:.2g} times wider",
    )


def base_around(center: Float[np.ndarray, " d"], variance: float) -> Base:
    """A round Gaussian around the place where chains start."""
    size = len(center)
    covariance = variance * (np.eye(size) if size <= MAX_DENSE_DIMENSION else np.ones(size))
    why = "a Gaussian around the start"
    return Base(_reference(center, covariance), covariance, False, True, why)


def base_of_draws(draws: Float[np.ndarray, "n d"], temperature: float) -> Base:
    """A Gaussian that covers draws at a temperature."""
    count, size = draws.shape
    factor = widening(size)
    if size <= MAX_DENSE_DIMENSION and count > 2 * size:
        covariance = factor**2 * np.atleast_2d(np.cov(draws.T))
    else:
        covariance = factor**2 * draws.var(axis=0)
    why = f"a Gaussian of draws at temperature {temperature:g}, {factor:.2g} times wider"
    return Base(_reference(draws.mean(axis=0), covariance), covariance, False, True, why)


def base_of_energy(
    energy: Callable[[Array], Array], start: Float[np.ndarray, " d"], what: str, given: bool
) -> Base | None:
    """The base exp(−energy), or a Gaussian at its mode if it need not be exact.

    None if it has no mode, so that it cannot be normalized.
    """
    if len(start) > MAX_DIMENSION:
        return None
    found = gaussian_at_minimum(energy, start)
    if found is None:
        return None
    covariance = found.scale @ found.scale.T
    exact = is_gaussian(energy, found)
    gaussian = _reference(found.center, covariance) if exact or not given else None
    why = what if exact or given else f"a Gaussian at the mode of {what}"
    return Base(gaussian, covariance, given, adapts=not exact and not given, why=why)


def is_gaussian(energy: Callable[[Array], Array], found: Gaussian) -> bool:
    """Whether an energy is that of a Gaussian, as far as a few places tell."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(len(SPREADS), len(found.center))) * np.array(SPREADS)[:, None]
    places = np.concatenate([found.center[None], found.center + normal @ found.scale.T])
    values = np.asarray(jax.vmap(energy)(jnp.asarray(places, jnp.float32)), float)
    expected = 0.5 * np.sum(normal**2, axis=1)
    errors = np.abs(values[1:] - values[0] - expected)
    rounding = ROUNDING * (np.abs(values).max() + expected)
    return bool(np.all(errors <= MAX_GAUSSIAN_ERROR + rounding))


def known_base(
    potential: Potential, given: Potential | None, search: Search, start: Position
) -> Base | None:
    """The base that is given, that of the potential, its prior, or one of its modes; or None."""
    if potential.traits.is_split:
        return _base_of_part(potential, start)
    if given is not None:
        return _given_base(given, start)
    prior = prior_energy(potential, start)
    return _base_of_modes_or_prior(prior, search, flatten(start, scalar_dtype(start)))


def _base_of_part(potential: Potential, start: Position) -> Base:
    """The part of the energy that is not tempered."""
    what, vector = "the part that is not tempered", _vector(start)
    none = Base(None, None, True, False, f"no base: λ ends at {LAST_PART:.3g}")
    if not potential.traits.has_energy:
        return none

    def fixed(x: Array) -> Array:
        return jnp.asarray(potential.full(unflatten(x, start)).fixed).astype(x.dtype)

    own = base_of_energy(fixed, vector, what, True)
    if own is None and not is_flat(fixed, vector):
        return Base(None, np.ones_like(vector), True, False, what)
    return none if own is None else own


def _given_base(given: Potential, start: Position) -> Base:
    def energy(x: Array) -> Array:
        return given.energy(unflatten(x, start)).astype(x.dtype)

    vector = _vector(start)
    own = base_of_energy(energy, vector, "given", True)
    if own is not None:
        return own
    if is_flat(energy, vector):
        raise ValueError(
            "base must be the energy of a density that can be normalized, such as"
            " samplers.gaussian_base(0.0, 5.0); got one that does not rise in all directions"
        )
    return Base(None, np.ones_like(vector), True, False, "given")


def _base_of_modes_or_prior(
    prior: Callable[[Array], Array] | None, search: Search, start: Array
) -> Base | None:
    """The prior if it is neither improper nor far too wide, or a Gaussian of the modes."""
    places, vector = places_of(search), np.asarray(start, float)
    modes = base_of_modes(search.found).covering_places(places) if search.found else None
    if prior is None:
        return modes
    own = base_of_energy(prior, vector, "the prior", False)
    if own is None:
        flat = "; the prior is improper" if is_flat(prior, vector) else ""
        return None if modes is None else modes._replace(why=modes.why + flat)
    if modes is not None and prior_barrier(own, modes) > MAX_PRIOR_BARRIER:
        return modes._replace(why=f"{modes.why}; the prior is far too wide")
    centers = [one.center[None] for one in search.found]
    return own.covering_places(np.concatenate([places.reshape(-1, len(vector)), *centers]))


def _vector(start: Position) -> Float[np.ndarray, " d"]:
    return np.asarray(flatten(start, scalar_dtype(start)), float)


def places_of(search: Search) -> Float[np.ndarray, "n d"]:
    """Ends of minimizations that are no modes, with energies near that of the lowest one."""
    if not search.elsewhere:
        return np.zeros((0, len(search.found[0].center) if search.found else 0))
    energies = np.array([energy for energy, _ in search.elsewhere])
    ends = np.stack([end for _, end in search.elsewhere])
    lowest = min([energies.min(), *(one.energy for one in search.found)])
    return ends[energies <= lowest + MAX_RISE + ends.shape[1]]


def prior_barrier(prior: Base, modes: Base) -> float:
    """The barrier between a Gaussian prior and one of the modes, by their covariances.

    The rejection rate of swaps per unit of λ is √(Var(U1)/π), and Var(U1) is a sum over the
    directions in which both have no correlations.
    """
    both = [np.asarray(one.covariance, float) for one in (prior, modes)]
    if min(one.ndim for one in both) == 1:
        wide, narrow = (np.diag(one) if one.ndim == 2 else one for one in both)
        ratios = wide / narrow
    else:
        ratios = eigh(both[0], both[1], eigvals_only=True)
    inverse = 1 / np.maximum(ratios, 1.0)
    lam = np.append(0.0, np.geomspace(0.01 * inverse.min(), 1.0, 400))[:, None]
    variance = 0.5 * np.sum(((1 - inverse) / ((1 - lam) * inverse + lam)) ** 2, axis=1)
    return float(np.trapezoid(np.sqrt(variance / np.pi), lam[:, 0]))


def is_flat(energy: Callable[[Array], Array], start: Float[np.ndarray, " d"]) -> bool:
    """Whether far away an energy does not change with some coordinate, up or down."""
    far = FAR * max(1.0, float(np.abs(start).max()))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], len(start))
    slope = jax.jit(jax.grad(energy))
    both = [np.asarray(slope(jnp.asarray(start + s * far * signs, jnp.float32))) for s in (1, -1)]
    return bool(np.any(np.all(np.stack(both) == 0, axis=0)))


def _reference(center: np.ndarray, covariance: np.ndarray) -> GaussianReference:
    if covariance.ndim == 1:
        return GaussianReference(center, np.sqrt(covariance))
    return GaussianReference(center, np.linalg.cholesky(covariance))


class Shapes(NamedTuple):
    """The precisions of the base and of the modes of the target, as matrices or diagonals."""

    base: Float[np.ndarray, "d d"] | Float[np.ndarray, " d"]
    target: Float[np.ndarray, "d d"] | Float[np.ndarray, " d"]

    def scales(self, lam: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k d *d"]:
        """A factor of the covariance within a mode at each λ, ((1 − λ)P0 + λP1)⁻¹."""
        shape = (-1, *[1] * self.base.ndim)
        weight = np.asarray(lam, float).reshape(shape)
        precision = (1 - weight) * self.base + weight * self.target
        if self.base.ndim == 1:
            return 1 / np.sqrt(precision)
        identity = np.eye(precision.shape[1])
        factors = []
        for one in precision:
            upper = np.linalg.cholesky(one).T
            factors.append(solve_triangular(upper, identity))
        return np.stack(factors)


def shapes_of(base: Base, search: Search, start: Position) -> Shapes:
    """The shapes of a path, from the base and from the modes that a search found.

    If one of the two is not known, it is like the other one.
    """
    size = dimension(start)
    known = []
    if base.covariance is not None:
        known.append(_inverse(base.covariance))
    if search.found:
        known.append(_mean_precision(search.found))
    if not known:
        known.append(np.ones(size))
    if size > MAX_DENSE_DIMENSION or min(one.ndim for one in known) == 1:
        known = [np.diag(one) if one.ndim == 2 else one for one in known]
    return Shapes(known[0], known[-1])


def _mean_precision(found: list[Found]) -> Float[np.ndarray, "d d"]:
    """The mean of the precisions of modes, with Laplace's weights."""
    parts = [_inverse(one.scale @ one.scale.T) for one in found]
    return np.tensordot(_weights(found), np.stack(parts), axes=1)


def _weights(found: list[Found]) -> Float[np.ndarray, " m"]:
    masses = np.array([one.log_mass for one in found])
    weights = np.exp(masses - masses.max())
    return weights / weights.sum()


def _inverse(covariance: np.ndarray) -> np.ndarray:
    return 1 / covariance if covariance.ndim == 1 else np.linalg.inv(covariance)


def starts_in_modes(
    rng: np.random.Generator, found: list[Found], scales: Float[np.ndarray, "k d *d"], chains: int
) -> Float[np.ndarray, "c k d"]:
    """Vectors for each chain and rung, near modes that are chosen by their weights."""
    rungs, size = scales.shape[:2]
    which = rng.choice(len(found), (chains, rungs), p=_weights(found))
    normal = rng.normal(size=(chains, rungs, size))
    factors = scales if scales.ndim == 3 else scales[:, :, None] * np.eye(size)
    away = np.einsum("kij,ckj->cki", factors, normal)
    return np.stack([one.center for one in found])[which] + away
