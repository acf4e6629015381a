"""The summary of a run in numbers and notes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacthmc._positions import dimension, scalar_names
from tacthmc.diagnostics._arviz import ess, has_arviz, mean_ess, rhat
from tacthmc.diagnostics._laws import Law
from tacthmc.diagnostics._weights import influence, weighted_mean, weighted_rhat, weighted_sd
from tacthmc.dynamics import Langevin
from tacthmc.run._law_notes import law_notes
from tacthmc.run._mode_notes import mode_notes
from tacthmc.run._replica_notes import replica_notes
from tacthmc.run._step_notes import step_notes

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_SHOWN_PARAMETERS = 16
MAX_RHAT = 1.01
"""The largest R-hat with which chains agree."""
MIN_USEFUL_TEMPERATURE = 1.1
"""The hottest temperature below which heating does not help to cross barriers."""


class Parameter(NamedTuple):
    """Statistics of one scalar of the position, over the draws of all chains."""

    name: str
    mean: float
    sd: float
    ess: float
    rhat: float


@dataclass(frozen=True)
class Summary:
    """The result of :meth:`Run.summary`. Print it, or read the fields."""

    title: str
    parameters: list[Parameter]
    num_parameters: int
    plateau_share: list[float]
    expected_plateau_share: float | None
    round_trips: list[int]
    flatness: list[float]
    thermostats: list[Law]
    notes: list[str]
    scheduled: bool = False
    """Whether ξ follows a schedule. Then its histogram has no meaning."""
    hottest: float | None = None
    """The temperature at the walls, the smallest over chains; None without a tempering variable."""
    mode_lines: tuple[str, ...] = ()
    """The shares of known modes, and how chains moved between them."""
    replica_lines: tuple[str, ...] = ()
    """The barrier, swaps and log Z of replicas on a path."""
    width_lines: tuple[str, ...] = ()
    """The configurational temperatures, or why they are not known."""
    warnings: tuple[str, ...] = ()
    """The warnings about modes, swaps, steps and tuning, which are among the notes too."""

    def __str__(self) -> str:
        """The tables as plain text."""
        parts = [[self.title], self._parameter_lines(), list(self.mode_lines)]
        parts += [list(self.width_lines)]
        parts += [list(self.replica_lines), self._xi_lines(), self._law_lines(), self.notes]
        return "\n\n".join("\n".join(lines) for lines in parts if lines)

    def _parameter_lines(self) -> list[str]:
        rows = [("", "mean", "sd", "ESS", "R-hat")]
        rows += [
            (p.name, f"{p.mean:.4g}", f"{p.sd:.4g}", f"{p.ess:.0f}", f"{p.rhat:.3f}")
            for p in self.parameters
        ]
        hidden = self.num_parameters - len(self.parameters)
        return _table(rows) + ([f"… and {hidden} more parameters"] if hidden > 0 else [])

    def _xi_lines(self) -> list[str]:
        if self.hottest is None:
            return []
        lines = [f"plateau share per chain: {' '.join(f'{s:.3f}' for s in self.plateau_share)}"]
        if self.expected_plateau_share is not None:
            why = "by its schedule" if self.scheduled else "if ξ is uniform"
            lines[0] += f" ({self.expected_plateau_share:.3f} {why})"
        lines.append(f"round trips of ξ per chain: {' '.join(map(str, self.round_trips))}")
        if self.flatness:
            flat = " ".join(f"{f:.3f}" for f in self.flatness)
            lines.append(f"distance of ξ from uniform (total variation) per chain: {flat}")
        return lines

    def _law_lines(self) -> list[str]:
        if not self.thermostats:
            return []
        rows = [("", "mean", "theory", "sd", "theory")]
        rows += [
            (
                law.name,
                *(f"{x:.4g}" for x in (law.mean, law.expected_mean)),
                *("" if np.isnan(x) else f"{x:.4g}" for x in (law.sd, law.expected_sd)),
            )
            for law in self.thermostats
        ]
        return _table(rows)


def summarize(run: "Run") -> Summary:
    """Compute the summary of a run."""
    rows, total = _parameters(run)
    xi = _xi_theory(run)
    modes, replicas, widths = mode_notes(run), replica_notes(run), law_notes(run)
    tuning = _tuning_notes(run, _worst_rhat(rows) > MAX_RHAT)
    warnings = tuning + modes.notes + replicas.notes + step_notes(run) + widths.notes
    notes = _notes(run, rows, xi.hottest) + warnings
    if not has_arviz():
        notes.append("! ESS and R-hat need ArviZ: pip install 'tacthmc[report]'")
    rate = run.num_steps * run.num_chains / max(run.seconds, 1e-9)
    weighted = " of all temperatures, weighted" if run.keep.all_temperatures else ""
    return Summary(
        title=(
            f"{run.num_chains} chains × {run.num_steps} steps ({run.keep.after} not kept),"
            f" {run.num_draws} draws per chain{weighted}, {run.seconds:.1f} s (and"
            f" {run.compile_seconds:.1f} s compiling), {rate:,.0f} chain-steps/s"
        ),
        parameters=rows,
        num_parameters=total,
        plateau_share=[float(x) for x in run.plateau_share],
        expected_plateau_share=xi.plateau_share,
        round_trips=[int(x) for x in run.round_trips],
        flatness=[float(x) for x in run.flatness] if xi.uniform else [],
        thermostats=run.thermostats,
        notes=notes,
        scheduled=xi.hottest is not None and not xi.uniform,
        hottest=xi.hottest,
        mode_lines=tuple(modes.lines),
        replica_lines=tuple(replicas.lines),
        width_lines=tuple(widths.lines),
        warnings=tuple(note.removeprefix("! ") for note in warnings if note.startswith("!")),
    )


class _XiTheory(NamedTuple):
    """The expected values of ξ, as far as the sampler is known."""

    plateau_share: float | None = None
    uniform: bool = False
    hottest: float | None = None


def _xi_theory(run: "Run") -> _XiTheory:
    if not (run.has_tempering and run.program_is_known and isinstance(run.sampler, Langevin)):
        return _XiTheory()
    each = [run.tempering_of(chain) for chain in range(run.num_chains)]
    shares = [one.expected_unit_share for one in each]
    known = [float(share) for share in shares if share is not None]
    return _XiTheory(
        plateau_share=float(np.mean(known)) if known else None,
        uniform=each[0].rest_steps is None,
        hottest=min(float(one.coupling.hottest) for one in each),
    )


def _parameters(run: "Run") -> tuple[list[Parameter], int]:
    one = run.draw_shapes()
    return parameters(run, scalar_names(one, MAX_SHOWN_PARAMETERS)), dimension(one)


def parameters(run: "Run", scalars: list[tuple[int, tuple[int, ...], str]]) -> list[Parameter]:
    """The statistics of each of these scalars."""
    weights = np.exp(run.log_weights) if run.keep.all_temperatures else None
    available = has_arviz()
    return [
        _parameter(name, np.asarray(run.draws_of(leaf, index), float), weights, available)
        for leaf, index, name in scalars
    ]


def _parameter(
    name: str, values: np.ndarray, weights: np.ndarray | None, has_arviz: bool
) -> Parameter:
    nan = float("nan")
    if values.size == 0:
        return Parameter(name, nan, nan, 0.0, nan)
    if weights is None:
        mean, sd = float(values.mean()), float(values.std())
    else:
        mean, sd = weighted_mean(values, weights), weighted_sd(values, weights)
    effective = effective_draws(values, weights) if has_arviz else nan
    known = has_arviz or weights is not None
    return Parameter(name, mean, sd, effective, split_rhat(values, weights) if known else nan)


def effective_draws(values: np.ndarray, weights: np.ndarray | None) -> float:
    """Bulk ESS of (chain, draw) values, or the ESS of their weighted mean."""
    if weights is None:
        return ess(values)
    shares, sd = influence(values, weights), weighted_sd(values, weights)
    spread = float(shares.var())
    return sd**2 / (spread / mean_ess(shares)) if sd > 0 and spread > 0 else float("nan")


def split_rhat(values: np.ndarray, weights: np.ndarray | None) -> float:
    """R-hat of (chain, draw) values, weighted or not."""
    return rhat(values) if weights is None else weighted_rhat(values, weights)


def _end_notes(run: "Run") -> list[str]:
    """How the run ended."""
    notes = [f"! {failure}" for failure in run.failures]
    if run.interrupted:
        notes.append("! the run was interrupted; these are its results until then")
    if run.until is not None:
        notes.append(str(run.until))
    return notes


def _tuning_notes(run: "Run", chains_disagree: bool) -> list[str]:
    """What tuning has to say about a run with its sampler."""
    tuning = run.tuning if run.program_is_known else None
    if tuning is None:
        return []
    said = [tuning.advice if chains_disagree else "", tuning.doubt]
    return [f"! {text}" for text in said if text]


def _notes(run: "Run", parameters: list[Parameter], hottest: float | None) -> list[str]:
    notes = _end_notes(run)
    if run.num_draws == 0:
        notes.append(
            "! at least one chain has no draw at unit temperature: run longer, or look at"
            " run.trace['xi'] and run.all_draws"
        )
    elif hottest is not None and hottest < MIN_USEFUL_TEMPERATURE:
        notes.append(
            f"! the hottest temperature of ξ is {hottest:.6g}: draws are those of SGNHT, no"
            " barriers were crossed by heating"
        )
    elif run.has_tempering and run.round_trips.min() == 0:
        notes.append(
            "! in at least one chain ξ made no round trip: its draws are those of SGNHT, no"
            " barriers were crossed by heating"
        )
    worst = _worst_rhat(parameters)
    if worst > MAX_RHAT:
        notes.append(
            f"! R-hat reaches {worst:.3f} in the parameters shown: chains disagree, run longer"
        )
    return notes


def _worst_rhat(parameters: list[Parameter]) -> float:
    return max((p.rhat for p in parameters if np.isfinite(p.rhat)), default=1.0)


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
