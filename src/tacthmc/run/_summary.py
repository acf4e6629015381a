"""The summary of a run in numbers and notes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacthmc._positions import dimension, scalar_names
from tacthmc.diagnostics._laws import Law
from tacthmc.dynamics import Langevin
from tacthmc.run._agreement_notes import agreement_notes, looked_at
from tacthmc.run._found_modes import FoundModes, found_modes
from tacthmc.run._law_notes import law_notes
from tacthmc.run._mode_notes import mode_notes
from tacthmc.run._noise_notes import noise_notes
from tacthmc.run._parameters import (
    MAX_SHOWN_PARAMETERS,
    Judged,
    Parameter,
    empty_rows,
    every_row,
    function_rows,
    shown_parameters,
)
from tacthmc.run._repair_notes import repair_notes
from tacthmc.run._replica_notes import replica_notes
from tacthmc.run._step_notes import step_notes
from tacthmc.run._summary_frame import dataframe
from tacthmc.run._summary_html import summary_html
from tacthmc.run._summary_text import summary_text
from tacthmc.run._verdict import MIN_USEFUL_TEMPERATURE, Finding, headline, verdict

if TYPE_CHECKING:
    from tacthmc.run._result import Run


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

    looked: tuple[str, ...] = ()
    """Which parameters the table leaves out, and of which there are R-hat and ESS."""
    functions: list[Parameter] = field(default_factory=list[Parameter])
    """Functions of the whole position, where not every scalar is ranked or one is wrong."""
    findings: tuple[Finding, ...] = ()
    """The answers to all questions about the run, as in a report."""
    judged: Judged | None = field(default=None, compare=False, repr=False)
    """R-hat and effective draws of all parameters, with their limits."""
    modes: FoundModes | None = field(default=None, compare=False, repr=False)
    """The modes that the draws of a few scalars show."""
    all_parameters: Callable[[], list[Parameter]] | None = field(
        default=None, compare=False, repr=False
    )
    """The rows of all parameters, in their order, not only of those shown."""

    @property
    def headline(self) -> Finding:
        """The verdict in one sentence: good, usable with care, or not usable."""
        return headline(list(self.findings))

    @property
    def failed(self) -> bool:
        """Whether there are no draws, or some that are none: not finite, or all the same."""
        return any(finding.fails for finding in self.findings)

    def to_dataframe(self) -> Any:
        """All parameters as a pandas DataFrame, not only those shown, with a row for each.

        Of a very large position this takes much longer than the summary.

        >>> import jax, jax.numpy as jnp, tacthmc
        >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
        >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(20),
        ...                      10_000, 4)
        >>> frame = run.summary().to_dataframe()
        >>> frame.shape, frame.columns[0], frame.index[17]
        ((20, 9), 'mean', 'theta[17]')
        """
        return dataframe(self.all_parameters() if self.all_parameters else self.parameters)

    def __str__(self) -> str:
        """The tables as plain text."""
        return summary_text(self)

    def _repr_html_(self) -> str:
        return summary_html(self)


def summarize(run: "Run") -> Summary:
    """Compute the summary of a run."""
    xi, scalars = _xi_theory(run), _scalars(run)
    modes, replicas, laws = mode_notes(run), replica_notes(run), law_notes(run)
    thermostats = run.thermostats
    tuning = _tuning_notes(run, scalars.disagree)
    warnings = tuning + modes.notes + replicas.notes + step_notes(run) + laws.notes
    warnings += noise_notes(run) + repair_notes(run.config)
    notes = _notes(run, xi.hottest) + scalars.notes + warnings + _unmeasured_notes(run)
    rate = run.num_steps * run.num_chains / max(run.seconds, 1e-9)
    weighted = " of all temperatures, weighted" if run.keep.all_temperatures else ""
    summary = Summary(
        title=(
            f"{run.num_chains} chains × {run.num_steps} steps ({run.keep.after} not kept),"
            f" {run.num_draws} draws per chain{weighted}\n{run.seconds:.1f} s (and"
            f" {run.compile_seconds:.1f} s compiling), {rate:,.0f} chain-steps/s"
        ),
        parameters=scalars.rows,
        num_parameters=dimension(run.draw_shapes()),
        plateau_share=[float(x) for x in run.plateau_share],
        expected_plateau_share=xi.plateau_share,
        round_trips=[int(x) for x in run.round_trips],
        flatness=[float(x) for x in run.flatness] if xi.uniform else [],
        thermostats=thermostats,
        notes=notes,
        scheduled=xi.hottest is not None and not xi.uniform,
        hottest=xi.hottest,
        mode_lines=tuple(modes.lines),
        replica_lines=tuple(replicas.lines),
        width_lines=tuple(laws.lines),
        warnings=tuple(note.removeprefix("! ") for note in warnings if note.startswith("!")),
        looked=tuple(scalars.looked),
        functions=scalars.functions,
        judged=run.judged,
        modes=found_modes(run, run.judged) if run.judged else None,
        all_parameters=lambda: every_row(run),
    )
    return _with_verdict(run, summary)


class _Scalars(NamedTuple):
    """What a summary says of the scalars of the position."""

    rows: list[Parameter]
    functions: list[Parameter]
    looked: list[str]
    notes: list[str]
    disagree: bool


def _scalars(run: "Run") -> _Scalars:
    found = run.judged
    if found is None:
        names = scalar_names(run.draw_shapes(), MAX_SHOWN_PARAMETERS)
        return _Scalars(empty_rows([name for _, _, name in names]), [], [], [], False)
    return _Scalars(
        shown_parameters(found),
        function_rows(found) if _functions_matter(found) else [],
        looked_at(found),
        agreement_notes(found),
        bool(np.any(found.excess > 1)),
    )


def _functions_matter(found: Judged) -> bool:
    """Whether the rows of functions are shown."""
    wrong = found.excess[len(found.scalars.numbers) :] > 1
    return not found.scalars.all_ranked or bool(wrong.any())


def _with_verdict(run: "Run", summary: Summary) -> Summary:
    """The summary with its findings. Every bad one is a note, and no note is left without one."""
    findings = verdict(run, summary)
    notes = summary.notes + [f.note for f in findings if f.level == "bad" and not f.noted]
    if headline(findings).level == "good":
        said = [note for note in notes if note.startswith("!")]
        findings += [Finding("look", "The summary warns", note[2:], noted=True) for note in said]
    return replace(summary, notes=notes, findings=tuple(findings))


class _XiTheory(NamedTuple):
    """The expected values of ξ, as far as the sampler is known."""

    plateau_share: float | None = None
    uniform: bool = False
    hottest: float | None = None


def _xi_theory(run: "Run") -> _XiTheory:
    if not (run.has_tempering and run.sampler_is_known and isinstance(run.sampler, Langevin)):
        return _XiTheory()
    each = [run.tempering_of(chain) for chain in range(run.num_chains)]
    shares = [one.expected_unit_share for one in each]
    known = [float(share) for share in shares if share is not None]
    return _XiTheory(
        plateau_share=float(np.mean(known)) if known else None,
        uniform=each[0].rest_steps is None,
        hottest=min(float(one.coupling.hottest) for one in each),
    )


def _end_notes(run: "Run") -> list[str]:
    """How the run ended."""
    notes = [f"! {failure}" for failure in run.failures]
    if run.interrupted:
        notes.append("! the run was interrupted; these are its results until then")
    for change in (run.config or {}).get("changes", []):
        what = "; ".join(change["what"])
        notes.append(
            f"! from step {change['step']} on the run went on with something else ({what}): draws"
            " before and after are mixed"
        )
    if run.until is not None:
        notes.append(str(run.until))
    return notes


def _unmeasured_notes(run: "Run") -> list[str]:
    """What could not be measured, because the functions of the potential are not read."""
    what = ", ".join(run.measurements.missing)
    if not what:
        return []
    return [
        f"not checked: {what}. It takes the potential, whose functions are not read from the"
        " folder; load the run with potential=, or with trust=True"
    ]


def _tuning_notes(run: "Run", chains_disagree: bool) -> list[str]:
    """What tuning has to say about a run with its sampler."""
    tuning = run.tuning if run.sampler_is_known else None
    if tuning is None:
        return []
    said = [tuning.advice if chains_disagree else "", tuning.doubt]
    return [f"! {text}" for text in said if text]


def _notes(run: "Run", hottest: float | None) -> list[str]:
    notes = _end_notes(run)
    if run.keep.forget:
        notes.append("draws were not kept (Keep.forget), so there is nothing to judge them by")
    elif run.num_draws == 0:
        where = " at unit temperature" if run.has_tempering else ""
        column = "xi" if run.has_tempering else "energy"
        notes.append(
            f"! at least one chain has no draw{where}: run longer, or look at"
            f" run.trace['{column}'] and run.all_draws"
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
    return notes
