"""A run in numbers and in words."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacthmc._positions import dimension, scalar_names
from tacthmc.diagnostics._arviz import arviz_is_there, ess, mean_ess, rhat
from tacthmc.diagnostics._laws import Law
from tacthmc.diagnostics._weights import influence, weighted_mean, weighted_rhat, weighted_sd
from tacthmc.dynamics import ContinuousTempering, Langevin, ScheduledTempering, Tempering

if TYPE_CHECKING:
    from tacthmc.run._result import Run

SHOWN = 16
HARDLY_WARM = 1.1
"""A hottest temperature below this crosses no barrier that unit temperature does not."""


class Parameter(NamedTuple):
    """One scalar of the position, over all chains' draws at unit temperature."""

    name: str
    mean: float
    sd: float
    ess: float
    rhat: float


@dataclass(frozen=True)
class Summary:
    """What :meth:`Run.summary` returns; print it, or read the fields."""

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
    """Whether ξ follows a schedule: then its histogram says nothing."""
    hottest: float | None = None
    """The temperature at ξ's walls, the least of the chains'; None where there is no ξ."""

    def __str__(self) -> str:
        """Plain-text tables."""
        lines = [self.title, ""]
        rows = [("", "mean", "sd", "ESS", "R-hat")]
        rows += [
            (p.name, f"{p.mean:.4g}", f"{p.sd:.4g}", f"{p.ess:.0f}", f"{p.rhat:.3f}")
            for p in self.parameters
        ]
        lines += _table(rows)
        if self.num_parameters > len(self.parameters):
            lines.append(f"… and {self.num_parameters - len(self.parameters)} more parameters")
        if self.expected_plateau_share is not None:
            shares = " ".join(f"{s:.3f}" for s in self.plateau_share)
            why = "by its schedule" if self.scheduled else "if ξ is uniform"
            lines += [
                "",
                f"plateau share per chain: {shares} ({self.expected_plateau_share:.3f} {why})",
                f"round trips of ξ per chain: {' '.join(map(str, self.round_trips))}",
            ]
            if not self.scheduled:
                flat = " ".join(f"{f:.3f}" for f in self.flatness)
                lines.append(f"ξ's distance from uniform (total variation) per chain: {flat}")
        if self.thermostats:
            rows = [("", "mean", "theory", "sd", "theory")]
            rows += [
                (
                    law.name,
                    *(f"{x:.4g}" for x in (law.mean, law.expected_mean)),
                    *("" if np.isnan(x) else f"{x:.4g}" for x in (law.sd, law.expected_sd)),
                )
                for law in self.thermostats
            ]
            lines += ["", *_table(rows)]
        if self.notes:
            lines += ["", *self.notes]
        return "\n".join(lines)


def summarize(run: "Run") -> Summary:
    """Gather a run's numbers."""
    rows, total = _parameters(run)
    expected, scheduled, hottest = None, False, None
    if run.tempered and run.program_is_known and isinstance(run.sampler, Langevin):
        each = [run.tempering_of(chain) for chain in range(run.num_chains)]
        scheduled = isinstance(each[0], ScheduledTempering)
        expected = float(np.mean([share for one in each if (share := _share(one)) is not None]))
        hottest = min(float(one.coupling.hottest) for one in each)
    notes = _notes(run, rows, hottest)
    if not arviz_is_there():
        notes.append("! ESS and R-hat need ArviZ: pip install arviz")
    rate = run.num_steps * run.num_chains / max(run.seconds, 1e-9)
    weighted = " of all temperatures, weighted" if run.keep.all_temperatures else ""
    return Summary(
        title=(
            f"{run.num_chains} chains × {run.num_steps} steps ({run.keep.after} not kept),"
            f" {run.num_draws} draws a chain{weighted}, {run.seconds:.1f} s (and"
            f" {run.compile_seconds:.1f} s compiling), {rate:,.0f} chain-steps/s"
        ),
        parameters=rows,
        num_parameters=total,
        plateau_share=[float(x) for x in run.plateau_share],
        expected_plateau_share=expected,
        round_trips=[int(x) for x in run.round_trips],
        flatness=[float(x) for x in run.flatness] if expected is not None and not scheduled else [],
        thermostats=run.thermostats,
        notes=notes,
        scheduled=scheduled,
        hottest=hottest,
    )


def _share(tempering: Tempering) -> float | None:
    """Of the steps that are at unit temperature, as far as that is known beforehand."""
    if isinstance(tempering, ScheduledTempering):
        return float(tempering.rest)
    if isinstance(tempering, ContinuousTempering):
        return float(tempering.coupling.efficiency * tempering.keep_within)
    return None


def _parameters(run: "Run") -> tuple[list[Parameter], int]:
    one = run.some_draw_shapes()
    return parameters(run, scalar_names(one, SHOWN)), dimension(one)


def parameters(run: "Run", scalars: list[tuple[int, tuple[int, ...], str]]) -> list[Parameter]:
    """A row for each of these scalars."""
    weights = np.exp(run.log_weights) if run.keep.all_temperatures else None
    there = arviz_is_there()
    return [
        _parameter(name, np.asarray(run.draws_of(leaf, index), float), weights, there)
        for leaf, index, name in scalars
    ]


def _parameter(name: str, values: np.ndarray, weights: np.ndarray | None, there: bool) -> Parameter:
    nan = float("nan")
    if values.size == 0:
        return Parameter(name, nan, nan, 0.0, nan)
    if weights is None:
        ess_rhat = (ess(values), rhat(values)) if there else (nan, nan)
        return Parameter(name, float(values.mean()), float(values.std()), *ess_rhat)
    sd = weighted_sd(values, weights)
    effective = nan
    if there and sd > 0:
        shares = influence(values, weights)
        effective = sd**2 / (shares.var() / mean_ess(shares)) if shares.var() > 0 else nan
    return Parameter(
        name, weighted_mean(values, weights), sd, effective, weighted_rhat(values, weights)
    )


def _notes(run: "Run", parameters: list[Parameter], hottest: float | None) -> list[str]:
    notes = [f"! {failure}" for failure in run.failures]
    if run.interrupted:
        notes.append("! the run was interrupted; what was done until then is here")
    if run.num_draws == 0:
        notes.append(
            "! at least one chain has no draw at unit temperature: run longer, or look at"
            " run.trace['xi'] and run.all_draws"
        )
    elif hottest is not None and hottest < HARDLY_WARM:
        notes.append(
            f"! ξ's hottest temperature is {hottest:.6g}: draws are those of SGNHT, no modes were"
            " crossed by heating"
        )
    elif run.tempered and run.round_trips.min() == 0:
        notes.append(
            "! at least one chain's ξ made no round trip: its draws are those of SGNHT, no"
            " modes were crossed by heating"
        )
    worst = max((p.rhat for p in parameters if np.isfinite(p.rhat)), default=1.0)
    if worst > 1.01:
        notes.append(
            f"! R-hat reaches {worst:.3f} in the parameters shown: chains disagree, run longer"
        )
    return notes


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
