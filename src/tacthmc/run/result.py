"""What a run leaves: draws, statistics, diagnostics, export."""

from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tacthmc._typing import Draws, Position, PRNGKey
from tacthmc.bias import FreeEnergy
from tacthmc.bias_file import save_bias
from tacthmc.diagnostics import Law, flatness, thermostat_laws
from tacthmc.family import Langevin
from tacthmc.noise import measure_noise
from tacthmc.positions import leaf_names
from tacthmc.potential import Posterior, Potential, WrappedPotential
from tacthmc.run.collect import Collected
from tacthmc.run.exchange import export
from tacthmc.run.failure import Failure
from tacthmc.run.summary import Summary, summarise
from tacthmc.samplers.base import Sampler


class Run:
    """A finished run.

    ``draws`` and ``stats`` hold only draws at unit temperature after warm-up. Chains reach
    the plateau at different times, so their numbers of draws differ: ``draws`` is the
    rectangle of each chain's first n draws, n the least number of any chain; ``all_draws``
    has every chain's draws. ``trace`` has one row per ``keep_every`` steps at all
    temperatures, warm-up included.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.tact(0.01), target, jnp.zeros(2), 10_000)
    >>> run.draws.shape == (1, run.num_draws, 2), run.trace["xi"].shape
    (True, (1, 200))
    """

    def __init__(
        self,
        *,
        sampler: Sampler,
        potential: Potential,
        key: PRNGKey,
        rest: Any,
        collected: Collected,
        state: Any,
        num_steps: int,
        num_warmup: int,
        interrupted: bool,
        seconds: float,
        first_chunk_seconds: float,
    ):
        """Made by :func:`tacthmc.sample`."""
        self.sampler, self.potential, self.key = sampler, potential, key
        self.state, self.num_steps, self.num_warmup = state, num_steps, num_warmup
        self.interrupted, self.seconds = interrupted, seconds
        self.first_chunk_seconds = first_chunk_seconds
        self._rest, self._collected = rest, collected

    @property
    def num_chains(self) -> int:
        """How many chains ran."""
        return len(self._collected.draws)

    @property
    def num_draws(self) -> int:
        """Draws per chain in the rectangle ``draws``."""
        return min(len(steps) for steps in self._collected.draw_steps)

    @property
    def all_draws(self) -> list[Draws]:
        """Every kept draw of each chain, a pytree with a leading draw axis per chain."""
        return self._collected.draws

    @cached_property
    def draws(self) -> Draws:
        """The position's pytree with leading (chain, draw)."""
        count = self.num_draws
        return jax.tree.map(lambda *chains: np.stack([c[:count] for c in chains]), *self.all_draws)

    @cached_property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics of the draws, each (chain, draw), with the step each was made at."""
        count = self.num_draws
        chains = self._collected.draw_stats
        stats = {name: np.stack([c[name][:count] for c in chains]) for name in chains[0]}
        stats["step"] = np.stack([steps[:count] for steps in self._collected.draw_steps])
        return stats

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """Statistics every ``keep_every`` steps at all temperatures, each (chain, row)."""
        return self._collected.trace

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The chains that stopped being finite, if any."""
        return self._collected.failures

    def whole(self, position: Any) -> Any:
        """A draw (or ``draws``) with the leaves that were not sampled put back."""
        return position if self._rest is None else eqx.combine(position, self._rest)

    def named_draws(self) -> dict[str, np.ndarray]:
        """The leaves of ``draws`` by name."""
        return dict(zip(leaf_names(self.draws), jax.tree.leaves(self.draws), strict=True))

    @property
    def tempered(self) -> bool:
        """Whether a tempering variable ran."""
        return "xi" in self.trace

    def _usable(self) -> np.ndarray:
        """Which rows of each chain are after warm-up and finite."""
        return (self.trace["step"] > self.num_warmup) & self.trace["finite"]

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
        """Each chain's number of journeys plateau → next to a wall → plateau."""
        if not self.tempered:
            return np.zeros(self.num_chains, int)
        return np.where(self._usable(), self.trace["round_trips"], 0).sum(axis=1)

    @cached_property
    def flatness(self) -> np.ndarray:
        """Each chain's total variation between ξ's histogram and the uniform law."""
        sampler = self._tempered_sampler()
        assert sampler.coupling is not None
        return flatness(self.after_warmup("xi"), float(sampler.coupling.wall))

    @cached_property
    def thermostats(self) -> list[Law]:
        """Thermostats and momenta against Theorem 1, with the noise measured at a few draws."""
        if not isinstance(self.sampler, Langevin) or self.num_draws == 0:
            return []
        # A stream of its own: chains fold their index into the same key.
        key = jax.random.fold_in(self.key, 2**31)
        levels = [
            measure_noise(jax.random.fold_in(key, i), self.potential, self._some_draw(i), 256)
            for i in range(4)
        ]
        force = jax.tree.map(
            lambda *v: np.asarray(np.mean(v, axis=0)), *(level.force for level in levels)
        )
        energy = float(np.mean([level.energy for level in levels]))
        return thermostat_laws(self.sampler, self._some_draw(0), force, energy, self.after_warmup)

    def _some_draw(self, index: int) -> Position:
        chain = index % self.num_chains
        which = (index + 1) * self.num_draws // 5
        return jax.tree.map(lambda x: jax.numpy.asarray(x[chain, which]), self.draws)

    def summary(self) -> Summary:
        """R-hat, ESS, plateau share, round trips of ξ, thermostats against theory."""
        return summarise(self)

    def to_arviz(self) -> Any:
        """An InferenceData or DataTree (whichever the installed ArviZ has) of the draws."""
        observed, potential = {}, self.potential
        while isinstance(potential, WrappedPotential):
            potential = potential.inner
        if isinstance(potential, Posterior):
            data = potential.data
            names = [f"data.{n}" if n != "theta" else "data" for n in leaf_names(data)]
            observed = dict(zip(names, map(np.asarray, jax.tree.leaves(data)), strict=True))
        return export(self.named_draws(), self.stats, observed)

    def _tempered_sampler(self) -> Langevin:
        if not self.tempered or not isinstance(self.sampler, Langevin):
            raise ValueError("this run had no tempering variable")
        return self.sampler

    def bias_table(self, chain: int | None = None) -> Any:
        """The bias learnt by one chain, or by all of them together."""
        sampler = self._tempered_sampler()
        tables = self.state.tempering.bias
        if chain is None:
            failed = {failure.chain for failure in self.failures}
            sound = np.array([c for c in range(self.num_chains) if c not in failed], int)
            if not sound.size:
                raise ValueError("no chain stayed finite: there is no bias to show")
            return sampler.bias.pooled(jax.tree.map(lambda table: table[sound], tables))
        return jax.tree.map(lambda table: table[chain], tables)

    def free_energy(self, chain: int | None = None) -> FreeEnergy:
        """The free-energy profile A(ξ) that the bias stands for."""
        sampler = self._tempered_sampler()
        assert sampler.coupling is not None
        bath = float(sampler.bath_temperature)
        return sampler.bias.free_energy(self.bias_table(chain), sampler.coupling, bath)

    def save_bias(self, path: str | Path, chain: int | None = None) -> None:
        """Write the bias to a file that :func:`tacthmc.load_bias` reads."""
        save_bias(path, self._tempered_sampler().bias, self.bias_table(chain))

    def plot_free_energy(self, ax: Any = None) -> Any:
        """Plot A(ξ), each chain's and all chains' together; returns Matplotlib's axes."""
        from tacthmc.plots import plot_free_energy

        chains = [self.free_energy(chain) for chain in range(self.num_chains)]
        return plot_free_energy(self.free_energy(), chains, ax)

    def __repr__(self) -> str:
        """One line."""
        return (
            f"Run({self.num_chains} chains × {self.num_steps} steps, {self.num_draws} draws a"
            f" chain, {self.seconds:.1f} s{', interrupted' if self.interrupted else ''}"
            f"{', diverged' if self.failures else ''})"
        )
