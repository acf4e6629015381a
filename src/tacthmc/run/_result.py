"""What a run leaves: draws, statistics, diagnostics, export."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._positions import leaf_names, scalar_names
from tacthmc._typing import Draws, Position, PRNGKey
from tacthmc.diagnostics._arviz import export, open_store
from tacthmc.diagnostics._evidence import EvidenceRatio, Profile, evidence_ratio
from tacthmc.diagnostics._laws import Law, flatness, thermostat_laws
from tacthmc.diagnostics._weights import log_weights
from tacthmc.dynamics import Langevin, Sampler, Splitting, Tempering, save_bias
from tacthmc.dynamics._bias import FreeEnergy
from tacthmc.potentials import Potential, StreamedPosterior, SubsetPotential, measure_noise
from tacthmc.potentials._base import innermost
from tacthmc.run._failure import Failure
from tacthmc.run._interval import Kept
from tacthmc.run._keep import Keep
from tacthmc.run._program import Chains
from tacthmc.run._record import Record
from tacthmc.run._summary import Summary, summarize
from tacthmc.store._errors import StoreError
from tacthmc.store._folder import Folder
from tacthmc.store._pickles import observed


class Run:
    """A finished run.

    ``draws`` and ``stats`` hold only draws at unit temperature after the first ``keep.after`` steps
    (or, with ``Keep(temperatures="all")``, draws of all temperatures with ``log_weights``). Chains reach the plateau
    at different times, so their numbers of draws differ: ``draws`` is the rectangle of each
    chain's first n draws, n the least number of any chain. Which draws are left out depends
    on how many there are, never on what they are. ``all_draws`` has every chain's draws.
    ``trace`` has one row per ``keep.every`` steps at all temperatures, from the first step on.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.tact(0.01), target, jnp.zeros(2), 10_000)
    >>> run.draws.shape == (1, run.num_draws, 2), run.trace["xi"].shape
    (True, (1, 200))
    """

    def __init__(
        self,
        *,
        program: Callable[[], tuple[list[Sampler], Potential]],
        key: PRNGKey,
        record: Record,
        chains: Any,
        failures: tuple[Failure, ...],
        num_steps: int,
        keep: Keep,
        interrupted: bool,
        seconds: float,
        compile_seconds: float,
        folder: Folder | None,
    ):
        """Made by :func:`tacthmc.sample`, ``resume`` and ``load``."""
        self.key, self._program = key, program
        self.failures, self.interrupted = failures, interrupted
        self.num_steps, self.keep = num_steps, keep
        self.seconds, self.compile_seconds = seconds, compile_seconds
        self.path = None if folder is None else folder.path
        """The run's folder, where it has one."""
        self._record, self._chains, self._folder = record, chains, folder

    @cached_property
    def _known(self) -> tuple[list[Sampler], Potential]:
        return self._program()

    @property
    def program_is_known(self) -> bool:
        """Whether sampler and potential are at hand; a folder cannot always keep them."""
        try:
            return bool(self._known)
        except StoreError:
            return False

    @property
    def samplers(self) -> list[Sampler]:
        """The sampler of each chain."""
        return self._known[0]

    @property
    def potential(self) -> Potential:
        """What was sampled."""
        return self._known[1]

    @property
    def sampler(self) -> Sampler:
        """The sampler (of the first chain, where each has its own)."""
        return self.samplers[0]

    @property
    def tuning(self) -> Any:
        """What a warm-up chose and why; None where all numbers were given."""
        sampler = self.sampler
        return sampler.tuning if isinstance(sampler, Langevin) else None

    @cached_property
    def chains(self) -> Chains:
        """All that the chains carry at the end, as :class:`tacthmc.Program` has it."""
        chains: Any = self._chains
        return cast("Chains", chains() if callable(chains) else chains)

    @property
    def state(self) -> Any:
        """The chains' last state, with a leading chain axis."""
        return self.chains.each.state

    @property
    def num_chains(self) -> int:
        """How many chains ran."""
        return len(self._record.counts)

    @property
    def counts(self) -> np.ndarray:
        """How many draws each chain has."""
        return self._record.counts

    @property
    def num_draws(self) -> int:
        """Draws per chain in the rectangle ``draws``."""
        return int(self.counts.min())

    def _rectangle(self, part: str) -> Any:
        count = self.num_draws
        chains = [getattr(self._record.kept(c, 0, count), part) for c in range(self.num_chains)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *chains)

    @property
    def all_draws(self) -> list[Draws]:
        """Every kept draw of each chain, a pytree with a leading draw axis per chain."""
        return [self._record.kept(c, 0, int(n)).position for c, n in enumerate(self.counts)]

    @cached_property
    def draws(self) -> Draws:
        """The position's pytree with leading (chain, draw)."""
        return self._rectangle("position")

    @cached_property
    def model_states(self) -> Any:
        """The model's state with each draw, leading (chain, draw); None where it has none."""
        return self._rectangle("model")

    @cached_property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics of the draws, each (chain, draw), with the step each was made at."""
        count, chains = self.num_draws, range(self.num_chains)
        stats = {
            name: np.stack([self._record.stat(name, c)[:count] for c in chains])
            for name in self._record.stat_names
        }
        if self.keep.all_temperatures:
            stats["log_weight"] = self.log_weights
        return stats

    @cached_property
    def _all_log_weights(self) -> list[np.ndarray]:
        chains = range(self.num_chains)
        if not self.keep.all_temperatures or "lambda" not in self._record.stat_names:
            return [np.zeros(n) for n in self.counts]
        # What λ multiplies is what it weighs.
        split = "tempered_energy" in self._record.stat_names
        energy = "tempered_energy" if split else "full_energy"
        return log_weights(
            [self._record.stat("lambda", c) for c in chains],
            [self._record.stat(energy, c) for c in chains],
        )

    @property
    def log_weights(self) -> np.ndarray:
        """The logarithm of each draw's weight, (chain, draw); zero where all count alike."""
        return np.stack([w[: self.num_draws] for w in self._all_log_weights])

    def expectation(self, function: Callable[..., Any], *, block: int = 64) -> Any:
        """The posterior mean of a function of the position, over every draw of every chain.

        Weights are respected, and draws are read in blocks: predictions of a stored run need
        no more memory than a block of them. For a model with a state (batch norm) the function
        takes the state of each draw as a second argument.

        >>> import jax, jax.numpy as jnp, tacthmc
        >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
        >>> key, sampler = jax.random.key(0), tacthmc.sgnht(0.1)
        >>> run = tacthmc.sample(key, sampler, target, jnp.zeros(2), 50_000)
        >>> bool(abs(run.expectation(lambda x: jnp.sum(x**2)) - 2.0) < 0.3)
        True
        """

        @eqx.filter_jit
        def total(position: Any, model: Any, weights: Array) -> Any:
            def one(position: Any, model: Any) -> Any:
                position = self.whole(position)
                return function(position) if model is None else function(position, model)

            values = jax.vmap(one)(position, model)
            return jax.tree.map(lambda v: _weighted_sum(weights, v), values)

        sums, mass = None, 0.0
        for _, kept, part in self.blocks(block):
            # A short block is filled up with a draw that counts nothing: one program for all.
            fill = block - len(part)
            kept = jax.tree.map(lambda x, f=fill: np.concatenate([x, x[:1].repeat(f, 0)]), kept)
            added = total(kept.position, kept.model, jnp.asarray(np.pad(part, (0, fill))))
            added = jax.tree.map(lambda x: np.asarray(x, float), added)
            sums = added if sums is None else jax.tree.map(np.add, sums, added)
            mass += float(part.sum())
        return jax.tree.map(lambda x: x / mass, sums)

    def blocks(self, size: int = 64) -> Iterator[tuple[int, Kept, np.ndarray]]:
        """Every draw of every chain in blocks: the chain, its draws, their weights."""
        checks.whole("block", size, 1)
        if not self.counts.sum():
            raise ValueError("the run has no draws to average over")
        for chain, weights in enumerate(self._all_log_weights):
            for begin in range(0, len(weights), size):
                kept = self._record.kept(chain, begin, begin + size)
                yield chain, kept, np.exp(weights[begin : begin + size])

    @property
    def trace(self) -> Mapping[str, np.ndarray]:
        """Statistics every ``keep.every`` steps at all temperatures, each (chain, row)."""
        return self._record.trace

    def draws_of(self, leaf: int, index: tuple[int, ...]) -> np.ndarray:
        """One scalar of the position, (chain, draw), without reading the others' draws."""
        count = self.num_draws
        return np.stack(
            [self._record.scalar(leaf, index, c, count) for c in range(self.num_chains)]
        )

    def some_draw_shapes(self) -> Any:
        """The shapes of one draw."""
        kept = self._record.kept(0, 0, 0)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), kept.position)

    def some_draw(self, chain: int, draw: int) -> Position:
        """One draw, on the device."""
        kept = self._record.kept(chain, draw, draw + 1)
        return jax.tree.map(lambda x: jnp.asarray(x[0]), kept.position)

    def whole(self, position: Any) -> Any:
        """A draw (or ``draws``) with the leaves that were not sampled put back."""
        part = self.potential
        return eqx.combine(position, part.rest) if isinstance(part, SubsetPotential) else position

    def named_draws(self) -> dict[str, np.ndarray]:
        """The leaves of ``draws`` by name."""
        return dict(zip(leaf_names(self.draws), jax.tree.leaves(self.draws), strict=True))

    @property
    def config(self) -> Mapping[str, Any] | None:
        """What a stored run's folder says of it: versions, device, key, sampler; else None."""
        return None if self._folder is None else self._folder.config

    @property
    def tempered(self) -> bool:
        """Whether a tempering variable ran."""
        return "xi" in self.trace

    def _usable(self) -> np.ndarray:
        """Which rows of each chain are after warm-up and finite."""
        return (self.trace["step"] > self.keep.after) & self.trace["finite"]

    def after_warmup(self, name: str) -> np.ndarray:
        """A column of ``trace`` after warm-up, up to the first failure of any chain."""
        return self.trace[name][:, np.all(self._usable(), axis=0)]

    @cached_property
    def plateau_share(self) -> np.ndarray:
        """Each chain's share of steps at unit temperature; ξ0/W0 in theory if ξ is uniform."""
        shares, usable = self.trace["plateau_share"], self._usable()
        return np.where(usable, shares, 0).sum(axis=1) / np.maximum(usable.sum(axis=1), 1)

    @cached_property
    def round_trips(self) -> np.ndarray:
        """Each chain's number of journeys plateau → next to a wall → plateau.

        Of replica exchange: those of one of its replicas, coldest → hottest → coldest.
        """
        if "round_trips" not in self.trace:
            return np.zeros(self.num_chains, int)
        return np.where(self._usable(), self.trace["round_trips"], 0).sum(axis=1)

    @cached_property
    def flatness(self) -> np.ndarray:
        """Each chain's total variation between ξ's histogram and the uniform law."""
        xi = self.after_warmup("xi")
        walls = [float(self.tempering_of(c).coupling.wall) for c in range(self.num_chains)]
        return np.concatenate(
            [flatness(row[None], wall) for row, wall in zip(xi, walls, strict=True)]
        )

    @cached_property
    def thermostats(self) -> list[Law]:
        """Thermostats and momenta against Theorem 1, with the noise measured at a few draws.

        Empty for chains of different settings, and where batches come from a loader.
        """
        if not self.program_is_known:
            return []
        alone = all(s is self.sampler for s in self.samplers)
        streams = isinstance(innermost(self.potential), StreamedPosterior)
        if not isinstance(self.sampler, Langevin) or not alone or streams or not self.num_draws:
            return []
        with jax.enable_x64(self.x64):
            return self._measured_laws()

    @property
    def x64(self) -> bool:
        """Whether the run computes in double precision."""
        if self.config is not None:
            return bool(self.config["x64"])
        return bool(jax.config.read("jax_enable_x64"))

    def _measured_laws(self) -> list[Law]:
        assert isinstance(self.sampler, Langevin)
        # A stream of its own: chains fold their index into the same key.
        key = jax.random.fold_in(self.key, 2**31)
        sampler, inner = self.sampler, self.sampler.coordinates
        draws = [
            inner.from_theta(self._cold_draw(i % self.num_chains, (i + 1) / 5)) for i in range(4)
        ]
        own = [self.potential.for_chain(i % self.num_chains) for i in range(len(draws))]
        levels = [
            measure_noise(jax.random.fold_in(key, i), inner.potential(own[i]), draw, 256)
            for i, draw in enumerate(draws)
        ]
        force = jax.tree.map(
            lambda *v: np.asarray(np.mean(v, axis=0)), *(level.force for level in levels)
        )
        # Energies that a chain remembers make their noise smaller than it is without; and the
        # friction for a batch's is not the thermostat's.
        traits = self.potential.traits
        corrected = traits.independent_batches and isinstance(sampler.integrator, Splitting)
        known = not traits.remembers and not corrected
        energy = float(np.mean([level.energy for level in levels])) if known else None
        return thermostat_laws(sampler, draws[0], force, energy, self.after_warmup)

    def _cold_draw(self, chain: int, where: float) -> Position:
        """A draw at unit temperature (any, where there is none), so far into a chain."""
        cold = np.arange(self.num_draws)
        if self.keep.all_temperatures and self.tempered:
            at_one = np.flatnonzero(self._record.stat("lambda", chain)[: self.num_draws] == 1)
            cold = at_one if at_one.size else cold
        return self.some_draw(chain, int(cold[int(where * len(cold))]))

    def summary(self) -> Summary:
        """R-hat, ESS, plateau share, round trips of ξ, thermostats against theory."""
        return summarize(self)

    def to_arviz(self) -> Any:
        """An InferenceData or DataTree (whichever the installed ArviZ has) of the draws.

        A stored run is opened lazily: nothing is read before it is used.
        """
        if self._folder is not None and not self.keep.all_temperatures:
            return open_store(self._folder.root)
        data = {name: np.asarray(value) for name, value in observed(self.potential).items()}
        return export(self.named_draws(), self.stats, data)

    def tempered_sampler(self, chain: int = 0) -> Any:
        """A chain's sampler, if it has a tempering variable."""
        sampler = self.samplers[chain]
        if not isinstance(sampler, Langevin) or sampler.tempering is None:
            raise ValueError("this run had no tempering variable")
        return sampler

    def tempering_of(self, chain: int = 0) -> Tempering:
        """A chain's way for ξ, if it has one."""
        return self.tempered_sampler(chain).tempering

    def bias_table(self, chain: int | None = None) -> Any:
        """The bias learned by one chain, or by all of them together."""
        sampler, tempering = self.tempered_sampler(chain or 0), self.tempering_of(chain or 0)
        tables = self.state.tempering.bias
        if chain is None:
            failed = {failure.chain for failure in self.failures}
            sound = np.array([c for c in range(self.num_chains) if c not in failed], int)
            if not sound.size:
                raise ValueError("no chain stayed finite: there is no bias to show")
            table = tempering.bias.pooled(jax.tree.map(lambda table: table[sound], tables))
        else:
            table = jax.tree.map(lambda table: table[chain], tables)
        known = sampler.coordinates.analytic_log_lambda(self._one_position(chain or 0))
        if not known:
            return table
        bath = float(sampler.bath_temperature)
        return tempering.bias.with_log_lambda_term(table, tempering.coupling, bath, known)

    def free_energy(self, chain: int | None = None) -> FreeEnergy:
        """The free-energy profile A(ξ) that the bias stands for."""
        tempering = self.tempering_of(chain or 0)
        bath = float(self.tempered_sampler(chain or 0).bath_temperature)
        return tempering.bias.free_energy(self.bias_table(chain), tempering.coupling, bath)

    def log_evidence_ratio(self, temperature: float | None = None) -> EvidenceRatio:
        """log Z(1/temperature) − log Z(1) with Z(λ) = ∫exp(−λU), by thermodynamic integration.

        With :func:`tacthmc.temper_likelihood` Z(λ) = ∫p(θ)·p(data | θ)^λ, the power posteriors'
        evidence, and with a normalized prior Z(1) is the evidence itself.

        From each chain's bias (:mod:`tacthmc.diagnostics._evidence`), so with warm-up in it: a long run's
        error is the one given, over chains, and a short one's is larger. By default at the
        hottest temperature.
        """
        failed = {failure.chain for failure in self.failures}
        sound = [c for c in range(self.num_chains) if c not in failed]
        if not sound:
            raise ValueError("no chain stayed finite: there is no bias to integrate")
        profiles = [self._profile(chain) for chain in sound]
        independent = self.tempering_of().bias.table is None
        return evidence_ratio(profiles, temperature, independent)

    def _profile(self, chain: int) -> Profile:
        sampler = self.tempered_sampler(chain)
        return Profile(
            energy=self.free_energy(chain),
            table=self.bias_table(chain),
            coupling=self.tempering_of(chain).coupling,
            bath=float(sampler.bath_temperature),
            analytic_log_lambda=sampler.coordinates.analytic_log_lambda(self._one_position(chain)),
        )

    def _one_position(self, chain: int) -> Any:
        return jax.tree.map(lambda x: x[chain], self.state.position)

    def save_bias(self, path: str | Path, chain: int | None = None) -> None:
        """Write the bias to a file that :func:`tacthmc.dynamics.load_bias` reads."""
        save_bias(path, self.tempering_of(chain or 0).bias, self.bias_table(chain))

    def plot_free_energy(self, ax: Any = None) -> Any:
        """Plot A(ξ), each chain's and all chains' together; returns Matplotlib's axes."""
        from tacthmc.diagnostics._plots import plot_free_energy

        chains = [self.free_energy(chain) for chain in range(self.num_chains)]
        return plot_free_energy(self.free_energy(), chains, ax)

    def plot_xi(self, ax: Any = None) -> Any:
        """Plot ξ over time, one line a chain, the plateau shaded; returns Matplotlib's axes."""
        from tacthmc.diagnostics._plots import plot_xi

        coupling = self.tempering_of().coupling
        wall, plateau = float(coupling.wall), float(coupling.wall * coupling.efficiency)
        return plot_xi(self.trace["step"], self.trace["xi"], plateau, wall, ax)

    def plot_draws(self, ax: Any = None, count: int = 4) -> Any:
        """Histograms of the first ``count`` scalars, chain by chain; returns Matplotlib's axes."""
        from tacthmc.diagnostics._plots import plot_draws

        checks.whole("count", count, 1)
        chosen = scalar_names(self.some_draw_shapes(), count)
        values = [self.draws_of(leaf, index) for leaf, index, _ in chosen]
        weights = np.exp(self.log_weights) if self.keep.all_temperatures else None
        return plot_draws([name for _, _, name in chosen], values, weights, ax)

    def __repr__(self) -> str:
        """One line."""
        return (
            f"Run({self.num_chains} chains × {self.num_steps} steps, {self.num_draws} draws a"
            f" chain, {self.seconds:.1f} s{', interrupted' if self.interrupted else ''}"
            f"{', diverged' if self.failures else ''})"
        )


def _weighted_sum(weights: Array, values: Array) -> Array:
    """Σ_i w_i v_i over the leading axis; truth values and whole numbers count as floats."""
    if not jnp.issubdtype(values.dtype, jnp.inexact):
        values = values.astype(jnp.float32)
    return jnp.tensordot(weights.astype(values.dtype), values, axes=1)
