"""TACT-HMC's scores beside the paper's accuracy and beside the other methods' scores."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tacthmc.paper.table1.paper import TITLES
from tacthmc.paper.table1.summary import Entry, commands
from tacthmc.paper.tasks import TASKS
from tacthmc.report import Table

SCORES = {
    "accuracy": ("accuracy, %", 2, 100),
    "log_loss": ("log-loss", 4, 1),
    "ece": ("calibration error", 4, 1),
}
"""The head, the digits and the scale of each score."""

VERDICT = (
    "A method is better than another where their means differ by more than √(sd² + sd²), the"
    " standard deviation of the difference between one run of each. Of one seed it is only said"
    " which mean is ahead."
)

RIVALS = "TACT-HMC beside the paper's accuracy, and against the best of the others in each score:"


def reached(entry: Entry) -> str:
    """The paper's accuracy, and whether ours is as high, if it is on the paper's data."""
    paper, mean = entry.paper, entry.mean("accuracy")
    if paper is None:
        return "–"
    if not entry.data.startswith(TASKS[entry.task].data[0]):
        return f"{100 * paper:.2f} on other data"
    as_high = mean is not None and mean >= paper
    so_far = "" if all(record["finished"] for record in entry.records) else " so far"
    return f"{100 * paper:.2f}: {'reached' if as_high else 'not reached'}{so_far}"


def against(one: Entry, other: Entry, score: str) -> str:
    """Whether one is better than the other, worse, or neither beyond the seeds' spread."""
    pairs = [np.array(entry.values(score)) for entry in (one, other)]
    (a, b), few = (x.mean() for x in pairs), min(map(len, pairs)) < 2
    gain = a - b if score == "accuracy" else b - a
    if few:
        return f"{'ahead' if gain > 0 else 'level' if gain == 0 else 'behind'}, one seed"
    if abs(gain) <= np.sqrt(sum(x.var(ddof=1) for x in pairs)):
        return "no difference"
    return "better" if gain > 0 else "worse"


def verdicts(found: Sequence[Entry], apart: Mapping[str, Callable[[Entry], str]]) -> Table:
    """TACT-HMC score by score, at each noise level.

    Args:
        found: the entries of one task.
        apart: columns whose values are compared apart, by name.
    """
    places: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in found:
        places[(*(of(entry) for of in apart.values()), f"{entry.noise:.0%}")].append(entry)
    rows = []
    for place, own in places.items():
        others = [entry for entry in own if entry.method != "tact"]
        for ours in (entry for entry in own if entry.method == "tact"):
            said = [_against_best(ours, others, score) for score in SCORES]
            rows.append((*place, reached(ours), *said))
    heads = (head.removesuffix(", %") for head, *_ in SCORES.values())
    return Table((*apart, "wrong labels", "paper, %", *heads), tuple(rows))


def _against_best(ours: Entry, others: Sequence[Entry], score: str) -> str:
    if ours.mean(score) is None:
        return "no score"
    sign = -1 if score == "accuracy" else 1
    means = [(entry.mean(score), entry) for entry in others]
    judged = [(sign * mean, entry) for mean, entry in means if mean is not None]
    if not judged:
        return "–"
    best = min(judged, key=lambda pair: pair[0])[1]
    return f"{against(ours, best, score)} ({TITLES[best.method]})"


def made_by(found: Sequence[Entry]) -> str:
    """The commands that make these cells again."""
    lines = "\n".join(commands(found)) or "# by calls from Python, which record no command"
    return f"Made by:\n\n```sh\n{lines}\n```"
