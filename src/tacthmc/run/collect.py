"""From the device's rows to draws on the host."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from tacthmc._typing import Draws
from tacthmc.run.chunk import Health, Row
from tacthmc.run.failure import Failure

STATISTICS = (
    "energy",
    "kinetic_temperature",
    "thermostat",
    "xi",
    "temperature",
    "xi_kinetic_temperature",
    "xi_thermostat",
)


@dataclass(frozen=True)
class Collected:
    """Draws of each chain, and the trace of all temperatures."""

    draws: list[Draws]
    draw_steps: list[np.ndarray]
    draw_stats: list[dict[str, np.ndarray]]
    trace: dict[str, np.ndarray]
    failures: tuple[Failure, ...]


@dataclass
class Collector:
    """Gathers chunks: keeps what is a draw, and a row of statistics per interval."""

    num_chains: int
    num_warmup: int
    failures: list[Failure] = field(default_factory=list)
    kept: int = 0
    last: Row | None = None
    _chunks: list[tuple[list[Draws], dict[str, np.ndarray]]] = field(default_factory=list)

    def add(self, filled: Row, count: int, health: Health) -> None:
        """Take in a chunk's first ``count`` rows."""
        rows: Row = jax.tree.map(lambda x: np.asarray(x)[:, :count], filled)
        bad_steps, bad_what = np.asarray(health.step), np.asarray(health.what)
        good = (bad_steps[:, None] == 0) | (rows.step < bad_steps[:, None])
        keep = rows.keep & good & (rows.step > self.num_warmup)
        draws = [_picked(rows.position, c, keep[c]) for c in range(self.num_chains)]
        columns = {
            name: np.asarray(value)
            for name in (*STATISTICS, "plateau_share", "round_trips", "step")
            if (value := getattr(rows, name)) is not None
        }
        # One append: an interrupt leaves a chunk out or in, never half of it.
        self._chunks.append((draws, columns | {"keep": keep, "finite": good}))
        self.kept += int(keep.sum())
        self.last = rows
        for chain in np.flatnonzero(bad_steps):
            heat = rows.kinetic_temperature
            finite = None
            if heat is not None:
                seen = heat[chain][np.isfinite(heat[chain]) & good[chain]]
                finite = float(seen[-1]) if seen.size else None
            self.failures.append(
                Failure.from_code(int(chain), int(bad_steps[chain]), int(bad_what[chain]), finite)
            )

    def finished(self) -> Collected:
        """Everything gathered, chain by chain."""
        trace = {
            name: np.concatenate([columns[name] for _, columns in self._chunks], axis=1)
            for name in self._chunks[0][1]
        }
        draws = [
            jax.tree.map(lambda *parts: np.concatenate(parts), *(d[c] for d, _ in self._chunks))
            for c in range(self.num_chains)
        ]
        keep = trace["keep"]
        chosen: list[dict[str, Any]] = [
            {name: trace[name][c][keep[c]] for name in STATISTICS if name in trace}
            for c in range(self.num_chains)
        ]
        steps = [trace["step"][c][keep[c]] for c in range(self.num_chains)]
        return Collected(draws, steps, chosen, trace, tuple(self.failures))


def _picked(positions: Draws, chain: int, which: np.ndarray) -> Draws:
    return jax.tree.map(lambda x: x[chain][which], positions)
