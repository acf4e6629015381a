"""How a run went, in plain words, with a suggestion where something is off."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tacthmc.diagnostics._laws import Law
from tacthmc.dynamics._bias import AdaptiveBiasingForce, FrozenBias, Metadynamics
from tacthmc.dynamics._langevin import Langevin
from tacthmc.report._shown import Shown
from tacthmc.run._summary import HARDLY_WARM
from tacthmc.samplers._optimizer import Optimizer

Level = Literal["good", "look", "bad"]

GOOD_RHAT, FAIR_RHAT = 1.01, 1.05
ESS_PER_CHAIN = 100
GOOD_TRIPS = 10
GOOD_FLATNESS, FAIR_FLATNESS = 0.1, 0.25
GOOD_THERMOSTAT, FAIR_THERMOSTAT = 0.05, 0.15
"""Relative distances from Theorem 1: the splitting's own error at sensible steps is below."""


@dataclass(frozen=True)
class Finding:
    """One question answered."""

    level: Level
    title: str
    text: str
    suggestion: str = ""


def verdict(shown: Shown) -> list[Finding]:
    """All questions that make sense for the run, the gravest answers first."""
    findings = _whole(shown) + _kind(shown)
    if not shown.rows:
        return [Finding("look", "The run has only just begun", "There is nothing to judge yet.")]
    if shown.run.tempered:
        findings += _plateau(shown) + _trips(shown) + _flat(shown)
    findings += _thermostats(shown) + _agreement(shown) + _modes(shown)
    order = {"bad": 0, "look": 1, "good": 2}
    return sorted(findings, key=lambda finding: order[finding.level])


def headline(findings: list[Finding]) -> Finding:
    """One line above all."""
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
        where = "" if run.path is None else ", unless it is still going on, with tacthmc resume"
        found.append(
            Finding(
                "look",
                "The run has not finished",
                f"It is of {run.num_steps:,} steps a chain; what was done until now is here.",
                f"Go on{where}.",
            )
        )
    return found


def _kind(shown: Shown) -> list[Finding]:
    """What no diagnostic below can see, by the kind of sampler."""
    if not shown.known:
        return []
    if isinstance(shown.run.sampler, Optimizer):
        return [
            Finding(
                "bad",
                "These are an optimizer's iterates, not draws",
                "They do not follow the posterior, whatever the numbers below look like.",
                "Use them as a point estimate, or sample with tact or sgnht.",
            )
        ]
    if shown.summary.scheduled:
        return [
            Finding(
                "look",
                "The schedule's speed is not checked",
                "ξ follows a schedule, and modes' weights are the posterior's only if it is slow.",
                "Compare with a run of twice the period.",
            )
        ]
    if not isinstance(shown.run.sampler, Langevin):
        return [
            Finding(
                "look",
                "The step's bias is not checked",
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
            "Run longer. If ξ sits at a wall, let the bias learn more slowly or start from"
            " an earlier run's bias (run.save_bias, load_bias)."
        )
        if run.keep.relaxation_window is not None:
            advice += " If visits to the plateau are short, take a shorter Keep.relaxation_window."
        return [
            Finding(
                "bad",
                "A chain has no draw at unit temperature",
                f"{empty} of {len(counts)} chains never were on the plateau at a step to be kept.",
                advice,
            )
        ]
    why = "by the schedule" if shown.summary.scheduled else "if ξ were uniform"
    text = f"Every chain visited it; shares of time are {_range(shares, '.1%')}"
    text += f", {expected:.1%} {why}." if expected is not None else "."
    uneven = isinstance(_bias(shown), Metadynamics) and _bias(shown).boost is not None
    if expected is not None and min(shares) < expected / 3 and not uneven:
        return [
            Finding(
                "look",
                "A chain was rarely at unit temperature",
                text,
                "Run longer, or let the bias learn first and start from it.",
            )
        ]
    return [Finding("good", "Every chain visited unit temperature", text)]


def _trips(shown: Shown) -> list[Finding]:
    trips = shown.summary.round_trips
    hottest = shown.summary.hottest
    if hottest is not None and hottest < HARDLY_WARM:
        return [
            Finding(
                "look",
                "ξ hardly heats: these are SGNHT's draws",
                f"The hottest temperature is {hottest:.6g}: no mode is crossed by heating, with"
                " round trips or without.",
                "A warm-up chooses that in high dimension where it finds no use for heat; give a"
                " coupling to heat all the same.",
            )
        ]
    text = f"Round trips from the plateau to a wall and back: {_range(trips, ',')} a chain."
    if min(trips) == 0:
        return [
            Finding(
                "bad",
                "A chain never made a round trip in temperature",
                text + " Without one no mode was crossed by heating.",
                "Run for more than a period of the schedule."
                if shown.summary.scheduled
                else "Run longer, take a larger step_size of the tempering, or a coupling with a lower hottest"
                " temperature. In high dimension ξ moves slowly: see the docs.",
            )
        ]
    if min(trips) < GOOD_TRIPS:
        return [
            Finding(
                "look",
                "Few round trips in temperature",
                text,
                f"Run until every chain has made more than {GOOD_TRIPS}.",
            )
        ]
    return [Finding("good", "The temperature goes up and down", text)]


def _flat(shown: Shown) -> list[Finding]:
    distances = shown.summary.flatness
    if not distances:
        return []
    text = (
        "The total variation between ξ's histogram and the uniform law is"
        f" {_range(distances, '.3f')} a chain."
    )
    bias = _bias(shown)
    if isinstance(bias, Metadynamics) and bias.boost is not None:
        text += " Well-tempered metadynamics leaves ξ uneven on purpose, so this says little."
        return [Finding("good", "ξ's histogram need not be flat", text)]
    worst = max(distances)
    if worst <= GOOD_FLATNESS:
        return [Finding("good", "ξ's histogram is flat", text)]
    level: Level = "look" if worst <= FAIR_FLATNESS else "bad"
    # Where the bias is not right, time is lost and nothing else: never worse than a look
    # while every chain makes its journeys.
    if level == "bad" and min(shown.summary.round_trips) >= GOOD_TRIPS:
        level = "look"
    return [
        Finding(
            level,
            "ξ's histogram is not flat",
            text + " That costs time, not correctness.",
            "Run longer."
            if isinstance(bias, AdaptiveBiasingForce)
            else "Run longer, or use AdaptiveBiasingForce(), which learns fastest.",
        )
    ]


def _thermostats(shown: Shown) -> list[Finding]:
    """θ's thermostat and momenta, which tell of the posterior; ξ's, which tell of time lost."""
    theta = _laws(
        shown,
        [law for law in shown.summary.thermostats if not law.name.endswith("xi")],
        "Thermostats and momenta",
        "",
        FAIR_THERMOSTAT,
    )
    tempering = _laws(
        shown,
        [law for law in shown.summary.thermostats if law.name.endswith("xi")],
        "ξ's thermostat and momentum",
        " What ξ does off the plateau costs time; draws on it follow the posterior all the same.",
        np.inf,
    )
    return theta + tempering


def _laws(shown: Shown, laws: list[Law], what: str, comment: str, fair: float) -> list[Finding]:
    if not laws:
        return []
    away = {law.name: law.mean / law.expected_mean - 1 for law in laws if law.expected_mean}
    text = "; ".join(f"{name} {relative:+.1%}" for name, relative in away.items())
    text = f"Means against Theorem 1, with the noise measured at a few draws: {text}."
    # Beyond what chance explains, by the chains' spread.
    clear = {
        law.name: abs(away[law.name]) - 3 * _noise(shown, law) for law in laws if law.name in away
    }
    worst = max(clear.values())
    if worst <= GOOD_THERMOSTAT:
        return [Finding("good", f"{what} match theory", text)]
    hot = [n for n, relative in away.items() if "kinetic" in n and relative > GOOD_THERMOSTAT]
    suggestion = "Take a smaller step_size, or run longer."
    if shown.summary.scheduled:
        suggestion = (
            "θ may lag behind ξ: take a longer period of the schedule, or a smaller step_size."
        )
    if comment:
        suggestion = "Take a smaller step_size of the tempering, or run longer."
    if hot and not comment and not any(law.name == "z_theta" for law in laws):
        suggestion = (
            "Without a thermostat the gradient's noise heats the chain: use tact or sgnht, or"
            " give noise_estimate."
        )
    if hot and comment and isinstance(_bias(shown), Metadynamics):
        suggestion = (
            "Metadynamics heats ξ, since nothing damps it on the plateau: redraw its momentum with"
            " ContinuousTempering(refresh=Refresh(everywhere=True))."
        )
    level: Level = "look" if worst <= fair else "bad"
    return [Finding(level, f"{what} are away from theory", text + comment, suggestion)]


def _noise(shown: Shown, law: Law) -> float:
    """The standard error of a law's mean, relative to theory, by the spread between chains."""
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
    """The bias, also where it learns no more."""
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
                "It takes two chains or more, and a few draws each that differ.",
                "Run at least four chains.",
            )
        ]
    worst, least = max(p.rhat for p in rows), min(p.ess for p in rows)
    wanted = ESS_PER_CHAIN * shown.run.num_chains
    text = (
        f"Over the parameters in the table, {_source(shown)}: R-hat at most {worst:.3f}, effective"
        f" draws at least {least:,.0f}."
    )
    if worst > FAIR_RHAT:
        advice = "Run longer." if shown.run.tempered else "Run longer, or temper: use tact."
        return [Finding("bad", "Chains disagree", text, advice)]
    if worst > GOOD_RHAT or least < wanted:
        return [
            Finding(
                "look",
                "Few effective draws" if worst <= GOOD_RHAT else "Chains nearly agree",
                text,
                f"Run longer: aim at R-hat below {GOOD_RHAT} and {wanted:,} effective draws.",
            )
        ]
    return [Finding("good", "Chains agree", text)]


def _modes(shown: Shown) -> list[Finding]:
    modes, labels = shown.modes, shown.mode_of
    if modes is None or labels is None:
        few = "There are too few different draws to tell modes apart."
        return [Finding("look", "Modes cannot be told", few, "Run longer.")]
    count = len(modes.shares)
    where = "the parameters shown" if len(shown.names) > 1 else shown.names[0]
    if count == 1:
        text = f"No valley splits the draws of {where}. Modes that no chain has seen do not show."
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
                text + " Shares that chains do not agree on are not the posterior's.",
                "Run longer." if shown.run.tempered else "Use tact: heating crosses barriers.",
            )
        ]
    return [Finding("good", "Every chain saw every mode", text)]


def _source(shown: Shown) -> str:
    if shown.run.keep.all_temperatures:
        return "from draws of all temperatures with their weights"
    return "from draws at unit temperature only" if shown.run.tempered else "from all kept draws"


def _range(values: list[float] | list[int] | np.ndarray, form: str) -> str:
    """From the least to the greatest, or one number where all are alike.

    >>> _range([1, 3, 2], "d"), _range([0.5], ".1%")
    ('1 to 3', '50.0%')
    """
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"
