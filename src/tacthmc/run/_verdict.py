"""The verdict on a run in plain words, with suggestions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tacthmc.diagnostics._laws import Law
from tacthmc.diagnostics._limits import MIN_ESS_PER_CHAIN
from tacthmc.dynamics._bias import AdaptiveBiasingForce, FrozenBias, Metadynamics
from tacthmc.dynamics._langevin import Langevin
from tacthmc.run._agreement_notes import MAX_NAMED
from tacthmc.run._parameters import Judged
from tacthmc.samplers._optimizer import Optimizer

if TYPE_CHECKING:
    from tacthmc.run._result import Run
    from tacthmc.run._summary import Summary

Level = Literal["good", "look", "bad"]

FAIR_RHAT = 1.05
"""The R-hat from which chains that disagree by more than chance are never usable."""
MIN_USEFUL_TEMPERATURE = 1.1
"""The hottest temperature below which heating does not help to cross barriers."""
MIN_GOOD_TRIPS = 10
GOOD_FLATNESS, FAIR_FLATNESS = 0.1, 0.25
"""The largest total variation from uniform."""
GOOD_THERMOSTAT, FAIR_THERMOSTAT = 0.05, 0.15
"""The largest relative distance from Theorem 1. The splitting is closer at reasonable steps."""
SIGMAS = 3.0
"""The number of standard errors, of the mean and of theory, that do not count as a distance."""


@dataclass(frozen=True)
class Finding:
    """The answer to one question."""

    level: Level
    title: str
    text: str
    suggestion: str = ""
    noted: bool = False
    """Whether the summary has a note of its own that says the same."""
    fails: bool = False
    """Whether a run failed: it has no draws, or some that are none."""

    @property
    def note(self) -> str:
        """The finding as a note of a summary."""
        advice = f" {self.suggestion}" if self.suggestion else ""
        return f"! {self.title}: {self.text}{advice}"


class Seen(NamedTuple):
    """What is judged: a run, and its summary so far."""

    run: "Run"
    summary: "Summary"

    @property
    def rows(self) -> int:
        """The number of rows of the trace, which is 0 at the start of a run."""
        return self.run.trace["step"].shape[1]

    @property
    def known(self) -> bool:
        """Whether the sampler is known, and with it the well of ξ."""
        return self.run.sampler_is_known


def verdict(run: "Run", summary: "Summary") -> list[Finding]:
    """The answers to all questions that apply to the run, the worst first."""
    seen = Seen(run, summary)
    findings = _whole(seen) + _kind(seen)
    if not seen.rows:
        begun = Finding("look", "The run has only just begun", "There is nothing to judge yet.")
        return [*findings, begun, *_warnings(seen)]
    if seen.run.has_tempering:
        findings += _plateau(seen) + _trips(seen) + _flat(seen)
    findings += _thermostats(seen) + _agreement(seen) + _modes(seen) + _warnings(seen)
    order = {"bad": 0, "look": 1, "good": 2}
    return sorted(findings, key=lambda finding: order[finding.level])


def headline(findings: list[Finding]) -> Finding:
    """The summary of all findings."""
    bad = [f for f in findings if f.level == "bad"]
    look = [f for f in findings if f.level == "look"]
    if bad:
        what = "; ".join(f.title.lower() for f in bad)
        return Finding("bad", "Do not use these draws yet", f"What is wrong: {what}.")
    if look:
        what = "; ".join(f.title.lower() for f in look)
        return Finding("look", "Usable with care", f"Look at: {what}.")
    return Finding("good", "Nothing speaks against these draws", "Every check below passed.")


def _whole(seen: Seen) -> list[Finding]:
    run, found = seen.run, []
    for failure in run.failures:
        found.append(
            Finding(
                "bad",
                f"Chain {failure.chain} stopped being finite",
                str(failure),
                noted=True,
                fails=True,
            )
        )
    if run.interrupted:
        where = "" if run.path is None else " with tacthmc resume, unless it is still running"
        found.append(
            Finding(
                "look",
                "The run has not finished",
                f"It has {run.num_steps:,} steps per chain so far.",
                f"Continue{where}.",
                noted=True,
            )
        )
    if run.until is not None and not run.until.reached and not run.interrupted:
        text = str(run.until).removeprefix("! ")
        found.append(Finding("look", "The run ended before its goal", text, "Resume it.", True))
    if not run.num_draws and not run.has_tempering and not run.keep.forget:
        text = "A chain failed before its first draw, or the run ended within its warm-up."
        found.append(
            Finding("bad", "A chain has no draw", text, "Run longer.", noted=True, fails=True)
        )
    return found


def _kind(seen: Seen) -> list[Finding]:
    """Limits of all diagnostics below, by the kind of sampler."""
    if not seen.known:
        return []
    if isinstance(seen.run.sampler, Optimizer):
        return [
            Finding(
                "bad",
                "These are an optimizer's iterates, not draws",
                "They do not follow the posterior, even if the numbers below look good.",
                "Use them as a point estimate, or sample with tact or sgnht.",
            )
        ]
    if seen.summary.scheduled:
        return [
            Finding(
                "look",
                "The speed of the schedule is not checked",
                "ξ follows a schedule, and the weights of modes are right only if it is slow.",
                "Compare with a run of twice the period.",
            )
        ]
    if not isinstance(seen.run.sampler, Langevin):
        return [
            Finding(
                "look",
                "The bias of the step size is not checked",
                "This sampler has no thermostat to compare with theory.",
                "Compare with a run at half the step size.",
            )
        ]
    return []


def _plateau(seen: Seen) -> list[Finding]:
    run = seen.run
    counts, shares = run.counts, seen.summary.plateau_share
    expected = seen.summary.expected_plateau_share
    empty = int(np.sum(counts == 0))
    if empty:
        advice = (
            "Run longer. If ξ stays at a wall, let the bias learn more slowly or start from the"
            " bias of an earlier run (run.save_bias, load_bias)."
        )
        if run.keep.relaxation_window is not None:
            advice += " If visits to the plateau are short, take a shorter Keep.relaxation_window."
        return [
            Finding(
                "bad",
                "A chain has no draw at unit temperature",
                f"{empty} of {len(counts)} chains were never on the plateau when a draw was due.",
                advice,
                noted=True,
                fails=True,
            )
        ]
    why = "by the schedule" if seen.summary.scheduled else "if ξ were uniform"
    text = f"Every chain visited it. Shares of time are {_range(shares, '.1%')}"
    text += f", {expected:.1%} {why}." if expected is not None else "."
    uneven = isinstance(_bias(seen), Metadynamics) and _bias(seen).boost is not None
    if expected is not None and min(shares) < expected / 3 and not uneven:
        return [
            Finding(
                "look",
                "A chain was rarely at unit temperature",
                text,
                "Run longer, or start from the bias of an earlier run.",
            )
        ]
    return [Finding("good", "Every chain visited unit temperature", text)]


def _trips(seen: Seen) -> list[Finding]:
    trips = seen.summary.round_trips
    hottest = seen.summary.hottest
    if hottest is not None and hottest < MIN_USEFUL_TEMPERATURE:
        return [
            Finding(
                "look",
                "ξ hardly heats: these are draws of SGNHT",
                f"The hottest temperature is {hottest:.6g}, so heating crosses no barriers, with"
                " round trips or without.",
                "Tuning chooses this in high dimension if heating does not help. Pass a coupling to"
                " heat nevertheless.",
            )
        ]
    text = f"Round trips from the plateau to a wall and back: {_range(trips, ',')} per chain."
    if min(trips) == 0:
        return [
            Finding(
                "bad",
                "A chain never made a round trip in temperature",
                text + " Without one, heating has crossed no barriers.",
                "Run for more than a period of the schedule."
                if seen.summary.scheduled
                else "Run longer, take a larger step_size of the tempering, or a coupling with a"
                " lower hottest temperature. In high dimension ξ moves slowly: see the docs.",
                noted=seen.run.num_draws > 0,
            )
        ]
    if min(trips) < MIN_GOOD_TRIPS:
        return [
            Finding(
                "look",
                "Few round trips in temperature",
                text,
                f"Run until every chain has made more than {MIN_GOOD_TRIPS}.",
            )
        ]
    return [Finding("good", "The temperature goes up and down", text)]


def _flat(seen: Seen) -> list[Finding]:
    distances = seen.summary.flatness
    if not distances:
        return []
    text = (
        "The total variation between the histogram of ξ and the uniform law is"
        f" {_range(distances, '.3f')} per chain."
    )
    bias = _bias(seen)
    if isinstance(bias, Metadynamics) and bias.boost is not None:
        text += " Well-tempered metadynamics is not uniform in ξ by design."
        return [Finding("good", "The histogram of ξ need not be flat", text)]
    worst = max(distances)
    if worst <= GOOD_FLATNESS:
        return [Finding("good", "The histogram of ξ is flat", text)]
    level: Level = "look" if worst <= FAIR_FLATNESS else "bad"
    # A wrong bias only costs time, so it is never worse than a look if every chain makes trips.
    if level == "bad" and min(seen.summary.round_trips) >= MIN_GOOD_TRIPS:
        level = "look"
    return [
        Finding(
            level,
            "The histogram of ξ is not flat",
            text + " That costs time, not correctness.",
            "Run longer."
            if isinstance(bias, AdaptiveBiasingForce)
            else "Run longer, or use AdaptiveBiasingForce(), which learns fastest.",
        )
    ]


def _thermostats(seen: Seen) -> list[Finding]:
    """Thermostats and momenta: errors of θ affect the draws, and errors of ξ only cost time."""
    of_xi = [law for law in seen.summary.thermostats if law.name.endswith("xi")]
    of_theta = [law for law in seen.summary.thermostats if law not in of_xi]
    found = []
    if of_theta:
        found.append(_theta_laws(seen, _against_theory(of_theta)))
    if of_xi:
        found.append(_xi_laws(seen, _against_theory(of_xi)))
    return found


@dataclass(frozen=True)
class _Distance:
    """The distances of measured means from Theorem 1."""

    relative: dict[str, float]
    """The relative distances, by the name of the law."""
    worst: float
    """The largest absolute distance, less a few standard errors."""

    @property
    def text(self) -> str:
        shown = "; ".join(f"{name} {relative:+.1%}" for name, relative in self.relative.items())
        return f"Means against Theorem 1, with the noise measured at a few draws: {shown}."

    @property
    def is_hot(self) -> bool:
        """Whether momenta are hotter than the theorem allows."""
        return any(
            "kinetic" in name and relative > GOOD_THERMOSTAT
            for name, relative in self.relative.items()
        )


def _against_theory(laws: list[Law]) -> _Distance:
    known = [law for law in laws if law.expected_mean]
    relative = {law.name: law.mean / law.expected_mean - 1 for law in known}
    clear = [abs(relative[law.name]) - SIGMAS * _relative_error(law) for law in known]
    return _Distance(relative, max(clear, default=0.0))


def _relative_error(law: Law) -> float:
    """The standard error of a mean relative to theory, with that of theory itself."""
    error = float(np.hypot(np.nan_to_num(law.error), np.nan_to_num(law.expected_error)))
    return error / abs(law.expected_mean)


def _theta_laws(seen: Seen, distance: _Distance) -> Finding:
    what = "Thermostats and momenta"
    if distance.worst <= GOOD_THERMOSTAT:
        return Finding("good", f"{what} match theory", distance.text)
    if distance.is_hot and "z_theta" not in distance.relative:
        suggestion = (
            "Without a thermostat the noise of the gradient heats the chain: use tact or sgnht, or"
            " pass noise_estimate."
        )
    elif seen.summary.scheduled:
        suggestion = (
            "θ may lag behind ξ: take a longer period of the schedule, or a smaller step_size."
        )
    else:
        suggestion = "Take a smaller step_size, or run longer."
    level: Level = "look" if distance.worst <= FAIR_THERMOSTAT else "bad"
    return Finding(level, f"{what} are away from theory", distance.text, suggestion)


def _xi_laws(seen: Seen, distance: _Distance) -> Finding:
    what = "The thermostat and momentum of ξ"
    if distance.worst <= GOOD_THERMOSTAT:
        return Finding("good", f"{what} match theory", distance.text)
    text = (
        f"{distance.text} This affects ξ off the plateau, which costs time. Draws on the plateau"
        " still follow the posterior."
    )
    suggestion = "Take a smaller step_size of the tempering, or run longer."
    if distance.is_hot and isinstance(_bias(seen), Metadynamics):
        suggestion = (
            "Metadynamics heats ξ, because nothing damps ξ on the plateau: draw its momentum afresh"
            " with ContinuousTempering(refresh=Refresh(everywhere=True))."
        )
    return Finding("look", f"{what} are away from theory", text, suggestion)


def _bias(seen: Seen) -> Any:
    """The bias of the sampler, or the one inside a frozen bias."""
    tempering = getattr(seen.run.sampler, "tempering", None) if seen.known else None
    bias = getattr(tempering, "bias", None)
    return bias.inner if isinstance(bias, FrozenBias) else bias


def _agreement(seen: Seen) -> list[Finding]:
    found = seen.summary.judged
    if found is None:
        return []
    wrong = [*_broken(found), *_disagreeing(seen, found)]
    if wrong:
        return wrong
    if not np.isfinite(found.rhat).any():
        return [
            Finding(
                "look",
                "R-hat cannot be computed",
                "It needs two chains or more, each with a few different draws.",
                "Run at least four chains.",
            )
        ]
    least, target = float(np.nanmin(found.within)), MIN_ESS_PER_CHAIN * seen.run.num_chains
    if least < found.fewest:
        advice = f"Run longer: aim at {target:,} effective draws."
        return [Finding("look", "Few effective draws", _extremes(seen, found), advice)]
    return [Finding("good", "Chains agree", _extremes(seen, found))]


def _broken(found: Judged) -> list[Finding]:
    """Scalars that no statistic can judge, or that stand still."""
    kinds = (
        (found.lost, "Draws are not finite", "Nothing is known of", True),
        (found.constant, "A parameter never moved", "All draws are the same of", True),
        (
            found.still >= 0,
            "A chain stood still",
            "For half of its draws there was no move in",
            False,
        ),
    )
    made = []
    for which, title, text, fails in kinds:
        names = [found.names[place] for place in np.flatnonzero(which)]
        if names:
            dots = ", …" if len(names) > MAX_NAMED else ""
            told = f"{text} {', '.join(names[:MAX_NAMED])}{dots}."
            made.append(Finding("bad", title, told, noted=True, fails=fails))
    return made


def _disagreeing(seen: Seen, found: Judged) -> list[Finding]:
    if not np.any(found.excess > 1):
        return []
    text, worst = _extremes(seen, found), float(np.nanmax(found.rhat[found.excess > 1]))
    if worst > FAIR_RHAT:
        advice = "Run longer." if seen.run.has_tempering else "Run longer, or temper: use tact."
        return [Finding("bad", "Chains disagree", text, advice, noted=True)]
    return [Finding("look", "Chains nearly agree", text, "Run longer.", noted=True)]


def _extremes(seen: Seen, found: Judged) -> str:
    """The largest R-hat and the fewest effective draws, and what they are of."""
    scalars = found.scalars
    worst = int(np.nanargmax(found.excess)) if np.isfinite(found.excess).any() else 0
    ess = np.concatenate([scalars.statistics.ess, scalars.of_functions.ess])
    of = f"all {scalars.total:,} parameters" if scalars.all_ranked else "parameters"
    of = "one parameter" if scalars.total == 1 else of
    text = (
        f"R-hat over {of} and the energy, {_source(seen)}: {found.rhat[worst]:.3f} in"
        f" {found.names[worst]}, where chance allows {found.limits[worst]:.3f}. Effective draws:"
        f" at least {np.nanmin(ess):,.0f}."
    )
    looked = [] if scalars.all_ranked else seen.summary.looked[1:]
    return " ".join([text, *(f"{line[:1].upper()}{line[1:]}." for line in looked)])


def _modes(seen: Seen) -> list[Finding]:
    found = seen.summary.modes
    if found is None:
        few = "There are too few different draws to separate modes."
        return [Finding("look", "Modes cannot be found", few, "Run longer.")]
    count = len(found.shares)
    where = ", ".join(found.names)
    if count == 1:
        text = f"No valley divides the draws of {where}. Modes that no chain visited do not show."
        return [Finding("good", "One mode found", text)]
    chains = [len(np.unique(chain)) for chain in found.labels]
    jumps = [int(np.sum(chain[1:] != chain[:-1])) for chain in found.labels]
    text = (
        f"{count} modes in {where}, with shares"
        f" {', '.join(f'{share:.1%}' for share in found.shares[:8])}"
        f"{', …' if count > 8 else ''}. A chain saw {_range(chains, 'd')} of them and changed mode"
        f" {_range(jumps, ',')} times between kept draws."
    )
    if min(chains) < count:
        return [
            Finding(
                "bad" if min(jumps) == 0 else "look",
                "Not every chain saw every mode",
                text + " Shares on which chains disagree are not those of the posterior.",
                "Run longer." if seen.run.has_tempering else "Use tact: heating crosses barriers.",
            )
        ]
    return [Finding("good", "Every chain saw every mode", text)]


def _warnings(seen: Seen) -> list[Finding]:
    """What the summary warns of, beside what other findings judge."""
    return [
        Finding("bad", "The summary warns", text[:1].upper() + text[1:] + ".", noted=True)
        for text in seen.summary.warnings
    ]


def _source(seen: Seen) -> str:
    if seen.run.keep.all_temperatures:
        return "from draws of all temperatures with their weights"
    return (
        "from draws at unit temperature only" if seen.run.has_tempering else "from all kept draws"
    )


def _range(values: list[float] | list[int] | np.ndarray, form: str) -> str:
    """The smallest to the largest value, or one number if all are equal.

    >>> _range([1, 3, 2], "d"), _range([0.5], ".1%")
    ('1 to 3', '50.0%')
    """
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"
