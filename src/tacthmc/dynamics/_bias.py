r"""Biases that keep ξ moving: adaptive biasing force, metadynamics, well-tempered, none.

Without a bias ξ stays where its free energy A(ξ) = −T·log π(ξ) is lowest. A bias adds +A′(ξ) to the
force on ξ (the paper's Eq. 10) and learns it during the run. Given |ξ| ≤ ξ0 the law of θ is the
posterior for any bias, so an unconverged bias costs efficiency, not correctness.

A bias is a frozen object of settings. Its table is a separate state, so that chains can be mapped,
saved and resumed. ``bias.started_from(table)`` begins with the table of an earlier run, and
``bias.frozen()`` stops the learning.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, Int

from tacthmc import _checks as checks
from tacthmc._positions import rate_at
from tacthmc._typing import Number, Rate, Scalar
from tacthmc.compiler._scatter import add_at
from tacthmc.dynamics._coupling import Coupling


class BiasInput(NamedTuple):
    """The input of a bias at one step: ξ, T·λ′(ξ), the energy Ũ, and the step count."""

    xi: Scalar
    slope: Scalar
    energy: Scalar
    step: Array


class FreeEnergy(NamedTuple):
    """An estimated free-energy profile A(ξ), zero on the plateau."""

    xi: np.ndarray
    value: np.ndarray


class Bias(eqx.Module):
    """A force +A′(ξ) on the tempering variable, learned along the path of ξ."""

    bins: eqx.AbstractVar[int]
    table: eqx.AbstractVar[Any]

    @abstractmethod
    def empty(self, dtype: DTypeLike) -> Any:
        """An empty table."""

    @abstractmethod
    def force(self, table: Any, at: BiasInput, coupling: Coupling) -> Scalar:
        """The force A′(ξ) to add."""

    @abstractmethod
    def update(self, table: Any, at: BiasInput, coupling: Coupling) -> Any:
        """The table after this step."""

    @abstractmethod
    def free_energy(self, table: Any, coupling: Coupling, bath: float = 1.0) -> FreeEnergy:
        """The profile A(ξ) of the table, across the well."""

    @abstractmethod
    def pooled(self, tables: Any) -> Any:
        """One table from those of several chains (a leading axis on each leaf)."""

    def with_log_lambda_term(
        self, table: Any, coupling: Coupling, bath: Number, amount: Number
    ) -> Any:
        """The table for A + ``bath``·``amount``·log λ instead of A.

        The table of a chain does not include the analytic part of A
        (:mod:`tacthmc.dynamics._coordinates`). Tables that users see, save and start from do.
        """
        return table

    def init(self, dtype: DTypeLike) -> Any:
        """The first table of a chain: an empty one, or the given one."""
        empty = self.empty(dtype)
        if self.table is None:
            return empty
        return jax.tree.map(lambda e, t: jnp.asarray(t).astype(e.dtype), empty, self.table)

    def frozen(self) -> "FrozenBias":
        """The same bias, which no longer learns."""
        return FrozenBias(self)

    def started_from(self, table: Any) -> "Bias":
        """The same bias, beginning with an earlier table."""
        expected = jax.tree.map(jnp.shape, self.empty(jnp.float32))
        if jax.tree.map(jnp.shape, table) != expected:
            raise ValueError(
                f"the table does not fit a {type(self).__name__} with bins={self.bins}: expected"
                f" {expected}, got {jax.tree.map(jnp.shape, table)}"
            )
        return eqx.tree_at(lambda b: b.table, self, table, is_leaf=lambda x: x is None)


class FrozenBias(Bias):
    """A bias with the force of another one, which no longer learns."""

    inner: Bias
    bins: int = eqx.field(static=True)
    table: Any

    def __init__(self, inner: Bias):
        """Freeze ``inner``, which usually was ``started_from`` an earlier run's table."""
        self.inner, self.bins, self.table = inner, inner.bins, inner.table

    def empty(self, dtype: DTypeLike) -> Any:
        return self.inner.empty(dtype)

    def force(self, table: Any, at: BiasInput, coupling: Coupling) -> Scalar:
        return self.inner.force(table, at, coupling)

    def update(self, table: Any, at: BiasInput, coupling: Coupling) -> Any:
        return table

    def free_energy(self, table: Any, coupling: Coupling, bath: float = 1.0) -> FreeEnergy:
        return self.inner.free_energy(table, coupling, bath)

    def pooled(self, tables: Any) -> Any:
        return self.inner.pooled(tables)

    def with_log_lambda_term(
        self, table: Any, coupling: Coupling, bath: Number, amount: Number
    ) -> Any:
        return self.inner.with_log_lambda_term(table, coupling, bath, amount)


class NoBias(Bias):
    """No bias: ξ follows its bare free energy.

    >>> import tacthmc
    >>> xi = tacthmc.dynamics.ContinuousTempering(bias=NoBias())
    >>> tacthmc.tact(0.01, tempering=xi).tempering.bias.bins
    0
    """

    bins: int = eqx.field(static=True, default=0)
    table: Any = None

    def empty(self, dtype: DTypeLike) -> tuple[()]:
        return ()

    def force(self, table: Any, at: BiasInput, coupling: Coupling) -> Scalar:
        return jnp.zeros_like(at.xi)

    def update(self, table: Any, at: BiasInput, coupling: Coupling) -> Any:
        return table

    def free_energy(self, table: Any, coupling: Coupling, bath: float = 1.0) -> FreeEnergy:
        raise ValueError("there is no free-energy profile: the run had no bias (NoBias)")

    def pooled(self, tables: Any) -> Any:
        return tables


class MeanEnergies(NamedTuple):
    """The table of the adaptive biasing force."""

    visits: Float[Array, " bins"]
    """The number of visits of each bin."""
    mean: Float[Array, " bins"]
    """The mean energy of each bin."""
    seen: Scalar
    """The number of energies in all bins."""
    recent: Scalar
    """An exponential mean of the last energies in all bins."""


class AdaptiveBiasingForce(Bias):
    r"""Adaptive biasing force: A′(ξ) = λ′(ξ)·⟨U | ξ⟩ (the paper's Eq. 11).

    In the Hamiltonian only λU depends on ξ, and λ′ is known exactly. So the bins hold the running
    mean of Ũ, each with its own count, and λ′ is evaluated at the true ξ: the net force −λ′(Ũ − Ū)
    is small from the first step. If λ is even, ξ and −ξ share bins. A bin that was never visited
    uses an exponential mean of the last ``memory`` energies.

    With ``window`` = m a bin forgets: from its m-th visit on, its mean moves by 1/m of the
    difference, so a visit has the weight exp(−age/m), its age in visits of the same bin. While the
    chain still finds lower energies, the first energies give a wrong force. A window limits their
    effect to about m visits. The price is that the mean has the noise of 2m visits instead of all:
    choose m as many autocorrelation times of the energy, and take ratios of evidence from a bias
    without a window.

    >>> import jax.numpy as jnp
    >>> AdaptiveBiasingForce(bins=20).init(jnp.float32).mean.shape
    (20,)
    >>> AdaptiveBiasingForce(window=1000.0).window
    1000.0
    """

    bins: int = eqx.field(static=True)
    memory: Number
    table: MeanEnergies | None
    window: Number | None = None

    def __init__(self, bins: int = 60, memory: Number = 100.0, window: Number | None = None):
        """Use ``bins`` equal bins over 0 ≤ |ξ| ≤ W0 (or −W0 ≤ ξ ≤ W0 if λ is not even).

        ``window`` is how many visits a bin remembers; None is all.
        """
        checks.whole("bins", bins, 2)
        checks.positive("memory", memory)
        if window is not None:
            checks.positive("window", window)
            _check_window(window)
        self.bins, self.memory, self.table, self.window = bins, memory, None, window

    def empty(self, dtype: DTypeLike) -> MeanEnergies:
        shapes = ((self.bins,), (self.bins,), (), ())
        return MeanEnergies(*(jnp.zeros(shape, dtype) for shape in shapes))

    def _bin(self, xi: Scalar, coupling: Coupling) -> Int[Array, ""]:
        low = 0.0 if coupling.even else -coupling.wall
        place = jnp.abs(xi) if coupling.even else xi
        return _bin(place, low, coupling.wall, self.bins)

    def mean_energy(self, table: MeanEnergies, at: BiasInput, coupling: Coupling) -> Scalar:
        """The estimate of ⟨U | ξ⟩, from the recent energies if the bin of ξ is empty."""
        here = self._bin(at.xi, coupling)
        # Before the first visit it is the energy itself, so that there is no net force.
        borrowed = jnp.where(table.seen > 0, table.recent, at.energy)
        return jnp.where(_at(table.visits, here) > 0, _at(table.mean, here), borrowed)

    def force(self, table: MeanEnergies, at: BiasInput, coupling: Coupling) -> Scalar:
        """λ′(ξ)·Ū."""
        return at.slope * self.mean_energy(table, at, coupling)

    def update(self, table: MeanEnergies, at: BiasInput, coupling: Coupling) -> MeanEnergies:
        """Add Ũ to the mean of its bin."""
        index = self._bin(at.xi, coupling)
        # The change is computed first, as one number. Otherwise the loop that updates one table
        # would read the other, which would have to be copied before it is updated in place.
        remembered = self._remembered(_at(table.visits, index) + 1)
        change = (at.energy - _at(table.mean, index)) / remembered
        visits = add_at(table.visits, index, jnp.ones_like(change))
        mean = add_at(table.mean, index, change)
        count = table.seen + 1
        rate = 1 / jnp.minimum(count, jnp.asarray(self.memory).astype(count.dtype))
        recent = table.recent + rate * (at.energy - table.recent)
        return MeanEnergies(visits, mean, count, recent)

    def _remembered(self, visits: Array) -> Array:
        """The number of visits that a mean has the weight of, at most ``window``."""
        if self.window is None:
            return visits
        return jnp.minimum(visits, jnp.asarray(self.window).astype(visits.dtype))

    def free_energy(self, table: MeanEnergies, coupling: Coupling, bath: float = 1.0) -> FreeEnergy:
        """Integrate T·λ′(ξ)·Ū(ξ) outward from ξ = 0, where A = 0."""
        visits, mean = np.asarray(table.visits, float), np.asarray(table.mean, float)
        if not visits.any():
            raise ValueError("there is no free-energy profile yet: the table is empty")
        wall = float(coupling.wall)
        edges = np.linspace(0.0 if coupling.even else -wall, wall, self.bins + 1)
        centers = (edges[1:] + edges[:-1]) / 2
        filled = np.interp(centers, centers[visits > 0], mean[visits > 0])
        # λ is exact, so a bin adds Ū times the exact difference of λ between its edges.
        steps = bath * np.diff(1 / np.asarray(coupling.temperature(jnp.asarray(edges)))) * filled
        profile = np.concatenate([[0.0], np.cumsum(steps)])
        if coupling.even:
            edges = np.concatenate([-edges[:0:-1], edges])
            profile = np.concatenate([profile[:0:-1], profile])
        return FreeEnergy(edges, profile - np.interp(0.0, edges, profile))

    def with_log_lambda_term(
        self, table: MeanEnergies, coupling: Coupling, bath: Number, amount: Number
    ) -> MeanEnergies:
        """Ū + amount·Δ(log λ)/Δλ, bin by bin, which integrates to the exact A."""
        low = 0.0 if coupling.even else -coupling.wall
        lam = _couplings(coupling, jnp.linspace(low, coupling.wall, self.bins + 1), table.mean)
        differ = jnp.abs(jnp.diff(lam)) > 1e-4 * lam[1:]
        slope = jnp.diff(jnp.log(lam)) / jnp.where(differ, jnp.diff(lam), 1)
        more = amount * jnp.where(differ, slope, 2 / (lam[1:] + lam[:-1]))
        mean = jnp.where(table.visits > 0, table.mean + more, table.mean)
        recent = jnp.where(table.seen > 0, table.recent + amount, table.recent)
        return MeanEnergies(table.visits, mean, table.seen, recent)

    def pooled(self, tables: MeanEnergies) -> MeanEnergies:
        """The mean over chains, weighted by their visits (at most ``window`` each)."""
        visits, weights = jnp.sum(tables.visits, axis=0), self._remembered(tables.visits)
        counted = jnp.maximum(jnp.sum(weights, axis=0), 1)
        mean = jnp.sum(weights * tables.mean, axis=0) / counted
        return MeanEnergies(visits, mean, jnp.sum(tables.seen), jnp.mean(tables.recent))


class LiteralForces(NamedTuple):
    """The table of the literal adaptive biasing force: a force per bin, and the step count k."""

    force: Float[Array, " bins"]
    steps: Scalar


class LiteralAdaptiveBiasingForce(Bias):
    """Algorithm 1's abfUpdate to the letter, for reproduction only.

    Each of ``bins`` bins over (−W0, W0) holds abf ← (1 − 1/k)·abf + (1/k)·λ′Ũ with the global
    step k. That is not the mean of the bin, and ξ then spends about 8% of its time on the plateau
    instead of 20%. Use :class:`AdaptiveBiasingForce` instead.

    >>> import jax.numpy as jnp
    >>> LiteralAdaptiveBiasingForce(bins=20).init(jnp.float32).force.shape
    (20,)
    """

    bins: int = eqx.field(static=True)
    table: LiteralForces | None

    def __init__(self, bins: int = 60):
        """Use ``bins`` equal bins over −W0 ≤ ξ ≤ W0."""
        checks.whole("bins", bins, 2)
        self.bins, self.table = bins, None

    def empty(self, dtype: DTypeLike) -> LiteralForces:
        return LiteralForces(jnp.zeros((self.bins,), dtype), jnp.zeros((), dtype))

    def force(self, table: LiteralForces, at: BiasInput, coupling: Coupling) -> Scalar:
        """The value of the bin of ξ."""
        return _at(table.force, _bin(at.xi, -coupling.wall, coupling.wall, self.bins))

    def update(self, table: LiteralForces, at: BiasInput, coupling: Coupling) -> LiteralForces:
        """abf ← (1 − 1/k)·abf + (1/k)·λ′Ũ, with k counted from 1."""
        index = _bin(at.xi, -coupling.wall, coupling.wall, self.bins)
        steps = table.steps + 1
        change = (at.slope * at.energy - _at(table.force, index)) / steps
        return LiteralForces(add_at(table.force, index, change), steps)

    def free_energy(
        self, table: LiteralForces, coupling: Coupling, bath: float = 1.0
    ) -> FreeEnergy:
        """Integrate the forces of the bins."""
        edges = np.linspace(-float(coupling.wall), float(coupling.wall), self.bins + 1)
        forces = np.asarray(table.force, float)
        profile = np.concatenate([[0.0], np.cumsum(forces * np.diff(edges))])
        return FreeEnergy(edges, profile - np.interp(0.0, edges, profile))

    def with_log_lambda_term(
        self, table: LiteralForces, coupling: Coupling, bath: Number, amount: Number
    ) -> LiteralForces:
        """The force of each bin + T·amount·Δ(log λ)/Δξ."""
        edges = jnp.linspace(-coupling.wall, coupling.wall, self.bins + 1)
        steps = jnp.diff(jnp.log(_couplings(coupling, edges, table.force)))
        width = (2 * jnp.asarray(coupling.wall) / self.bins).astype(steps.dtype)
        return LiteralForces(table.force + bath * amount * steps / width, table.steps)

    def pooled(self, tables: LiteralForces) -> LiteralForces:
        return LiteralForces(jnp.mean(tables.force, axis=0), jnp.mean(tables.steps))


class Metadynamics(Bias):
    r"""Metadynamics (Appendix B), plain or well-tempered.

    A repulsive potential V grows by h in the bin of ξ at every step. Its force on ξ is the
    difference of V between the centers of neighboring bins. Plain metadynamics gives A = −V up to
    a constant and never converges. With ``boost`` = ΔT the increment is h·exp(−V/ΔT) and
    A = −(1 + T/ΔT)·V; ξ is then deliberately not uniform, π(ξ) ∝ exp(−A/(T + ΔT)), so the
    plateau share is not ξ0/W0. Both also act on ξ on the plateau, which does not affect θ.

    Nothing damps ξ on the plateau, however. A dip of V there speeds ξ up and fills slowly, so ξ
    gets too hot and V wrong (θ does not). Draw the momentum of ξ afresh now and then:
    ``ContinuousTempering(bias=…, refresh=Refresh(everywhere=True))``.

    ``spread`` is the number of neighbors on each side that get the increment too.

    >>> import jax.numpy as jnp
    >>> Metadynamics(bins=20, height=0.01).init(jnp.float32).shape
    (20,)
    """

    bins: int = eqx.field(static=True)
    height: Rate
    boost: Number | None
    spread: int = eqx.field(static=True)
    table: Float[Array, " bins"] | None

    def __init__(
        self, bins: int = 60, height: Rate = 1e-3, boost: Number | None = None, spread: int = 0
    ):
        """Use ``bins`` equal bins over −W0 ≤ ξ ≤ W0 and increments of ``height``."""
        checks.whole("bins", bins, 2)
        checks.positive("height", height)
        checks.whole("spread", spread, 0)
        if 2 * spread + 1 > bins:
            raise ValueError(f"spread={spread} needs at least {2 * spread + 1} bins; got {bins}")
        if boost is not None:
            checks.positive("boost (ΔT)", boost)
        self.bins, self.height, self.boost, self.spread = bins, height, boost, spread
        self.table = None

    def empty(self, dtype: DTypeLike) -> Float[Array, " bins"]:
        return jnp.zeros((self.bins,), dtype)

    def force(self, table: Float[Array, " bins"], at: BiasInput, coupling: Coupling) -> Scalar:
        """−V′ between the two bin centers next to ξ; zero beyond the last centers."""
        delta = 2 * jnp.asarray(coupling.wall).astype(table.dtype) / self.bins
        below = jnp.floor((at.xi + coupling.wall) / delta - 0.5).astype(int)
        left, right = (jnp.clip(i, 0, self.bins - 1) for i in (below, below + 1))
        return (_at(table, left) - _at(table, right)) / delta

    def update(
        self, table: Float[Array, " bins"], at: BiasInput, coupling: Coupling
    ) -> Float[Array, " bins"]:
        """V += h (times exp(−V/ΔT) if well-tempered) at ξ."""
        index = _bin(at.xi, -coupling.wall, coupling.wall, self.bins)
        height = rate_at(self.height, at.step, table.dtype)
        if self.boost is not None:
            boost = jnp.asarray(self.boost).astype(table.dtype)
            height = height * jnp.exp(-_at(table, index) / boost)
        near = jnp.abs(jnp.arange(self.bins) - index) <= self.spread
        grown = table + jnp.where(near, height, 0)
        # Only differences of V matter. Subtracting the minimum keeps V small, so that increments
        # are not lost to rounding in a long run.
        return grown - jnp.min(grown) if self.boost is None else grown

    def free_energy(
        self, table: Float[Array, " bins"], coupling: Coupling, bath: float = 1.0
    ) -> FreeEnergy:
        """−V, or −(1 + T/ΔT)·V, at the centers of the bins."""
        edges = np.linspace(-float(coupling.wall), float(coupling.wall), self.bins + 1)
        centers = (edges[1:] + edges[:-1]) / 2
        factor = 1.0 if self.boost is None else 1.0 + bath / float(self.boost)
        profile = -factor * np.asarray(table, float)
        return FreeEnergy(centers, profile - np.interp(0.0, centers, profile))

    def with_log_lambda_term(
        self, table: Float[Array, " bins"], coupling: Coupling, bath: Number, amount: Number
    ) -> Float[Array, " bins"]:
        """V − T·amount·log λ at the centers of the bins, divided by 1 + T/ΔT if well-tempered."""
        edges = jnp.linspace(-coupling.wall, coupling.wall, self.bins + 1)
        lam = _couplings(coupling, (edges[1:] + edges[:-1]) / 2, table)
        factor = 1.0 if self.boost is None else 1.0 + bath / self.boost
        return table - bath * amount * jnp.log(lam) / factor

    def pooled(self, tables: Float[Array, "chains bins"]) -> Float[Array, " bins"]:
        return jnp.mean(tables, axis=0)


def well_tempered(
    boost: Number, bins: int = 60, height: Rate = 1e-2, spread: int = 0
) -> Metadynamics:
    """Well-tempered metadynamics with bias temperature ΔT = ``boost``.

    >>> well_tempered(boost=10.0).boost
    10.0
    """
    return Metadynamics(bins, height, boost, spread)


def _check_window(window: Number) -> None:
    known = checks.concrete(window)
    if known is not None and np.any(known < 1):
        raise ValueError(f"window must be at least one visit; got {window!r}")


def _couplings(coupling: Coupling, places: Array, like: Array) -> Array:
    """λ at each place."""
    places = places.astype(like.dtype)
    return jax.vmap(lambda xi: coupling.value_and_slope(xi)[0])(places)


def _bin(place: Scalar, low: Any, high: Any, bins: int) -> Int[Array, ""]:
    """The bin of ``place``; places beyond the ends belong to the last bins."""
    low, high = (jnp.asarray(x).astype(place.dtype) for x in (low, high))
    index = jnp.floor((place - low) / (high - low) * bins)
    return jnp.clip(index, 0, bins - 1).astype(int)


def _at(table: Float[Array, " bins"], index: Int[Array, ""]) -> Scalar:
    """The value of a bin. The index is always in bounds, so it is not checked."""
    return table.at[index].get(mode="promise_in_bounds")
