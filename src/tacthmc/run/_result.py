"""The result of a run: draws, statistics, diagnostics and export."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc import _checks as checks
from tacthmc._notebook import text
from tacthmc._positions import leaf_names, scalar_names
from tacthmc._typing import Draws, Position, PRNGKey
from tacthmc.diagnostics._arviz import STORED_GROUPS, export, open_store
from tacthmc.diagnostics._evidence import EvidenceRatio
from tacthmc.diagnostics._laws import Law, flatness
from tacthmc.diagnostics._weights import log_weights
from tacthmc.dynamics import Langevin, Sampler, Tempering, save_bias
from tacthmc.dynamics._bias import FreeEnergy
from tacthmc.potentials import Potential, SubsetPotential
from tacthmc.run._bias_results import bias_table, log_evidence_ratio
from tacthmc.run._by_mode import ByMode, by_mode
from tacthmc.run._constrained_draws import constrained_draws
from tacthmc.run._draw_noise import DrawNoise, measured_noise
from tacthmc.run._effective import Standing
from tacthmc.run._expectation import expectation
from tacthmc.run._failure import Failure
from tacthmc.run._interval import Kept
from tacthmc.run._keep import Keep
from tacthmc.run._measured import Measurements, T
from tacthmc.run._parameters import Judged, judged
from tacthmc.run._potential_facts import PotentialFacts
from tacthmc.run._program import Chains
from tacthmc.run._record import Record
from tacthmc.run._summary import Summary, summarize
from tacthmc.run._thermostat_laws import measured_laws
from tacthmc.run._trimmed import Trimmed
from tacthmc.run._width import Widths, measured_widths
from tacthmc.store._damage import check_chunks
from tacthmc.store._errors import StoreError
from tacthmc.store._folder import Folder
from tacthmc.store._pickles import observed
from tacthmc.store._plain_zarr import check_plain


class Run:
    """A finished run.

    ``draws`` and ``stats`` hold only draws at unit temperature after the first ``keep.after`` steps
    (or, with ``Keep(temperatures="all")``, draws of all temperatures with ``log_weights``). Chains
    reach the plateau at different times, so their numbers of draws differ. ``draws`` is the
    rectangle of the first n draws of each chain, where n is the smallest number of any chain. Which
    draws are left out depends on their number, never on their values. ``all_draws`` has all draws
    of every chain. ``trace`` has one row per ``keep.every`` steps at all temperatures, from the
    first step on.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.tact(0.01), target, jnp.zeros(2), 10_000)
    >>> run.draws.shape == (1, run.num_draws, 2), run.trace["xi"].shape
    (True, (1, 200))
    """

    def __init__(
        self,
        *,
        samplers: Callable[[], list[Sampler]],
        potential: Callable[[], Potential],
        facts: Callable[[], PotentialFacts],
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
        is_made_here: bool = False,
        until: Standing | None = None,
    ):
        """Join the results; :func:`tacthmc.sample`, ``resume`` and ``load`` make runs."""
        self.key, self._samplers, self._potential, self._facts = key, samplers, potential, facts
        self.failures, self.interrupted = failures, interrupted
        self.num_steps, self.keep = num_steps, keep
        self.until = until
        """Where the condition ``until=`` stood at the end, or None for a run without one."""
        self.seconds, self.compile_seconds = seconds, compile_seconds
        self.path = None if folder is None else folder.path
        """The folder of the run, if it has one."""
        self._is_made_here = is_made_here
        self._record, self._chains, self._folder = record, chains, folder

    @cached_property
    def samplers(self) -> list[Sampler]:
        """The sampler of each chain."""
        return self._samplers()

    @cached_property
    def potential(self) -> Potential:
        """The potential that was sampled. A loaded run has it if it was given or is trusted."""
        return self._potential()

    @cached_property
    def facts(self) -> PotentialFacts:
        """What is known of the potential without its functions."""
        return self._facts()

    @property
    def sampler_is_known(self) -> bool:
        """Whether the sampler is known, perhaps without its functions."""
        try:
            return bool(self.samplers)
        except StoreError:
            return False

    @property
    def program_is_known(self) -> bool:
        """Whether sampler and potential are known, with all of their functions."""
        try:
            return bool(self.samplers) and self.potential is not None
        except StoreError:
            return False

    @property
    def sampler(self) -> Sampler:
        """The sampler, or that of the first chain if each has its own."""
        return self.samplers[0]

    @property
    def tuning(self) -> Any:
        """The choices of tuning and their reasons, or None if all numbers were given."""
        return getattr(self.sampler, "tuning", None)

    @cached_property
    def chains(self) -> Chains:
        """The complete chains at the end, as in :class:`tacthmc.Program`."""
        chains: Any = self._chains
        return cast("Chains", chains() if callable(chains) else chains)

    @property
    def state(self) -> Any:
        """The last states of the chains, with a leading chain axis."""
        return self.chains.each.state

    @property
    def num_chains(self) -> int:
        """The number of chains."""
        return len(self._record.counts)

    @property
    def counts(self) -> np.ndarray:
        """The number of draws of each chain."""
        return self._record.counts

    @property
    def num_draws(self) -> int:
        """The number of draws per chain in the rectangle ``draws``."""
        return int(self.counts.min())

    def _rectangle(self, part: str) -> Any:
        count = self.num_draws
        chains = [getattr(self._record.kept(c, 0, count), part) for c in range(self.num_chains)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *chains)

    @property
    def all_draws(self) -> list[Draws]:
        """All kept draws: for each chain a pytree with a leading draw axis."""
        return [self._record.kept(c, 0, int(n)).position for c, n in enumerate(self.counts)]

    @cached_property
    def draws(self) -> Draws:
        """The draws as a pytree like the position, with leading axes (chain, draw)."""
        return self._rectangle("position")

    @cached_property
    def constrained(self) -> Draws:
        """The draws with constrained values, of a potential from :func:`tacthmc.constrained`."""
        return constrained_draws(self)

    @cached_property
    def model_states(self) -> Any:
        """The model state of each draw, with leading axes (chain, draw), or None."""
        return self._rectangle("model")

    @cached_property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics of the draws, each (chain, draw), with their ``step``."""
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
        # Weights depend on the energy that λ multiplies.
        split = "tempered_energy" in self._record.stat_names
        energy = "tempered_energy" if split else "full_energy"
        return log_weights(
            [self._record.stat("lambda", c) for c in chains],
            [self._record.stat(energy, c) for c in chains],
        )

    @property
    def log_weights(self) -> np.ndarray:
        """The logarithm of the weight of each draw, (chain, draw); zero for equal weights."""
        return np.stack([w[: self.num_draws] for w in self._all_log_weights])

    def expectation(self, function: Callable[..., Any], *, block: int = 64) -> Any:
        """The posterior mean of a function of the position, over all draws of all chains.

        Draws have their weights, and are read in blocks, so a stored run needs no more memory than
        one block. For a model with a state (batch norm) the function takes the state of each draw
        as a second argument.

        >>> import jax, jax.numpy as jnp, tacthmc
        >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
        >>> key, sampler = jax.random.key(0), tacthmc.sgnht(0.1)
        >>> run = tacthmc.sample(key, sampler, target, jnp.zeros(2), 50_000)
        >>> bool(abs(run.expectation(lambda x: jnp.sum(x**2)) - 2.0) < 0.3)
        True
        """
        return expectation(self, function, block)

    def blocks(self, size: int = 64) -> Iterator[tuple[int, Kept, np.ndarray]]:
        """All draws of all chains in blocks: the chain, its draws and their weights."""
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
        """One scalar of the position, (chain, draw), without reading the others."""
        count = self.num_draws
        return np.stack(
            [self._record.scalar(leaf, index, c, count) for c in range(self.num_chains)]
        )

    def leaf_draws(self, leaf: int, chain: int, rows: slice) -> np.ndarray:
        """Some draws of one leaf of the position, without reading the others."""
        return self._record.leaf(leaf, chain, rows)

    def draw_shapes(self) -> Any:
        """The shapes of one draw."""
        kept = self._record.kept(0, 0, 0)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), kept.position)

    def one_draw(self, chain: int, draw: int) -> Position:
        """One draw, on the device."""
        kept = self._record.kept(chain, draw, draw + 1)
        return jax.tree.map(lambda x: jnp.asarray(x[0]), kept.position)

    def whole(self, position: Any) -> Any:
        """A draw (or ``draws``) joined with the leaves that were held fixed."""
        if self.config is not None and not self.config["subset"]:
            return position
        part = self.potential
        return eqx.combine(position, part.rest) if isinstance(part, SubsetPotential) else position

    def named_draws(self) -> dict[str, np.ndarray]:
        """The leaves of ``draws`` by name."""
        return dict(zip(leaf_names(self.draws), jax.tree.leaves(self.draws), strict=True))

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The config of a stored run (versions, device, key, sampler), or None."""
        return None if self._folder is None else self._folder.config

    @property
    def has_tempering(self) -> bool:
        """Whether the run had a tempering variable."""
        return "xi" in self.trace

    def _usable(self) -> np.ndarray:
        """Whether each row of each chain is after ``keep.after`` and finite."""
        return (self.trace["step"] > self.keep.after) & self.trace["finite"]

    def after_warmup(self, name: str) -> np.ndarray:
        """A column of ``trace`` after ``keep.after``, up to the first failure of any chain."""
        return self.trace[name][:, np.all(self._usable(), axis=0)]

    @cached_property
    def plateau_share(self) -> np.ndarray:
        """The share of steps at unit temperature of each chain; ξ0/W0 if ξ is uniform."""
        shares, usable = self.trace["plateau_share"], self._usable()
        return np.where(usable, shares, 0).sum(axis=1) / np.maximum(usable.sum(axis=1), 1)

    @cached_property
    def round_trips(self) -> np.ndarray:
        """The number of round trips of each chain, plateau → next to a wall → plateau.

        For replica exchange these are trips of one replica, coldest → hottest → coldest.
        """
        if "round_trips" not in self.trace:
            return np.zeros(self.num_chains, int)
        return np.where(self._usable(), self.trace["round_trips"], 0).sum(axis=1)

    @cached_property
    def flatness(self) -> np.ndarray:
        """The total variation between the histogram of ξ and the uniform law, for each chain."""
        xi = self.after_warmup("xi")
        walls = [float(self.tempering_of(c).coupling.wall) for c in range(self.num_chains)]
        return np.concatenate([flatness(x[None], w) for x, w in zip(xi, walls, strict=True)])

    @cached_property
    def draw_noise(self) -> DrawNoise:
        """The noise of batches at a few draws, in the coordinates of the sampler."""
        return measured_noise(self)

    @cached_property
    def thermostats(self) -> list[Law]:
        """Thermostats and momenta against Theorem 1, with the noise measured at a few draws.

        The list is empty for chains with different settings, and if batches come from a loader.
        """
        if not (self.sampler_is_known and self.num_draws and isinstance(self.sampler, Langevin)):
            return []
        if self.facts.is_streamed or any(s is not self.sampler for s in self.samplers):
            return []
        with jax.enable_x64(self.x64):
            return self.measured("thermostats against theory", lambda: measured_laws(self)) or []

    @cached_property
    def measurements(self) -> Measurements:
        """What was measured with the potential. The process that makes a run stores it."""
        return Measurements(self.path, self.num_steps, writes=self._is_made_here)

    def measured(self, name: str, measure: Callable[[], T]) -> T | None:
        """The result of ``measure``, which needs the potential, or what the folder has of it."""
        return self.measurements.get(name, measure if self.program_is_known else None)

    @property
    def x64(self) -> bool:
        """Whether the run computes in double precision."""
        if self.config is not None:
            return bool(self.config["x64"])
        return bool(jax.config.read("jax_enable_x64"))

    def cold_draw(self, chain: int, where: float) -> Position:
        """A draw at unit temperature (if there is one), at the share ``where`` of a chain."""
        cold = np.arange(self.num_draws)
        if self.keep.all_temperatures and self.has_tempering:
            at_one = np.flatnonzero(self._record.stat("lambda", chain)[: self.num_draws] == 1)
            cold = at_one if at_one.size else cold
        return self.one_draw(chain, int(cold[int(where * len(cold))]))

    @cached_property
    def _summary(self) -> Summary:
        return summarize(self)

    def summary(self) -> Summary:
        """All parameters, plateau share, round trips of ξ, thermostats against theory, a verdict.

        It is computed once.
        """
        return self._summary

    @cached_property
    def judged(self) -> Judged | None:
        """R-hat and effective draws of all parameters, with their limits; None without draws."""
        return judged(self)

    @cached_property
    def width(self) -> Widths:
        """The configurational temperature of leaves, coordinates and modes: 1 in a right run."""
        return measured_widths(self)

    def by_mode(self, fold: Callable[[Any], Any] | None = None, *, evidence: bool = True) -> ByMode:
        """The draws mode by mode: share ± error, mean, sd and log evidence, the heaviest first.

        Modes are those that the sampler jumps between or that its warm-up found, and otherwise
        those that valleys divide in the draws of the first few scalars. Shares are of draws. The
        evidence is ∫exp(−U) over the mode, by bridge sampling (:mod:`tacthmc.diagnostics._bridge`);
        it needs a list of modes, and a few hundred energies of all data for each of them.

        Args:
            fold: maps a position to the one of its symmetric copies that stands for all, such as
                ``jnp.sort``. Modes that are copies of each other then count as one.
            evidence: whether to compute the evidence.

        >>> import jax, jax.numpy as jnp, tacthmc
        >>> target = tacthmc.potential(lambda x: 4.0 * jnp.sum((x**2 - 1.0) ** 2))
        >>> run = tacthmc.sample(jax.random.key(0), tacthmc.tact(), target, jnp.ones(1), 20_000, 4,
        ...                      progress=False)
        >>> found = run.by_mode()
        >>> len(found.modes), bool(abs(found.modes[0].share - 0.5) < 0.05)
        (2, True)
        >>> len(run.by_mode(fold=jnp.abs).modes)
        1
        """
        return by_mode(self, fold, evidence=evidence)

    def to_arviz(self) -> Any:
        """The draws as an InferenceData or DataTree, depending on the installed ArviZ.

        A stored run is opened lazily.
        """
        first = self._record.first if isinstance(self._record, Trimmed) else 0
        if self._folder is not None and not self.keep.all_temperatures and first is not None:
            check_chunks(self._folder, STORED_GROUPS)
            check_plain(self._folder.root, self._folder.specs)
            stored = open_store(self._folder.root)
            return stored.isel(draw=slice(first, None)) if first else stored
        if self._folder is None:
            data = {name: np.asarray(value) for name, value in observed(self.potential).items()}
        else:
            data = self._folder.read_group("observed_data")
        return export(self.named_draws(), self.stats, data)

    def tempered_sampler(self, chain: int = 0) -> Any:
        """The sampler of a chain, checked to have a tempering variable."""
        sampler = self.samplers[chain]
        if not isinstance(sampler, Langevin) or sampler.tempering is None:
            raise ValueError("this run had no tempering variable")
        return sampler

    def tempering_of(self, chain: int = 0) -> Tempering:
        """The tempering of a chain, or an error without one."""
        return self.tempered_sampler(chain).tempering

    def bias_table(self, chain: int | None = None) -> Any:
        """The table of the bias of one chain, or the pooled one of all chains."""
        return bias_table(self, chain)

    def free_energy(self, chain: int | None = None) -> FreeEnergy:
        """The free-energy profile A(ξ) of the bias."""
        tempering = self.tempering_of(chain or 0)
        bath = float(self.tempered_sampler(chain or 0).bath_temperature)
        return tempering.bias.free_energy(self.bias_table(chain), tempering.coupling, bath)

    def log_evidence_ratio(self, temperature: float | None = None) -> EvidenceRatio:
        """log Z(1/temperature) − log Z(1) with Z(λ) = ∫exp(−λU), by thermodynamic integration.

        With :func:`tacthmc.temper_likelihood` Z(λ) = ∫p(θ)·p(data | θ)^λ is the evidence of the
        power posterior, and with a normalized prior Z(1) is the evidence itself.

        The estimate comes from the bias of each chain (:mod:`tacthmc.diagnostics._evidence`), which
        includes the warm-up. The error over chains is therefore right for a long run, and too small
        for a short one. The default temperature is the hottest.
        """
        return log_evidence_ratio(self, temperature)

    def save_bias(self, path: str | Path, chain: int | None = None) -> None:
        """Write the bias to a file that :func:`tacthmc.dynamics.load_bias` reads."""
        save_bias(path, self.tempering_of(chain or 0).bias, self.bias_table(chain))

    def plot_free_energy(self, ax: Any = None) -> Any:
        """Plot A(ξ) of each chain and of all chains together; returns the Matplotlib axes."""
        from tacthmc.diagnostics._plots import plot_free_energy

        chains = [self.free_energy(chain) for chain in range(self.num_chains)]
        return plot_free_energy(self.free_energy(), chains, ax)

    def plot_xi(self, ax: Any = None) -> Any:
        """Plot ξ over time, with one line per chain; returns the Matplotlib axes."""
        from tacthmc.diagnostics._plots import plot_xi

        coupling = self.tempering_of().coupling
        wall, plateau = float(coupling.wall), float(coupling.wall * coupling.efficiency)
        return plot_xi(self.trace["step"], self.trace["xi"], plateau, wall, ax)

    def plot_draws(self, ax: Any = None, count: int = 4) -> Any:
        """Plot histograms of the first ``count`` scalars; returns the Matplotlib axes."""
        from tacthmc.diagnostics._plots import plot_draws

        checks.whole("count", count, 1)
        chosen = scalar_names(self.draw_shapes(), count)
        values = [self.draws_of(leaf, index) for leaf, index, _ in chosen]
        weights = np.exp(self.log_weights) if self.keep.all_temperatures else None
        return plot_draws([name for _, _, name in chosen], values, weights, ax)

    def _repr_html_(self) -> str:
        where = "" if self.path is None else f" in {self.path}"
        return f"<p><b>{text(repr(self))}</b>{text(where)}</p><p>run.summary() judges it.</p>"

    def __repr__(self) -> str:
        return (
            f"Run({self.num_chains} chains × {self.num_steps} steps, {self.num_draws} draws per"
            f" chain, {self.seconds:.1f} s{', interrupted' if self.interrupted else ''}"
            f"{', diverged' if self.failures else ''})"
        )
