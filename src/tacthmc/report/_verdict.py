"""The verdict on a run in plain words, with suggestions."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tacthmc.diagnostics._laws import Law
from tacthmc.dynamics._bias import AdaptiveBiasingForce, FrozenBias, Metadynamics
from tacthmc.dynamics._langevin import Langevin
from tacthmc.report._shown import Shown
from tacthmc.run._summary import MIN_USEFUL_TEMPERATURE
from tacthmc.samplers._optimizer import Optimizer

Level = Literal["good", "look", "bad"]

GOOD_RHAT, FAIR_RHAT = 1.01, 1.05
MIN_ESS_PER_CHAIN = 100
MIN_GOOD_TRIPS = 10
GOOD_FLATNESS, FAIR_FLATNESS = 0.1, 0.25
"""The largest total variation from uniform."""
GOOD_THERMOSTAT, FAIR_THERMOSTAT = 0.05, 0.15
"""The largest relative distance from Theorem 1. The splitting is closer at reasonable steps."""


@dataclass(frozen=True)
class Finding:
    """The answer to one question."""

    level: Level
    title: str
    text: str
    suggestion: str = ""


def verdict(shown: Shown) -> list[Finding]:
    """The answers to all questions that apply to the run, the worst first."""
    findings = _whole(shown) + _kind(shown)
    if not shown.rows:
        return [Finding("look", "The run has only just begun", "There is nothing to judge yet.")]
    if shown.run.has_tempering:
        findings += _plateau(shown) + _trips(shown) + _flat(shown)
    findings += _thermostats(shown) + _agreement(shown) + _modes(shown) + _warnings(shown)
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


def _whole(shown: Shown) -> list[Finding]:
    run, found = shown.run, []
    for failure in run.failures:
        found.append(
            Finding("bad", f"Chain {failure.chain} stopped being finite", str(failure), "")
        )
    if run.interrupted:
        where = "" if run.path is None else " with tacthmc resume, unless it is still running"
        found.append(
            Finding(
                "look",
                "The run has not finished",
                f"It has {run.num_steps:,} steps per chain so far.",
                f"Continue{where}.",
            )
        )
    return found


def _kind(shown: Shown) -> list[Finding]:
    """Limits of all diagnostics below, by the kind of sampler."""
    if not shown.known:
        return []
    if isinstance(shown.run.sampler, Optimizer):
        return [
            Finding(
                "bad",
                "These are an optimizer's iterates, not draws",
                "They do not follow the posterior, even if the numbers below look good.",
                "Use them as a point estimate, or sample with tact or sgnht.",
            )
        ]
    if shown.summary.scheduled:
        return [
            Finding(
                "look",
                "The speed of the schedule is not checked",
                "ξ follows a schedule, and the weights of modes are right only if it is slow.",
                "Compare with a run of twice the period.",
            )
        ]
    if not isinstance(shown.run.sampler, Langevin):
        return [
            Finding(
                "look",
                "The bias of the step size is not checked",
                "This sampler has no thermostat to compare with theory.",
                "Compare with a run at half the step size.",
            )
        ]
    return []


def _plateau(shown: Shown) -> list[Finding]:
    run = shown.run
    counts, shares = run.counts, shown.summary.plateau_share
    expected = shown.summary.expected_plateau_share
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
            )
        ]
    why = "by the schedule" if shown.summary.scheduled else "if ξ were uniform"
    text = f"Every chain visited it. Shares of time are {_range(shares, '.1%')}"
    text += f", {expected:.1%} {why}." if expected is not None else "."
    uneven = isinstance(_bias(shown), Metadynamics) and _bias(shown).boost is not None
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


def _trips(shown: Shown) -> list[Finding]:
    trips = shown.summary.round_trips
    hottest = shown.summary.hottest
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
                if shown.summary.scheduled
                else "Run longer, take a larger step_size of the tempering, or a coupling with a"
                " lower hottest temperature. In high dimension ξ moves slowly: see the docs.",
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


def _flat(shown: Shown) -> list[Finding]:
    distances = shown.summary.flatness
    if not distances:
        return []
    text = (
        "The total variation between the histogram of ξ and the uniform law is"
        f" {_range(distances, '.3f')} per chain."
    )
    bias = _bias(shown)
    if isinstance(bias, Metadynamics) and bias.boost is not None:
        text += " Well-tempered metadynamics is not uniform in ξ by design."
        return [Finding("good", "The histogram of ξ need not be flat", text)]
    worst = max(distances)
    if worst <= GOOD_FLATNESS:
        return [Finding("good", "The histogram of ξ is flat", text)]
    level: Level = "look" if worst <= FAIR_FLATNESS else "bad"
    # A wrong bias only costs time, so it is never worse than a look if every chain makes trips.
    if level == "bad" and min(shown.summary.round_trips) >= MIN_GOOD_TRIPS:
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


def _thermostats(shown: Shown) -> list[Finding]:
    """Thermostats and momenta: errors of θ affect the draws, and errors of ξ only cost time."""
    of_xi = [law for law in shown.summary.thermostats if law.name.endswith("xi")]
    of_theta = [law for law in shown.summary.thermostats if law not in of_xi]
    found = []
    if of_theta:
        found.append(_theta_laws(shown, _against_theory(shown, of_theta)))
    if of_xi:
        found.append(_xi_laws(shown, _against_theory(shown, of_xi)))
    return found


@dataclass(frozen=True)
class _Distance:
    """The distances of measured means from Theorem 1."""

    relative: dict[str, float]
    """The relative distances, by the name of the law."""
    worst: float
    """The largest absolute distance, less three standard errors."""

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


def _against_theory(shown: Shown, laws: list[Law]) -> _Distance:
    known = [law for law in laws if law.expected_mean]
    relative = {law.name: law.mean / law.expected_mean - 1 for law in known}
    clear = [abs(relative[law.name]) - 3 * _noise(shown, law) for law in known]
    return _Distance(relative, max(clear, default=0.0))


def _theta_laws(shown: Shown, distance: _Distance) -> Finding:
    what = "Thermostats and momenta"
    if distance.worst <= GOOD_THERMOSTAT:
        return Finding("good", f"{what} match theory", distance.text)
    if distance.is_hot and "z_theta" not in distance.relative:
        suggestion = (
            "Without a thermostat the noise of the gradient heats the chain: use tact or sgnht, or"
            " pass noise_estimate."
        )
    elif shown.summary.scheduled:
        suggestion = (
            "θ may lag behind ξ: take a longer period of the schedule, or a smaller step_size."
        )
    else:
        suggestion = "Take a smaller step_size, or run longer."
    level: Level = "look" if distance.worst <= FAIR_THERMOSTAT else "bad"
    return Finding(level, f"{what} are away from theory", distance.text, suggestion)


def _xi_laws(shown: Shown, distance: _Distance) -> Finding:
    what = "The thermostat and momentum of ξ"
    if distance.worst <= GOOD_THERMOSTAT:
        return Finding("good", f"{what} match theory", distance.text)
    text = (
        f"{distance.text} This affects ξ off the plateau, which costs time. Draws on the plateau"
        " still follow the posterior."
    )
    suggestion = "Take a smaller step_size of the tempering, or run longer."
    if distance.is_hot and isinstance(_bias(shown), Metadynamics):
        suggestion = (
            "Metadynamics heats ξ, because nothing damps ξ on the plateau: draw its momentum afresh"
            " with ContinuousTempering(refresh=Refresh(everywhere=True))."
        )
    return Finding("look", f"{what} are away from theory", text, suggestion)


def _noise(shown: Shown, law: Law) -> float:
    """The relative standard error of the mean of a law, from the differences between chains."""
    column = {
        "z_theta": "thermostat",
        "z_xi": "xi_thermostat",
        "kinetic temperature of theta": "kinetic_temperature",
        "kinetic temperature of xi": "xi_kinetic_temperature",
    }[law.name]
    means = shown.usable(column).mean(axis=1)
    if len(means) < 2:
        return 0.0
    return float(means.std(ddof=1) / np.sqrt(len(means)) / abs(law.expected_mean))


def _bias(shown: Shown) -> Any:
    """The bias of the sampler, or the one inside a frozen bias."""
    tempering = getattr(shown.run.sampler, "tempering", None) if shown.known else None
    bias = getattr(tempering, "bias", None)
    return bias.inner if isinstance(bias, FrozenBias) else bias


def _agreement(shown: Shown) -> list[Finding]:
    rows = [p for p in shown.parameters if not np.isnan(p.rhat)]
    if not rows:
        return [
            Finding(
                "look",
                "R-hat cannot be computed",
                "It needs two chains or more, each with a few different draws.",
                "Run at least four chains.",
            )
        ]
    worst, least = max(p.rhat for p in rows), min(p.ess for p in rows)
    target = MIN_ESS_PER_CHAIN * shown.run.num_chains
    text = (
        f"Over the parameters in the table, {_source(shown)}: R-hat at most {worst:.3f}, effective"
        f" draws at least {least:,.0f}."
    )
    if worst > FAIR_RHAT:
        advice = "Run longer." if shown.run.has_tempering else "Run longer, or temper: use tact."
        return [Finding("bad", "Chains disagree", text, advice)]
    if worst > GOOD_RHAT or least < target:
        return [
            Finding(
                "look",
                "Few effective draws" if worst <= GOOD_RHAT else "Chains nearly agree",
                text,
                f"Run longer: aim at R-hat below {GOOD_RHAT} and {target:,} effective draws.",
            )
        ]
    return [Finding("good", "Chains agree", text)]


def _modes(shown: Shown) -> list[Finding]:
    modes, labels = shown.modes, shown.mode_of
    if modes is None or labels is None:
        few = "There are too few different draws to separate modes."
        return [Finding("look", "Modes cannot be found", few, "Run longer.")]
    count = len(modes.shares)
    where = "the parameters shown" if len(shown.names) > 1 else shown.names[0]
    if count == 1:
        text = f"No valley divides the draws of {where}. Modes that no chain visited do not show."
        return [Finding("good", "One mode found", text)]
    seen = [len(np.unique(chain)) for chain in labels]
    jumps = [int(np.sum(chain[1:] != chain[:-1])) for chain in labels]
    text = (
        f"{count} modes in {where}, with shares"
        f" {', '.join(f'{share:.1%}' for share in modes.shares[:8])}"
        f"{', …' if count > 8 else ''}. A chain saw {_range(seen, 'd')} of them and changed mode"
        f" {_range(jumps, ',')} times between kept draws."
    )
    if min(seen) < count:
        return [
            Finding(
                "bad" if min(jumps) == 0 else "look",
                "Not every chain saw every mode",
                text + " Shares on which chains disagree are not those of the posterior.",
                "Run longer." if shown.run.has_tempering else "Use tact: heating crosses barriers.",
            )
        ]
    return [Finding("good", "Every chain saw every mode", text)]


def _warnings(shown: Shown) -> list[Finding]:
    """What the summary warns of, beside what other findings judge."""
    return [
        Finding("bad", "The summary warns", text[:1].upper() + text[1:] + ".")
        for text in shown.summary.warnings
    ]


def _source(shown: Shown) -> str:
    if shown.run.keep.all_temperatures:
        return "from draws of all temperatures with their weights"
    return (
        "from draws at unit temperature only" if shown.run.has_tempering else "from all kept draws"
    )


def _range(values: list[float] | list[int] | np.ndarray, form: str) -> str:
    """The smallest to the largest value, or one number if all are equal.

    >>> _range([1, 3, 2], "d"), _range([0.5], ".1%")
    ('1 to 3', '50.0%')
    """
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"
